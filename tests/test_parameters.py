"""A parameter is declared once, and everything that speaks of it follows."""

import inspect
import math
import pickle
import sys
from datetime import timedelta

import numpy as np
import pytest
from sklearn.base import clone

import csrr
from csrr.cli.options import MODEL_OPTIONS
from csrr.model_parameters import OPTIONS
from csrr.parameters import (
    Choice,
    Duration,
    Number,
    Service,
    Whole,
    list_defaults,
    list_parameters,
    list_rivals,
    read_days,
)
from csrr.registry import HOMES, MODELS


@pytest.fixture(params=HOMES)
def kind(request):
    return MODELS[request.param]


def test_every_parameter_of_every_model_is_declared_under_its_own_name(kind):
    declared = list_parameters(kind)
    assert list(declared) == list(list_defaults(kind))
    assert {name: each.name for name, each in declared.items()} == {name: name for name in declared}
    assert all(each.meaning.endswith(".") for each in declared.values())


def test_every_default_may_be(kind):
    kind().check_params()


@pytest.mark.parametrize("bad", [object(), -1, math.nan, "much", True, [1]])
def test_what_may_not_be_is_refused_by_name(kind, bad):
    for name, declared in list_parameters(kind).items():
        if isinstance(declared, Whole | Choice | Duration | Service) or not (
            bad == -1 and declared.above is declared.least is None
        ):
            with pytest.raises(csrr.ParameterError, match=rf"^{name}="):
                kind().set_params(**{name: bad}).check_params()


@pytest.mark.parametrize(
    ("text", "value"),
    [("90", 90), ("0.5", 0.5), ("90d", "90d"), ("2 weeks", "2 weeks"), ("1.5h", "1.5h"), ("9y", "9y")],
)
def test_a_time_on_the_command_line(text, value):
    declared = Duration("A time.", name="half_life")
    assert declared.read(text) == value
    declared.check(value)
    assert declared.placeholder == "DAYS|90d"


@pytest.mark.parametrize("text", ["-1", "0", "nan", "inf", "d", "1 parsec", "1d2h", "1e400", ""])
def test_what_is_no_time_on_the_command_line(text):
    with pytest.raises(ValueError, match="is not a number of days, nor a time like 90d or 12h"):
        Duration("A time.", name="half_life").read(text)


@pytest.mark.parametrize(
    ("value", "days"),
    [
        (3, 3),
        ("36h", 1.5),
        ("90 min", 0.0625),
        ("1 Week", 7),
        ("43200s", 0.5),
        (timedelta(hours=6), 0.25),
        ("1y", 365.25),
    ],
)
def test_a_time_in_days(value, days):
    assert read_days("half_life", value) == pytest.approx(days)


def test_the_options_of_the_command_line_are_the_parameters_of_csrr():
    assert tuple(list_parameters(csrr.CSRR).values()) == OPTIONS
    assert len(MODEL_OPTIONS) == len(OPTIONS)


def test_rivals_know_each_other():
    declared = list_parameters(csrr.CSRR)
    rivals = {name: set(list_rivals(name, declared)) for name in declared}
    assert rivals["l1"] == {"reg_low_rank"}
    assert rivals["cost_ratio"] == {"positive_cost", "recall_weight"}
    assert rivals["miss_cost"] == {"positive_cost", "recall_weight"}
    assert rivals["tol"] == set()
    assert all(name in rivals[other] for name in rivals for other in rivals[name])


def test_a_space_that_tunes_a_rival_is_refused_before_the_first_trial():
    log = csrr.synthetic(60, 40, events_per_user=8).log
    with pytest.raises(csrr.ParameterError, match=r"recall_weight=0\.5 and cost_ratio"):
        csrr.tune(csrr.CSRR(recall_weight=0.5), log, trials=2)
    found = csrr.tune(csrr.CSRR(recall_weight=0.5), log, space={"user_scaling": [0.2, 0.4]}, trials=2)
    assert [trial.state for trial in found.trials] == ["done", "done"]


def test_scikit_learn_clones_every_model(kind):
    params = {"threads": 1} if "threads" in list_defaults(kind) else {}
    model = kind(**params)
    other = clone(model)
    assert type(other) is kind
    assert other is not model
    assert other.get_params(deep=False) == model.get_params() == model.get_params(deep=True)


def test_repr_shows_what_differs_from_the_defaults():
    assert repr(csrr.CSRR("II", max_rank=64)) == "CSRR(loss='II', max_rank=64)"
    assert repr(csrr.CSRR()) == "CSRR()"


def test_the_signature_shows_types_defaults_and_order():
    signature = inspect.signature(csrr.CSRR)
    kinds = [each.kind for each in signature.parameters.values()]
    assert kinds == [inspect.Parameter.POSITIONAL_OR_KEYWORD] * 2 + [inspect.Parameter.KEYWORD_ONLY] * (len(kinds) - 2)
    with pytest.raises(TypeError, match="cost"):
        csrr.CSRR(cost=3)


class TestKinds:
    def test_numbers(self):
        declared = Number("A number.", name="n", above=0, most=2, words=("auto",), optional=True)
        for good in (1, 0.5, 2, np.float32(1), np.int64(2), "auto", None):
            declared.check(good)
        for bad in (0, 2.1, math.inf, math.nan, True, "much", 10**400, [1], 1j):
            with pytest.raises(csrr.ParameterError, match=r'^n=.* must be a number > 0 and <= 2 or None or "auto"$'):
                declared.check(bad)
        assert (declared.read("0.5"), declared.read("auto")) == (0.5, "auto")
        with pytest.raises(ValueError, match="'x' is neither a number nor auto"):
            declared.read("x")
        assert declared.placeholder == "NUMBER|auto"

    def test_whole_numbers(self):
        declared = Whole("A count.", name="k", least=1)
        for good in (1, np.int32(3)):
            declared.check(good)
        for bad in (0, 1.0, True, "1", None):
            with pytest.raises(csrr.ParameterError, match=r"^k=.* must be a whole number >= 1$"):
                declared.check(bad)
        with pytest.raises(
            csrr.ParameterError, match=r"^k=1000000000000000000000000 must be at most 9223372036854775807$"
        ):
            declared.check(10**24)
        assert declared.read("12") == 12
        with pytest.raises(ValueError, match=r"'1\.5' is not a whole number"):
            declared.read("1.5")

    def test_shares(self):
        declared = Number("A share.", name="s", above=0, below=1)
        declared.check(0.3)
        for bad in (0, 1, -0.1, math.nan, "a", True):
            with pytest.raises(csrr.ParameterError, match="must be a number > 0 and < 1"):
                declared.check(bad)

    def test_choices(self):
        declared = Choice("A choice.", name="c", words=("a", "b", "c"))
        declared.check("b")
        for bad in ("d", 1, None, ["a"]):
            with pytest.raises(csrr.ParameterError, match="must be one of a, b, c"):
                declared.check(bad)
        with pytest.raises(ValueError, match="'d' is not one of a, b, c"):
            declared.read("d")


LOG = csrr.synthetic(60, 40, events_per_user=10).log
model = csrr.EASE(reg=10).fit(LOG)


class Mine(csrr.Recommender):
    def __init__(self, depth=3):
        self.depth = depth

    def fit(self, data, *, verbose=False):
        return self


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: csrr.CSRR(cost_ration=2), "CSRR has no parameter 'cost_ration'; did you mean 'cost_ratio'"),
        (lambda: csrr.WRMF(factors=16), "WRMF has no parameter 'factors'; it is called 'rank' here"),
        (lambda: csrr.WRMF(regularization=1), "it is called 'reg' here"),
        (lambda: csrr.WRMF(iterations=5), "it is called 'max_iter' here"),
        (lambda: csrr.BPRMF(iterations=5), "it is called 'epochs' here"),
        (lambda: csrr.ItemKNN(K=5), "it is called 'neighbors' here"),
        (lambda: csrr.ItemKNN(nieghbors=5), "did you mean 'neighbors'"),
        (lambda: csrr.EASE(num_threads=2), "it is called 'threads' here"),
        (lambda: csrr.EASE(factors=2), "EASE has no parameter 'factors'; it has: reg, dtype, threads"),
        (lambda: csrr.EASE().set_params(regularization=2), "it is called 'reg' here"),
        (lambda: csrr.EASE().fit(user_items=1), "fit has no parameter 'user_items'; it is called 'data' here"),
        (lambda: model.recommend(7, N=5), "recommend has no parameter 'N'; it is called 'k' here"),
        (lambda: model.recommend(7, filter_already_liked_items=False), "it is called 'exclude_seen' here"),
        (lambda: model.recommend(7, divresity=0.3), "did you mean 'diversity'"),
        (lambda: model.recommend_for([1], topk=5), "it is called 'k' here"),
        (lambda: model.fold_in([[1]]).recommend(N=5), "it is called 'k' here"),
        (lambda: model.similar_items(7, N=5), "similar_items has no parameter 'N'; it is called 'k' here"),
        (lambda: model.save(filename="x"), "it is called 'path' here"),
        (lambda: model.set_items(table={}), "set_items has no parameter 'table'; it has: items"),
        (lambda: csrr.read("clicks.csv", min_ratings=3), "read has no parameter 'min_ratings'; did you mean"),
        (lambda: csrr.split(LOG, random_state=3), "split has no parameter 'random_state'; it is called 'seed' here"),
        (lambda: csrr.evaluate(model, LOG, LOG, metric="ndcg"), "did you mean 'metrics'"),
        (lambda: csrr.evaluate(model, LOG, LOG, rules={"bost": 2}), "rules has no parameter 'bost'; did you mean"),
        (lambda: csrr.Log.from_table({}, userid="u"), "from_table has no parameter 'userid'; it is called 'user'"),
        (lambda: csrr.interop.ranking_scorer(metrics="ndcg@5"), "did you mean 'metric'"),
        (lambda: Mine(detph=2), "Mine has no parameter 'detph'; did you mean 'depth'"),
        (lambda: Mine().fit(LOG, show_progress=True), "it is called 'verbose' here"),
    ],
)
def test_a_wrong_name_of_an_argument_says_what_was_meant(call, message):
    with pytest.raises(TypeError, match=message) as told:
        call()
    assert isinstance(told.value, csrr.ParameterError)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: csrr.evaluate(LOG, model, LOG), r"model must be a model, such as csrr.EASE\(\), not "),
        (lambda: csrr.evaluate(csrr.EASE, LOG, LOG), r"not <class 'csrr.models.ease.EASE'>"),
        (lambda: csrr.evaluate(model, LOG, LOG, metrics=5), "metrics must be a list of texts, not 5"),
        (lambda: csrr.evaluate(model, LOG, LOG, threshold=None), "threshold must be a number, not None"),
        (lambda: csrr.evaluate(model, LOG, LOG, rules=5), "rules must be a dict of rules or None, not 5"),
        (lambda: csrr.compare([1, 2]), r"evaluations must be a dict of Evaluations, which .* returns, not \[1, 2\]"),
        (lambda: csrr.tabulate({"a": 5}), "evaluations must be a dict of Evaluations"),
        (lambda: csrr.export(LOG, "x"), "model must be a model"),
        (lambda: csrr.tune(model, LOG, space=5), "space must be a text or a dict, not 5"),
        (lambda: csrr.path(LOG, 5), "strengths must be a list of numbers or None, not 5"),
        (lambda: csrr.locate(None), "name must be a text, not None"),
        (lambda: model.save(None), "path must be a text or a path, not None"),
        (lambda: model.recommend(7, columns=5), "columns must be a list of texts, not 5"),
    ],
)
def test_a_wrong_kind_of_argument_says_which_it_must_be(call, message):
    with pytest.raises(csrr.ParameterError, match=message) as told:
        call()
    assert isinstance(told.value, TypeError)


def test_an_error_in_a_function_of_the_user_is_left_alone():
    def fail(tuning):
        raise AttributeError("mine")

    with pytest.raises(AttributeError, match="mine"):
        csrr.tune(csrr.EASE(), LOG, trials=1, callback=fail)


def test_other_type_errors_are_left_alone():
    class Broken(Mine):
        def fit(self, data):
            return (lambda data: data)(data, factors=3)

    with pytest.raises(TypeError, match="unexpected keyword argument 'factors'") as told:
        Broken().fit("7")
    assert not isinstance(told.value, csrr.ParameterError)
    with pytest.raises(TypeError, match="missing 1 required positional argument") as told:
        Mine().fit()
    assert not isinstance(told.value, csrr.ParameterError)


def test_public_names_are_still_found_by_pickle_and_described():
    assert pickle.loads(pickle.dumps(csrr.evaluate)) is csrr.evaluate
    assert list(inspect.signature(csrr.CSRR).parameters)[:2] == ["loss", "cost_ratio"]
    assert csrr.PopRank.fit.__qualname__ == "PopRank.fit"


def test_an_error_about_a_parameter_carries_its_data():
    with pytest.raises(csrr.ParameterError) as caught:
        csrr.EASE(reg=-1).check_params()
    assert (caught.value.parameter, caught.value.value) == ("reg", -1)
    assert str(caught.value) == f"reg=-1 {caught.value.hint}"
    with pytest.raises(csrr.ParameterError) as caught:
        csrr.CSRR(threads=sys.maxsize + 1).check_params()
    assert (caught.value.parameter, caught.value.hint) == ("threads", f"must be at most {sys.maxsize}")
    with pytest.raises(csrr.ParameterError) as caught:
        csrr.EASE(regg=1)
    assert (caught.value.parameter, caught.value.hint) == ("regg", "did you mean 'reg'?")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.parameter) == (str(caught.value), "regg")
