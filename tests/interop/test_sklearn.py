import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import csrr
from csrr.interop import PerUserSplit, ranking_scorer
from csrr.parameters import ParameterError
from csrr.registry import HOMES

sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score  # noqa: E402
from sklearn.pipeline import Pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer  # noqa: E402

QUICK = {"CSRR": {"max_rank": 3, "neighbors": 0}, "CSRRe": {"rank": 3}, "WRMF": {"rank": 3}, "BPRMF": {"rank": 3}}


@pytest.fixture(scope="module")
def events():
    return csrr.synthetic(80, 40, rank=3, events_per_user=10).log.to_frame()[["user", "item"]]


@pytest.mark.parametrize("name", HOMES)
def test_every_model_can_be_cloned_and_scored(events, name):
    model = getattr(csrr, name)(**QUICK.get(name, {}))
    copy = clone(model)
    assert type(copy) is type(model)
    assert repr(copy.get_params()) == repr(model.get_params())
    if model.uses_order:
        events = events.assign(time=range(len(events)))
    scores = cross_val_score(model, events, cv=PerUserSplit(2))
    assert scores.shape == (2,)
    assert (scores > 0).all()
    assert not model.is_fitted


def test_the_score_is_that_of_evaluate(events):
    train, test = csrr.split(csrr.Log.from_table(events), seed=3)
    model = csrr.EASE(10).fit(train)
    expected = csrr.evaluate(model, train, test, at=(5, 10))
    assert model.score(test) == model.score(test.to_frame()) == pytest.approx(expected["ndcg@10"])
    assert model.score(pa.table(test.to_arrow())) == model.score(pl.from_arrow(test.to_arrow())) == model.score(test)
    assert ranking_scorer("recall@5")(model, test.to_frame()) == pytest.approx(expected["recall@5"])


def test_scores_of_ids_stay_what_they_are(events):
    model = csrr.EASE(10).fit(events)
    expected = model.score([3, 5])
    assert expected.shape == (2, 40)
    for users in (np.array([3, 5]), pd.Series([3, 5]), pl.Series([3, 5]), pa.array([3, 5]), pa.chunked_array([[3, 5]])):
        assert np.array_equal(model.score(users), expected)


def test_a_grid_search_finds_what_scores_best_by_hand(events):
    grid = [0.1, 30.0, 1e5]
    cv = PerUserSplit(3, seed=1)
    search = GridSearchCV(csrr.EASE(), {"reg": grid}, cv=cv, error_score="raise").fit(events)
    by_hand = []
    for reg in grid:
        scores = []
        for train, test in cv.split(events):
            fitted, asked = csrr.Log.from_table(events.iloc[train]), csrr.Log.from_table(events.iloc[test])
            model = csrr.EASE(reg).fit(fitted)
            asked = asked.to_frame()[lambda frame, model=model: frame["item"].isin(model.items_.ids)]
            scores.append(csrr.evaluate(model, fitted, csrr.Log.from_table(asked), at=10)["ndcg@10"])
        by_hand.append(np.mean(scores))
    assert search.cv_results_["mean_test_score"] == pytest.approx(by_hand)
    assert search.best_params_ == {"reg": grid[int(np.argmax(by_hand))]}
    assert search.best_estimator_.seen_.nnz == len(events)
    assert len(set(by_hand)) == 3


def test_a_pipeline_filters_events_and_ends_in_a_model(events):
    rated = events.assign(rating=np.arange(len(events)) % 5)
    keep = FunctionTransformer(lambda table: table[table["rating"] >= 2][["user", "item"]])
    pipeline = Pipeline([("keep", keep), ("model", csrr.ItemKNN())])
    search = GridSearchCV(
        pipeline,
        {"model__neighbors": [2, 20]},
        cv=PerUserSplit(2),
        scoring={"ndcg": ranking_scorer("ndcg@10"), "recall": ranking_scorer("recall@5")},
        refit="ndcg",
        error_score="raise",
    ).fit(rated)
    assert search.best_estimator_["model"].seen_.nnz == (rated["rating"] >= 2).sum()
    plain = cross_val_score(pipeline, rated, cv=PerUserSplit(2), error_score="raise")
    by_name = cross_val_score(pipeline, rated, cv=PerUserSplit(2), scoring=ranking_scorer(), error_score="raise")
    assert plain == pytest.approx(by_name)


def test_other_splits_of_events_do_as_well(events):
    assert (cross_val_score(csrr.PopRank(), events, cv=KFold(3, shuffle=True, random_state=0)) > 0).all()


def test_a_matrix_is_refused_where_its_rows_were_split(events):
    matrix = csrr.Log.from_table(events).to_csr()
    with (
        pytest.warns(csrr.DataWarning, match="splits the rows of a matrix"),
        pytest.raises(ParameterError, match="does not say which of the model's users"),
    ):
        cross_val_score(csrr.PopRank(), matrix, cv=KFold(2), error_score="raise")
    with pytest.raises(csrr.DataError, match="PerUserSplit needs a table of events"):
        cross_val_score(csrr.PopRank(), matrix, cv=PerUserSplit(2), error_score="raise")
    with pytest.raises(csrr.DataError, match=r"log.to_frame\(\)"):
        next(PerUserSplit(2).split(csrr.Log.from_table(events)))


@pytest.mark.parametrize("make", [lambda X: X, lambda X: X.toarray()], ids=["sparse", "dense"])
def test_a_search_on_a_matrix_says_why_before_its_scores_are_nan(events, make):
    with warnings.catch_warnings(record=True, action="always") as told:
        GridSearchCV(csrr.EASE(), {"reg": [10]}, cv=2).fit(make(csrr.Log.from_table(events).to_csr()))
    first, *others = [str(each.message) for each in told]
    assert first.startswith("no score: scikit-learn splits the rows of a matrix, which are users")
    assert "PerUserSplit()" in first
    assert any("will be set to nan" in each for each in others)


def test_what_cannot_be_scored_is_said(events):
    model = csrr.PopRank().fit(events)
    with pytest.raises(ParameterError, match="nothing to score on"):
        model.score(events)
    with pytest.raises(ParameterError, match=r"metric='auc' must be like ndcg@10"):
        ranking_scorer("auc")
    with pytest.raises(ParameterError, match="not a KFold and a DataFrame"):
        ranking_scorer()(KFold(), events)
    with pytest.raises(csrr.NotFittedError):
        ranking_scorer()(csrr.PopRank(), events)
    with pytest.raises(ParameterError, match="n_splits=1"):
        PerUserSplit(1)
    with pytest.raises(ParameterError, match="ratio=2"):
        PerUserSplit(ratio=2)


@given(
    users=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    n_splits=st.integers(2, 5),
    ratio=st.none() | st.floats(0.1, 1),
    seed=st.integers(0, 9),
)
@settings(max_examples=60)
def test_every_user_is_in_every_train_and_every_event_in_one_part(users, n_splits, ratio, seed):
    users = np.array(users)
    table = {"user": users, "item": np.arange(len(users))}
    parts = list(PerUserSplit(n_splits, ratio=ratio, seed=seed).split(table))
    assert len(parts) == n_splits
    for train, test in parts:
        assert sorted([*train, *test]) == list(range(len(users)))
        assert set(users[train]) == set(users)
    often = np.bincount(users)[users] > 1
    times = np.bincount(np.concatenate([test for _, test in parts]), minlength=len(users))
    if ratio is None:
        assert times.tolist() == often.astype(int).tolist()
    else:
        expected = np.bincount(users) - np.maximum(np.floor(ratio * np.bincount(users) + 0.5), 1)
        assert all((np.bincount(users[test], minlength=len(expected)) == expected.clip(0)).all() for _, test in parts)


def test_csrr_alone_does_not_import_scikit_learn():
    code = "import sys, csrr; csrr.CSRR, csrr.evaluate; import csrr.interop; print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
