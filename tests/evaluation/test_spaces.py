"""The spaces: ours hold for every model, the paper's are the paper's, and bad ones are refused."""

import json

import numpy as np
import pytest

import csrr
from csrr import ParameterError, Range, Walk
from csrr.evaluation.study import PAPER, decode_space, encode_space, find_model, find_space, resolve_space
from csrr.registry import HOMES, MODELS
from tests.in_order import suit


@pytest.fixture(scope="module")
def log():
    return csrr.synthetic(60, 40, rank=4, events_per_user=8).log


def one_of(dimension):
    """Return a value of a dimension: an end of a range, the last choice, the strongest of a walk."""
    if isinstance(dimension, Range):
        return dimension.high
    return dimension.strengths[0] if isinstance(dimension, Walk) else dimension[-1]


@pytest.mark.parametrize(("name", "kind"), [*(("csrr", kind) for kind in HOMES), *(("paper", kind) for kind in PAPER)])
def test_a_point_of_every_space_can_be_fitted(log, name, kind):
    space = resolve_space(name, MODELS[kind](), log)
    params = {each: one_of(dimension) for each, dimension in space.items()}
    if name == "paper":  # the ends of its grids are beyond this small matrix, and beyond what does not diverge
        params |= {"rank": 10} if "rank" in params else {}
        params |= {"learning_rate": 0.125} if "learning_rate" in params else {}
    model = MODELS[kind](**params)
    model.fit(suit(model, log))
    assert params.items() <= model.get_params().items()
    assert np.isfinite(model.score(log.users.ids)).all()


def test_we_have_a_space_for_every_model():
    assert [name for name in HOMES if MODELS[name].search_space is None] == []


def test_the_grids_of_the_paper(log):
    decades = [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100]
    csrr_, csrre, wrmf, bprmf = (find_space("paper", MODELS[kind]) for kind in ("CSRR", "CSRRe", "WRMF", "BPRMF"))
    assert csrr_["positive_cost"] == [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]
    np.testing.assert_allclose(csrr_["l1"].strengths, decades[::-1])
    np.testing.assert_allclose(csrr_["l2"], decades)
    np.testing.assert_allclose(csrre["step"], decades)
    assert csrre["rank"] == wrmf["rank"] == bprmf["rank"] == [10, 15, 20, 25, 30, 35, 40, 45, 50]
    assert wrmf["reg"] == [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1]
    assert wrmf["confidence"] == [1]
    np.testing.assert_allclose(bprmf["reg"], np.logspace(-6, 0, 7))
    np.testing.assert_allclose(bprmf["learning_rate"], 2.0 ** np.arange(-6, 3))
    for space in (csrr_, csrre):
        assert space["user_scaling"] == space["item_scaling"] == [0.0]


def test_what_the_data_decides(log):
    assert resolve_space("csrr", csrr.WRMF(), log)["rank"] == [32, 40]
    for kind, ends in ((csrr.WRMF, (1 / 8, 4)), (csrr.EASE, (1 / 16, 16))):
        found = resolve_space("csrr", kind(), log)["reg"]
        auto = kind().fit(log).reg_
        assert (found.low, found.high) == pytest.approx((auto * ends[0], auto * ends[1]))


def test_ranges_are_whole_where_the_parameter_is(log):
    found = resolve_space({"neighbors": (2, 9.0), "shrink": (1, 9)}, csrr.ItemKNN(), log)
    assert [type(end) for each in found.values() for end in (each.low, each.high)] == [int, int, float, float]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ("ours", "space='ours': choose csrr, paper"),
        ({"rang": [3]}, "CSRR has no parameter 'rang'"),
        ({"tol": []}, "must be a list of choices"),
        ({"tol": 0.1}, "must be a list of choices"),
        ({"tol": [[1]]}, "must be a number, a text"),
        ({"tol": [float("nan")]}, "must be a number, a text"),
        ({"tol": (1, 2, 3)}, "choices go in a list"),
        ({"tol": (2, 1)}, "to a larger one"),
        ({"tol": (0, "a")}, "to a larger one"),
        ({"tol": Range(0, 1, log=True)}, "must begin above 0, for a logarithm"),
        ({"max_iter": (1, 2.5)}, "from a whole number"),
        ({"tol": Walk((1, 2))}, "only reg_low_rank and l1 of CSRR"),
        ({"reg_low_rank": Walk(())}, "must have strengths"),
        ({"reg_low_rank": Walk((0.5, 0.0))}, "must have strengths"),
    ],
)
def test_bad_spaces(log, space, message):
    with pytest.raises(ParameterError, match=message):
        resolve_space(space, csrr.CSRR(), log)


def test_the_paper_has_no_ease(log):
    with pytest.raises(ParameterError, match="space='paper' has nothing for EASE"):
        resolve_space("paper", csrr.EASE(), log)


@pytest.mark.parametrize(
    ("space", "params"),
    [
        *(("csrr", params) for params in ({"l1": 2.0}, {"l2": 1.0}, {"positive_cost": 0.7})),
        *(("paper", params) for params in ({"reg_low_rank": 0.1}, {"reg_sparse": 0.7}, {"cost_ratio": 3.0})),
        ({"miss_cost": [2.0, 3.0]}, {"positive_cost": 0.7}),
        ({"false_alarm_cost": [2.0, 3.0]}, {"recall_weight": 0.7}),
    ],
)
def test_what_is_tuned_may_not_be_said_in_another_way(log, space, params):
    with pytest.raises(ParameterError, match=f"{next(iter(params))}=.* say the same; leave out one"):
        resolve_space(space, csrr.CSRR(**params), log)


def test_a_default_says_nothing(log):
    # Beside costs of decisions the ratio is the weight.
    assert "cost_ratio" in resolve_space("csrr", csrr.CSRR(miss_cost=2.0, false_alarm_cost=1.0), log)
    assert "l2" in resolve_space("paper", csrr.CSRR(reg_sparse=csrr.CSRR().reg_sparse), log)
    assert resolve_space({"miss_cost": [2.0, 3.0]}, csrr.CSRR(false_alarm_cost=1.0), log) == {"miss_cost": [2.0, 3.0]}


@pytest.mark.parametrize("names", [("l1", "reg_low_rank"), ("reg_sparse", "l2"), ("cost_ratio", "recall_weight")])
def test_a_space_says_a_thing_once(log, names):
    with pytest.raises(ParameterError, match="space: {} and {} say the same".format(*names)):
        resolve_space({name: [0.5, 0.6] for name in names}, csrr.CSRR(), log)


def test_a_space_survives_json(log):
    space = resolve_space("csrr", csrr.CSRR(), log)
    assert decode_space(json.loads(json.dumps(encode_space(space)))) == space


@pytest.mark.parametrize("plain", [3, {"tol": {"low": 1}}, {"l1": {"walk": 3}}, {"l1": {"walk": ["a"]}}])
def test_bad_json(plain):
    with pytest.raises(ParameterError):
        decode_space(plain)


def test_models_by_name_class_and_self():
    assert [type(find_model(name)) for name in ("CSRR-e", "item_knn", "wrmf")] == [csrr.CSRRe, csrr.ItemKNN, csrr.WRMF]
    assert isinstance(find_model(csrr.EASE), csrr.EASE)
    model = csrr.EASE(reg=3)
    assert find_model(model) is model
    for bad in ("no", csrr.Recommender, 3):
        with pytest.raises(ParameterError, match="must be a model"):
            find_model(bad)
