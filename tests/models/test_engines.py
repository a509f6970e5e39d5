"""Models on an engine that keeps blocks of users apart and refuses numpy on them give what they give on threads."""

import copy
from functools import cache

import numpy as np
import pytest

import csrr
from csrr.numerics.thread_engine import ThreadEngine
from csrr.registry import MODELS
from tests.reference.engine import OPERATIONS, BlockEngine

ENGINES = {
    "blocks": lambda: BlockEngine(40),
    "device": lambda: pytest.importorskip("csrr.numerics.cuda_engine").CudaEngine("cpu"),
}
GIVEN = {"cost_ratio": 2.0, "reg_low_rank": 0.1, "dtype": "float64", "tol": 1e-5}
CASES = {
    "CSRR, a search": ("CSRR", {}),
    "CSRR, neighbors": ("CSRR", GIVEN | {"neighbors": 10}),
    "CSRR, neighbors of heavy clicks": ("CSRR", GIVEN | {"cost_ratio": 8.0, "neighbors": 10}),
    "CSRR, V": ("CSRR", GIVEN | {"reg_sparse": 0.4, "neighbors": 0}),
    "CSRR, loss II": ("CSRR", GIVEN | {"loss": "II", "neighbors": 0}),
    "CSRR, the noise level": ("CSRR", GIVEN | {"reg_low_rank": "noise", "denoise": 1.0, "neighbors": 5}),
    "CSRR, weights": ("CSRR", GIVEN | {"event_weights": "log", "neighbors": 5}),
    # Scores of suspects jump where rounding moves a click across the edge of a bin.
    "CSRR, order": ("CSRR", GIVEN | {"order": "next", "neighbors": 5, "tol": 1e-7}),
    "CSRR, the paper's box": ("CSRR", GIVEN | {"box": "paper", "max_iter": 20}),
    "CSRR, limited rank": ("CSRR", GIVEN | {"max_rank": 6, "neighbors": 0}),
    "CSRRe": ("CSRRe", GIVEN | {"rank": 8, "neighbors": 5}),
    "CSRRe, nonnegative": ("CSRRe", GIVEN | {"rank": 8, "factors": "nonnegative"}),
    "MCShift": ("MCShift", {"dtype": "float64", "tol": 1e-5}),
    "BiasMC": ("BiasMC", {"dtype": "float64", "tol": 1e-5}),
    "WRMF": ("WRMF", {"rank": 8, "reg": 5.0, "tol": 1e-7}),
    "WRMF, a search": ("WRMF", {"rank": 4}),
    "WRMF, weights": ("WRMF", {"rank": 8, "reg": 5.0, "event_weights": "linear"}),
}


@pytest.fixture(scope="module")
def log():
    """170 users, of whom enough can spare an event for a search, with weights and times."""
    log, rng = csrr.synthetic(170, 60, rank=4, events_per_user=12, seed=1).log, np.random.default_rng(0)
    weights, times = rng.integers(1, 6, len(log)), rng.integers(0, 10**6, len(log))
    return csrr.read({"user": log.user_rows, "item": log.item_rows, "weight": weights, "time": times})


def fit(name, params, log):
    """A model, and what it gives after the fit of each kind, in numpy arrays."""
    model = MODELS[name](**params).fit(log)
    rows = np.arange(len(model.users_))
    histories = [[1, 5, 9], [2]] if model.history_weight is None else [{1: 2.0, 5: 1.0, 9: 1.0}, {2: 3.0}]
    new_items = csrr.read({"user": [3, 5, 9], "item": [600, 600, 601], "weight": [1, 2, 1], "time": [10**6] * 3})
    found = {
        "scores": model.score_rows(rows),
        "fold-in": model.fold_in(histories).score(),
        "new items": model.fold_in_items(new_items).score(),
    }
    if model.can("suspects"):
        found["suspects"] = model.suspects().scores
    more = csrr.read({"user": [0, 1, 400], "item": [500, 2, 2], "weight": [1, 2, 1], "time": [10**6] * 3})
    return model, found | {"updated": copy.copy(model).update(more).score_rows(np.arange(171))}


@pytest.fixture(scope="module")
def fitted(log):
    """The fits on threads, made once."""
    return cache(lambda case: fit(*CASES[case], log))


@pytest.mark.parametrize("make_engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("case", CASES)
def test_the_engine_changes_nothing(case, make_engine, log, fitted, monkeypatch):
    name, params = CASES[case]
    model, mine = fitted(case)
    engine = make_engine()
    with monkeypatch.context() as patched:
        for each in OPERATIONS:
            patched.setattr(ThreadEngine, each, None)
        other, theirs = fit(name, params | {"engine": engine}, log)
    for part, value in mine.items():
        error = np.abs(theirs[part] - value).max() / np.abs(value).max()
        assert error < 1e-2, f"{part}: {error}"
    np.testing.assert_allclose(other.explain(3, 7).amounts, model.explain(3, 7).amounts, atol=1e-3)
    if hasattr(model, "certificate_"):
        ours, its = model.certificate_, other.certificate_
        assert its.primal == pytest.approx(ours.primal, rel=1e-5)
        assert its.gap <= max(model.tol, 1.01 * ours.gap)
        assert (its.status, its.rank) == (ours.status, ours.rank)
    alike = other.recommend(k=5).items == model.recommend(k=5).items
    assert alike.mean() > 0.98


def test_a_file_does_not_keep_the_engine(log, tmp_path):
    model = csrr.CSRR(**GIVEN, engine=BlockEngine(100)).fit(log)
    model.save(tmp_path / "model.csrr")
    loaded = csrr.load(tmp_path / "model.csrr")
    assert loaded.engine == "auto"
    np.testing.assert_array_equal(loaded.score_rows(np.arange(9)), model.score_rows(np.arange(9)))


def test_a_study_goes_on_with_an_engine(log, tmp_path):
    model, space = csrr.WRMF(rank=4, reg=5.0, engine=BlockEngine(100)), {"reg": [1.0, 5.0]}
    for trials in (1, 2):
        found = csrr.tune(model, log, space=space, trials=trials, storage=tmp_path / "study.json")
    assert len(found.trials) >= 2


def test_what_is_no_engine_is_refused(log):
    with pytest.raises(
        csrr.ParameterError, match="engine='gpu' must be an object with the methods put, put_cells, get or \"auto\" or"
    ):
        csrr.CSRR(engine="gpu").fit(log)


def test_an_engine_by_name(log):
    mine, theirs = (csrr.CSRR(**GIVEN, neighbors=5, engine=name).fit(log) for name in ("auto", "threads"))
    np.testing.assert_array_equal(mine.score_rows(np.arange(9)), theirs.score_rows(np.arange(9)))
