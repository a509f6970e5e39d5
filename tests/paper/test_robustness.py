"""The robustness benchmark: each number against what it is defined as, results that are kept, curves that are drawn."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t, ttest_rel

import csrr
import csrr_paper
from csrr.evaluation.statistics import correct_holm
from csrr.report.svg import draw_panel, list_series_names
from csrr_paper.noise_experiment import (
    ABSOLUTE,
    MANY,
    RARE,
    RELATIVE,
    SUSPECTS,
    auc,
    measure_target_hits,
    score_by_detector,
)
from csrr_paper.results import ResultStore
from csrr_paper.summary_types import Figure
from csrr_paper.systems import CSRR_WITH_V, CSRR_WITHOUT_V, NOISE_SYSTEMS

LOG = csrr.synthetic(80, 48, rank=3, events_per_user=10, noise=0).log
SYSTEMS = (CSRR_WITH_V, CSRR_WITHOUT_V, "EASE")
ASKED = {"kinds": ("random", "push"), "shares": (0, 0.3), "systems": SYSTEMS, "seeds": 2}


@pytest.fixture(scope="module", autouse=True)
def few_points():
    """Try less than the benchmark does, and on one core: the log is too small to share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(NOISE_SYSTEMS[CSRR_WITH_V].space, "reg_sparse", [1.0, 0.7])
        for name in (CSRR_WITH_V, CSRR_WITHOUT_V):
            fixed = {**NOISE_SYSTEMS[name].fixed, "threads": 1}
            patch.setitem(NOISE_SYSTEMS, name, replace(NOISE_SYSTEMS[name], fixed=fixed, multiples=(1.4, 0.9, 0.6)))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("robustness") / "results"


@pytest.fixture(scope="module")
def found(folder):
    return csrr_paper.robustness(LOG, **ASKED, folder=folder)


def line_of(found, kind, seed, system):
    (line,) = [each for each in found.lines if (each.kind, each.seed, each.system) == (kind, seed, system)]
    return line


def noisy_parts(kind, seed):
    train, test = csrr.split(LOG, ratio=0.8, seed=seed)
    return train, test, csrr.add_noise(train, kind, 0.3, seed=seed, avoid=test)


# Detection


def test_auc_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(0)
    scores, planted = rng.integers(0, 6, 40), rng.random(40) < 0.4
    pairs = [(a > b) + (a == b) / 2 for a in scores[planted] for b in scores[~planted]]
    assert auc(scores, planted) == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize("planted", [np.zeros(3, bool), np.ones(3, bool)])
def test_auc_needs_both_sides(planted):
    with pytest.raises(csrr.DataError, match="planted events and genuine ones"):
        auc(np.arange(3.0), planted)


def test_detectors_are_residuals_in_the_units_of_a_click_and_of_the_objective():
    _, _, noisy = noisy_parts("random", 0)
    log = noisy.log
    model = csrr.CSRR(user_scaling=0.3, item_scaling=0.2, reg_sparse=0.6, tol=1e-5).fit(log)
    scores = score_by_detector(model, log)
    users, items = log.users.ids[log.user_rows], log.items.ids[log.item_rows]
    assert scores[RELATIVE] == pytest.approx(1 - model.score(users, items), abs=1e-5)
    counts = log.user_counts()[log.user_rows], log.item_counts()[log.item_rows]
    assert scores[ABSOLUTE] == pytest.approx(counts[0] ** -0.3 * counts[1] ** -0.2 * scores[RELATIVE], abs=1e-6)
    # V is what the relative residual has above reg_sparse.
    v = np.asarray(model.specific_[log.user_rows, log.item_rows]).ravel()
    assert v == pytest.approx(np.clip(scores[RELATIVE] - 0.6, 0, None), abs=1e-3)
    assert v.max() > 0.1
    assert scores[MANY].tolist() == counts[0].tolist()
    assert scores[RARE].tolist() == (-counts[1]).tolist()
    assert np.array_equal(scores[SUSPECTS], model.suspects().scores)


def test_target_hits_are_counted_over_those_who_lack_the_target():
    train, _, noisy = noisy_parts("push", 0)
    model = csrr.EASE().fit(noisy.log)
    (target,) = noisy.targets
    lacking = [user for user in train.users if train.items.ids[target] not in train.history(user)]
    lists = model.recommend(lacking, k=10).items
    hits = np.mean([train.items.ids[target] in each for each in lists])
    assert 0 < hits <= 1
    assert measure_target_hits(model, train, noisy.targets) == pytest.approx(hits)


# The run


def test_no_noise_is_fitted_once_a_split_and_everything_else_once_a_kind_and_share(found):
    asked = [(line.kind, line.share, line.seed, line.system) for line in found.lines]
    settings = [(None, 0.0), ("random", 0.3), ("push", 0.3)]
    assert asked == [(*each, seed, system) for seed in (0, 1) for each in settings for system in SYSTEMS]


@pytest.mark.parametrize("kind", ["random", "push"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_line_is_what_the_chosen_parameters_give_on_clean_test_data(found, kind, system):
    line = line_of(found, kind, 1, system)
    train, test, noisy = noisy_parts(kind, 1)
    model = NOISE_SYSTEMS[system].model(**line.params).fit(noisy.log)
    assert line.ndcg == pytest.approx(csrr.evaluate(model, noisy.log, test, at=10)["ndcg@10"])
    clean = NOISE_SYSTEMS[system].model(**line_of(found, None, 1, system).params).fit(train)
    theirs = noisy.log.to_csr()[: train.n_users]
    scores = clean.score(train.users.ids)
    scores[theirs.nonzero()] = -np.inf
    ideal = 1 / np.log2(np.arange(2, 12))
    values = []
    for user, wanted in enumerate(np.split(test.to_csr().indices, test.to_csr().indptr[1:-1])):
        if len(wanted):
            best = np.argsort(-scores[user], kind="stable")[:10]
            values.append((np.isin(best, wanted) * ideal).sum() / ideal[: len(wanted)].sum())
    assert line.clean_ndcg == pytest.approx(np.mean(values), abs=1e-6)
    assert line.kept == line.ndcg / line.clean_ndcg


@pytest.mark.parametrize("kind", ["random", "push"])
def test_parameters_are_chosen_on_what_is_held_out_of_the_noisy_log(found, folder, kind):
    _, _, noisy = noisy_parts(kind, 1)
    kept, held_out = csrr.split(noisy.log, ratio=0.9, seed=1)
    regs = NOISE_SYSTEMS["EASE"].list_tried_on(noisy.log)["reg"]
    values = [csrr.evaluate(csrr.EASE(reg=reg).fit(kept), kept, held_out, at=10)["ndcg@10"] for reg in regs]
    assert len(set(values)) > 1
    assert line_of(found, kind, 1, "EASE").params == {"reg": regs[int(np.argmax(values))]}
    (row,) = [
        row
        for row in ResultStore(folder).read_all()
        if (row.task.split, row.task.params["kind"], row.task.system) == (1, kind, "EASE")
    ]
    assert row.tuning["value"] == pytest.approx(max(values))


def test_without_noise_everything_is_kept(found):
    for line in found.lines:
        if line.kind is None:
            assert line.kept == 1
            assert not line.aucs
            assert line.target_hits is not None


def test_the_model_with_v_finds_what_it_is_asked_to_find(found):
    for seed in (0, 1):
        _, _, noisy = noisy_parts("random", seed)
        line = line_of(found, "random", seed, CSRR_WITH_V)
        model = csrr.CSRR(**line.params).fit(noisy.log)
        for name, scores in score_by_detector(model, noisy.log).items():
            assert line.aucs[name] == pytest.approx(auc(scores, noisy.planted))
        assert line.aucs[RELATIVE] > 0.6
    assert not line_of(found, "random", 0, "EASE").aucs


def test_a_push_is_felt(found):
    for system in SYSTEMS:
        hits = [line_of(found, kind, 0, system).target_hits for kind in (None, "push")]
        assert hits[1] > hits[0] + 0.2
        assert line_of(found, "random", 0, system).target_hits is None


def test_what_is_tried_with_v_holds_what_is_tried_without(found, folder):
    kept = {
        (row.task.split, row.task.params["kind"], row.task.system): row.tuning["value"]
        for row in ResultStore(folder).read_all()
    }
    for (seed, kind, system), value in kept.items():
        if system == CSRR_WITHOUT_V:
            assert kept[seed, kind, CSRR_WITH_V] >= value
    assert {line.params["reg_sparse"] for line in found.lines if line.system == CSRR_WITHOUT_V} == {1.0}


def test_what_is_there_is_not_done_again_and_what_is_not_comes_out_the_same(found, folder):
    told = []
    again = csrr_paper.robustness(LOG, **ASKED, folder=folder, callback=told.append)
    assert again.lines == found.lines
    assert told == []
    (lost,) = [
        path
        for path in (folder / "rows").glob("*-ease-1-*.json")
        if json.loads(path.read_text())["task"]["params"]["kind"] == "random"
    ]
    lost.unlink()
    again = csrr_paper.robustness(LOG, **ASKED, folder=folder, callback=told.append)
    assert [(each.done, each.total, each.now) for each in told] == [(14, 18, "split 1, random, 30%: EASE")]
    assert told[0].seconds_left > 0
    one, two = (line_of(each, "random", 1, "EASE") for each in (found, again))
    assert (one.ndcg, one.clean_ndcg, one.params) == (two.ndcg, two.clean_ndcg, two.params)


def test_results_of_what_was_tried_before_are_not_taken_for_those_of_what_is_tried_now(folder, found, monkeypatch):
    monkeypatch.setitem(NOISE_SYSTEMS, "EASE", replace(NOISE_SYSTEMS["EASE"], multiples=(1.0,)))
    told = []
    csrr_paper.robustness(LOG, **ASKED, folder=folder, callback=told.append)
    assert [each.now.split(": ")[1] for each in told] == ["EASE"] * 6


# What is shown


def test_figures_have_a_panel_a_kind_and_a_line_a_system_or_detector(found):
    figures = found.figures()
    assert [*figures] == ["robustness", "kept", "detection", "push"]
    for name, figure in figures.items():
        panels = Figure.from_json(figure).panels
        assert len(panels) == (1 if name == "push" else 2)
        names = list_series_names(panels)
        assert names == (found.detectors if name == "detection" else list(SYSTEMS))
        assert all(draw_panel(panel, names).svg.startswith("<svg") for panel in panels)
    points = figures["robustness"]["panels"][0]["series"][0]["points"]
    values = [[line_of(found, kind, seed, CSRR_WITH_V).ndcg for seed in (0, 1)] for kind in (None, "random")]
    assert [point["x"] for point in points] == [0, 0.3]
    assert [point["mean"] for point in points] == pytest.approx(np.mean(values, axis=1))
    assert all(point["low"] < point["mean"] < point["high"] for point in points)
    assert [point["x"] for point in figures["detection"]["panels"][0]["series"][0]["points"]] == [0.3]
    assert (found.title, found.caption, found.panels) == tuple(
        figures["robustness"][name] for name in ("title", "caption", "panels")
    )


def test_what_v_is_worth_is_a_paired_test_over_splits(found):
    rows = found.worth_of_v().to_pylist()
    assert [(row["kind"], row["share"]) for row in rows] == [
        (None, 0),
        ("random", 0.3),
        ("random", None),
        ("push", 0.3),
        ("push", None),
    ]
    clean = [
        np.mean([line_of(found, None, seed, each).ndcg for seed in (0, 1)]) for each in (CSRR_WITH_V, CSRR_WITHOUT_V)
    ]
    assert rows[0]["difference"] == pytest.approx(clean[0] - clean[1])
    mine, theirs = (
        [line_of(found, "push", seed, each).ndcg for seed in (0, 1)] for each in (CSRR_WITH_V, CSRR_WITHOUT_V)
    )
    assert rows[3]["difference"] == pytest.approx(np.mean(mine) - np.mean(theirs))
    if mine != theirs:
        # Two splits share training events: the variance of the mean is s^2*(1/2 + test/train), not s^2/2.
        plain = ttest_rel(mine, theirs)
        assert rows[3]["t_p"] == pytest.approx(2 * t.sf(abs(plain.statistic) * np.sqrt(0.5 / 0.75), 1))
        assert rows[3]["t_p"] > plain.pvalue
    assert [row["t_p_holm"] for row in rows] == pytest.approx(correct_holm([row["t_p"] for row in rows]))
    assert rows[3]["difference"] == rows[4]["difference"]


def test_tables_and_summary_hold_it_all(found):
    table = found.to_arrow()
    assert table.num_rows == 18
    assert {"kind", "share", "seed", "system", "ndcg", "kept", "target_hits", f"auc, {RELATIVE}"} <= set(
        table.column_names
    )
    assert json.loads(table["params"].to_pylist()[0]) == found.lines[0].params
    again = csrr_paper.Robustness.from_arrow(table)
    assert (again.lines, again.about) == (found.lines, found.about)
    summary = json.loads(json.dumps(found.summary(), allow_nan=False))
    assert summary["figures"].keys() == found.figures().keys()
    assert len(summary["worth_of_v"]) == 5
    text = repr(found)
    assert text.startswith("Robustness: 2 splits, 18 results\n")
    mean = f"{found.panels[0]['series'][0]['points'][0]['mean']:.4f}"
    assert mean in text
    page = found._repr_html_()
    assert page.startswith("<p>Robustness: 2 splits, 18 results</p>")
    assert f">{mean}<" in page
    assert page.count("<table>") == text.count("\n\n")


def test_one_split_has_no_intervals_and_nothing_to_pair():
    found = csrr_paper.robustness(LOG, kinds=["crawler"], shares=[0.2], systems=["EASE"], seeds=1)
    assert found.panels[0]["series"][0]["points"][1]["low"] is None
    assert found.summary()["worth_of_v"] == []
    assert "EASE" in repr(found)
    with pytest.raises(csrr.ParameterError, match="takes the systems 'CSRR' and 'CSRR without V'"):
        found.worth_of_v()


def test_what_v_is_worth_takes_two_splits(found):
    with pytest.raises(csrr.ParameterError, match="takes at least two splits"):
        csrr_paper.Robustness([line for line in found.lines if line.seed == 0]).worth_of_v()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"kinds": ["noise"]}, csrr.ParameterError, "kind='noise' must be one of"),
        ({"shares": [0.1, 1.5]}, csrr.ParameterError, "share=1.5"),
        ({"shares": [0]}, csrr.ParameterError, "give at least one kind of noise and a share above 0"),
        ({"kinds": []}, csrr.ParameterError, "give at least one kind of noise and a share above 0"),
        (
            {"systems": ["SVD"]},
            csrr.ParameterError,
            "systems='SVD' must be one of CSRR, CSRR without V, CSRR as it comes, WRMF",
        ),
        ({"systems": []}, csrr.ParameterError, "must have at least one of CSRR"),
        ({"seeds": 0}, csrr.ParameterError, "seeds=0"),
        ({"seeds": [1, -1]}, csrr.ParameterError, "seeds=-1"),
        ({"seeds": []}, csrr.ParameterError, "must be their number, or a list of at least one"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_fitted(tmp_path, arguments, error, message):
    with pytest.raises(error, match=message):
        csrr_paper.robustness(LOG, **arguments, folder=tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_the_strengths_that_are_tried_follow_the_log():
    _, _, noisy = noisy_parts("random", 0)
    (fractions,) = NOISE_SYSTEMS[CSRR_WITHOUT_V].list_tried_on(noisy.log).values()
    auto, whole = (csrr.CSRR(reg_low_rank=each).strength(noisy.log) for each in ("auto", 1.0))
    assert fractions.strengths == pytest.approx(
        np.array(NOISE_SYSTEMS[CSRR_WITHOUT_V].multiples) * auto / whole, rel=1e-3
    )
    counts = noisy.log.item_counts()
    regs = NOISE_SYSTEMS["EASE"].list_tried_on(noisy.log)["reg"]
    auto = 5 * np.sqrt((counts.astype(float) ** 2).sum() / (noisy.log.user_counts() > 0).sum())
    assert regs == pytest.approx(np.array(NOISE_SYSTEMS["EASE"].multiples) * auto, rel=1e-3)
