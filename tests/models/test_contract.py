"""What holds for every model."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import csrr
from csrr import BPRMF, CSRR, NotFittedError, registry
from csrr.model_parameters import Order
from csrr.parameters import declare, list_parameters
from csrr.registry import MODELS as BY_NAME
from tests.in_order import put_in_order, suit


@declare
class NextCSRR(CSRR):
    """A CSRR that predicts what comes next."""

    order: Order = "next"


MODELS = [*BY_NAME.values(), NextCSRR]


@pytest.fixture(params=MODELS)
def kind(request, monkeypatch):
    # For files, of this test alone.
    monkeypatch.setitem(registry._added, "NextCSRR", NextCSRR)
    if request.param().uses_order:
        for module in ("estimator", "foldin"):
            monkeypatch.setattr(f"csrr.models.{module}.as_log", put_in_order)
    return request.param


@pytest.fixture(scope="module")
def fitted(log):
    return {kind: kind().fit(suit(kind, log)) for kind in MODELS}


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


def test_those_that_can_judge_clicks_do_and_the_others_say_so(model):
    if model.can("suspects"):
        assert len(model.suspects()) == model.seen_.nnz
    else:
        with pytest.raises((NotImplementedError, csrr.ParameterError), match=type(model).__name__):
            model.suspects()


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


# A history says less than a fit where the fit draws lots: BPRMF samples pairs, so only the rankings are alike.
ALIKE = {BPRMF: 0.95}


def test_a_training_history_folded_in_is_its_owner(kind, model, log):
    folded = model.fold_in(log)
    ours, theirs = folded.score(), model.score(np.arange(80))
    assert len(folded) == 80
    assert ours.dtype == np.float32
    if kind in ALIKE:
        assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > ALIKE[kind]
    else:
        np.testing.assert_allclose(ours, theirs, atol=2e-3 * np.abs(theirs).max())
        np.testing.assert_array_equal(folded.recommend(1).items, model.recommend(k=1).items)


def test_new_people_by_lists_by_a_table_and_alone(model, log):
    histories = [log.history(user).tolist() for user in (3, 50)]
    lists = model.fold_in(histories)
    table = model.fold_in(
        {"user": ["a"] * len(histories[0]) + ["b"] * len(histories[1]), "item": [*histories[0], *histories[1]]}
    )
    assert table.users.tolist() == ["a", "b"]
    np.testing.assert_allclose(table.score(), lists.score(), atol=1e-4 * np.abs(lists.score()).max())
    recs = lists.recommend(5)
    for history, items in zip(histories, recs.items, strict=True):
        assert not set(items) & set(history)
        alone = model.recommend_for(history, 5)
        assert alone.items.shape == (1, 5)
        assert len(set(alone.items[0]) & set(items)) >= 4  # solved alone, a tie in rounding may fall otherwise
    few = model.recommend_for(histories[0], 3, candidates=[*histories[0], 1, 2, 30], exclude=[30])
    assert set(few.items[0]) <= {1, 2, None}
    np.testing.assert_array_equal(model.recommend_for(7, 3).items, model.recommend_for([7], 3).items)
    assert set(lists.recommend(60, exclude_seen=False).items[0]) == set(range(60))


def test_the_order_of_a_history_and_repeats_are_nothing_or_what_the_model_is_for(model, log):
    history = log.history(3).tolist()
    scores = model.fold_in([history]).score()
    if model.uses_order:
        assert np.abs(model.fold_in([history[::-1]]).score() - scores).max() > 1e-3
        later = model.fold_in([history[2:] + history[:2], history + history[:2]]).score()
        np.testing.assert_array_equal(*later)
        return
    np.testing.assert_allclose(model.fold_in([history[::-1]]).score(), scores, atol=1e-5)
    np.testing.assert_allclose(model.fold_in([history + history[:2]]).score(), scores, atol=1e-5)


def test_histories_that_make_no_sense(model):
    with pytest.raises(csrr.UnknownIdError, match="unknown item id: 999"):
        model.fold_in([[1], [999]])
    with pytest.raises(csrr.ParameterError, match="at least one history"):
        model.fold_in([])
    for flat in ([1, 2, 3], [1.5], ["a"]):
        with pytest.raises(csrr.ParameterError, match="list of histories"):
            model.fold_in(flat)


def test_explanations_sum_to_the_score(model, log):
    if not model.can("explain"):
        pytest.skip(f"{type(model).__name__} does not explain")
    for user, item in ((0, 2), (7, 40), (33, 59)):
        why = model.explain(user, item)
        assert sorted(why.items) == sorted(log.history(user))
        assert why.score == pytest.approx(float(model.score(user, item)[0]), abs=1e-6)
        assert why.amounts.sum() == pytest.approx(why.score, abs=1e-5)
        assert (np.diff(why.amounts) <= 0).all()
        assert why.title == log.titles[item]
        assert str(why).startswith(f"{why.title} (item {item}) for user {user}: score ")


def test_threads_and_the_seed(kind, log):
    names = kind().get_params()
    if "threads" not in names:
        pytest.skip(f"{kind.__name__} has nothing to share out")
    one, two, again = (kind(threads=threads).fit(log).score(np.arange(80)) for threads in (1, 2, 1))
    np.testing.assert_array_equal(one, again)
    # What stopping at a tolerance leaves open; the models' own tests ask for more.
    np.testing.assert_allclose(two, one, atol=0.01 * np.abs(one).max())


def test_a_parameter_that_is_nonsense_is_refused_by_name(kind, log):
    for name in kind().get_params():
        with pytest.raises(csrr.ParameterError, match=name):
            kind(**{name: "nonsense"}).fit(log)


def test_asking_changes_nothing(kind):
    for shape in ((4, 1), (4, 3)):
        model = kind().fit(np.ones(shape))
        before = model.score(np.arange(4))
        model.recommend_for([0])
        if model.can("similar_items"):
            assert len(model.similar_items(0)) == shape[1] - 1
        if model.can("explain"):
            model.explain(0, 0)
        np.testing.assert_array_equal(model.score(np.arange(4)), before)


def test_a_fit_that_fails_loses_nothing(kind, log, clicks):
    model = kind().fit(log)
    before = model.score(np.arange(80))
    with pytest.raises(csrr.DataError):
        model.fit(np.zeros((3, 4)))
    np.testing.assert_array_equal(model.score(np.arange(80)), before)


@pytest.mark.parametrize("data", [np.ones((1, 4)), np.ones((4, 1)), np.ones((1, 1)), np.ones((9, 7)), np.eye(6)])
def test_the_smallest_and_the_fullest_matrices(kind, data):
    model = kind().fit(data)
    n, m = data.shape
    assert np.isfinite(model.score(np.arange(n))).all()
    assert np.isfinite(model.fold_in(data).score()).all()
    items = model.recommend(k=m).items
    assert [sum(item is not None for item in row) for row in items] == (m - data.sum(1)).tolist()


def test_parameters_and_clones(kind, log, model):
    clone = type(model)(**model.get_params())
    assert not clone.is_fitted
    assert clone.get_params() == model.get_params()
    np.testing.assert_array_equal(clone.fit(log).recommend(k=4).items, model.recommend(k=4).items)
    with pytest.raises(ValueError, match="has no parameter 'rnak'"):
        clone.set_params(rnak=3)


def test_not_fitted(kind, tmp_path):
    model = kind()
    for ask in (
        model.recommend,
        lambda: model.score(0),
        lambda: model.save(tmp_path / "x"),
        lambda: model.fold_in([[1]]),
        lambda: model.recommend_for([1]),
    ):
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


def test_pickled_and_copied(kind, log, model, named):
    rows = np.arange(80)
    expected = model.score(rows)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert type(again) is kind
        np.testing.assert_array_equal(again.score(rows), expected)
        np.testing.assert_array_equal(again.recommend(k=5).items, model.recommend(k=5).items)
        again.fit(named)  # of its own
        np.testing.assert_array_equal(model.score(rows), expected)
    assert not pickle.loads(pickle.dumps(kind())).is_fitted


@pytest.mark.parametrize(
    "turn",
    [
        lambda X: X.astype(bool),
        lambda X: X.astype(np.int8),
        lambda X: X.astype(np.uint64),
        lambda X: X.astype(np.float16),
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X.astype(X.dtype.newbyteorder()),
        lambda X: sparse.csr_array(X)[:, ::-1][:, ::-1],
        lambda X: _with_wide_indices(sparse.csr_array(X)),
        lambda X: _with_zeros(sparse.coo_array(X)),
    ],
)
def test_the_type_and_layout_of_a_matrix_are_nothing(kind, clicks, model, turn):
    np.testing.assert_array_equal(kind().fit(turn(clicks)).score(np.arange(80)), model.score(np.arange(80)))


def _with_wide_indices(X):
    X.indptr, X.indices = X.indptr.astype(np.int64), X.indices.astype(np.int64)
    return X


def _with_zeros(X):
    """A coo array with two cells more, of value 0."""
    empty = np.nonzero(X.toarray() == 0)
    cells = tuple(np.r_[own, more[:2]] for own, more in zip(X.coords, empty, strict=True))
    return sparse.coo_array((np.r_[X.data, 0, 0], cells), X.shape)


def test_an_event_told_twice_is_one(kind, log, model):
    frame = log.to_frame()
    twice = kind().fit(pd.concat([frame, frame.iloc[::3]]))
    np.testing.assert_array_equal(twice.score(np.arange(80)), model.score(np.arange(80)))


def test_a_model_that_uses_order_says_how_to_give_it(model, log, monkeypatch):
    if model.uses_order:
        monkeypatch.undo()
        for use in (model.fit, model.fold_in, model.update):
            with pytest.raises(csrr.DataError, match="ordered=True"):
                use(log)


def test_the_order_of_users_and_items_is_next_to_nothing(kind, clicks, model):
    if model.uses_order:
        pytest.skip("other numbers of items are another order here")
    users, items = np.random.default_rng(5).permutation(80), np.random.default_rng(6).permutation(60)
    turned = kind().fit(clicks[users][:, items]).score(np.arange(80))
    scores = model.score(np.arange(80))[users][:, items]
    # What is drawn at random, such as the signs that tell the level of noise, falls on other cells.
    assert np.corrcoef(turned.ravel(), scores.ravel())[0, 1] > (0.9 if kind is BPRMF else 0.99)


def test_items_that_all_or_none_have_and_users_with_all_or_none(kind, clicks):
    X = clicks.copy()
    X[:, 3], X[:, 5], X[7], X[9] = 1, 0, 1, 0
    model = kind().fit(X)
    scores = model.score(np.arange(80))
    assert np.isfinite(scores).all()
    with pytest.warns(csrr.NoHistoryWarning, match="^1 of 80 users has no"):
        lists = model.recommend(k=60)
    counts = [sum(item is not None for item in row) for row in lists.items]
    assert counts == (60 - X.sum(1)).tolist()


@pytest.mark.parametrize("span", [3, 30])
def test_weights_over_many_orders_of_magnitude(kind, clicks, span):
    X = clicks * 10.0 ** np.random.default_rng(0).uniform(-span, span, clicks.shape)
    declared = list_parameters(kind).get("event_weights")
    models = [kind()] if declared is None else [kind(event_weights=choice) for choice in declared.words]
    for model in models:
        try:
            model.fit(X)
        except csrr.ParameterError:
            assert model.event_weights != "ignore"
            with pytest.raises(csrr.ParameterError, match=r"weight|cost"):
                model.fit(X)
        else:
            assert np.isfinite(model.score(np.arange(80))).all()
            assert np.isfinite(model.recommend_for([3, 4], k=5).scores).all()
