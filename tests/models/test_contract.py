"""What holds for every model."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import csrr
from csrr import CSRR, NotFittedError
from csrr.models.load import MODELS as BY_NAME

MODELS = list(BY_NAME.values())


@pytest.fixture(params=MODELS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(log):
    return {kind: kind().fit(log) for kind in MODELS}


@pytest.fixture
def model(kind, fitted):
    return fitted[kind]


def test_fit_returns_self_and_refit_overwrites(kind, log, named):
    model = kind()
    assert model.fit(log) is model
    before = model.recommend(k=5)
    model.fit(named)
    assert model.users_ == named.users
    with pytest.raises(csrr.UnknownIdError):
        model.recommend(0)
    model.fit(log)
    np.testing.assert_array_equal(model.recommend(k=5).items, before.items)


def test_refit_on_other_sizes(kind, log):
    model = kind().fit(log)
    model.fit({"user": [1, 1, 2, 2, 3], "item": ["a", "b", "b", "c", "a"]})
    assert model.recommend(k=1).items.shape == (3, 1)
    assert model.score(1).shape == (1, 3)


def test_lists_hold_k_unseen_items(model, clicks):
    recs = model.recommend(k=7)
    assert recs.items.shape == recs.scores.shape == (80, 7)
    assert not np.take_along_axis(clicks, recs.items, 1).any()
    assert all(len(set(row)) == 7 for row in recs.items.tolist())
    assert (np.diff(recs.scores, axis=1) <= 0).all()


def test_own_ids_come_back(kind, named, model):
    own = kind().fit(named)
    recs, plain = own.recommend(k=6), model.recommend(k=6)
    assert recs.users.tolist() == [f"Zoë {i:03d}" for i in range(80)]
    assert recs.items.dtype == np.int64
    np.testing.assert_array_equal(recs.items, plain.items * 7 - 100)
    np.testing.assert_array_equal(own.recommend("Zoë 005", k=6).items[0], recs.items[5])


def test_all_kinds_of_input_are_one(kind, log, clicks):
    frame = log.to_frame()
    expected = kind().fit(log).recommend(k=5)
    for data in (
        clicks,
        sparse.coo_array(clicks),
        sparse.csc_matrix(clicks),
        frame,
        pl.from_pandas(frame),
        log.to_arrow(),
    ):
        recs = kind().fit(data).recommend(k=5)
        np.testing.assert_array_equal(recs.items, expected.items)
        np.testing.assert_array_equal(recs.scores, expected.scores)
    assert isinstance(frame, pd.DataFrame)


def test_the_order_of_the_events_is_nothing(kind, log):
    frame = log.to_frame()
    shuffled = frame.sample(frac=1, random_state=0)
    np.testing.assert_array_equal(kind().fit(frame).recommend(k=5).items, kind().fit(shuffled).recommend(k=5).items)


def test_saved_and_loaded(kind, named, tmp_path):
    model = kind().fit(named)
    model.save(tmp_path / "m.csrr")
    again = csrr.load(tmp_path / "m.csrr")
    assert type(again) is kind
    assert again.get_params() == model.get_params()
    assert repr(again) == repr(model)
    one, two = model.recommend(k=8), again.recommend(k=8)
    np.testing.assert_array_equal(one.items, two.items)
    np.testing.assert_array_equal(one.scores, two.scores)
    again.save(tmp_path / "n.csrr")
    assert (tmp_path / "n.csrr").read_bytes() == (tmp_path / "m.csrr").read_bytes()


def test_parameters_and_clones(kind, log, model):
    clone = type(model)(**model.get_params())
    assert not clone.is_fitted
    assert clone.get_params() == model.get_params()
    np.testing.assert_array_equal(clone.fit(log).recommend(k=4).items, model.recommend(k=4).items)
    with pytest.raises(ValueError, match="has no parameter 'rnak'"):
        clone.set_params(rnak=3)


def test_not_fitted(kind, tmp_path):
    model = kind()
    for ask in (model.recommend, lambda: model.score(0), lambda: model.save(tmp_path / "x")):
        with pytest.raises(NotFittedError, match=f"this {kind.__name__} is not fitted yet"):
            ask()
    assert not list(tmp_path.iterdir())


def test_not_fitted_csrr():
    model = CSRR()
    for ask in (
        lambda: model.fold_in([[1]]),
        lambda: model.recommend_for([1]),
        lambda: model.explain(0, 0),
        lambda: model.specific_preferences(0),
        lambda: model.similar_items(0),
    ):
        with pytest.raises(NotFittedError):
            ask()
