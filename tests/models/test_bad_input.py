"""What cannot be done is said in words that name the culprit."""

import math

import numpy as np
import pytest
from scipy import sparse

import csrr
from csrr import CSRR, DataError, NoHistoryWarning, ParameterError, PopRank, UnknownIdError
from csrr.data.log import Log
from csrr.models.recommend import rank_items
from tests.data.test_matrices import LIES


@pytest.fixture(scope="module")
def model(log):
    return CSRR().fit(log)


def nothing(log):
    return log.select(np.zeros(len(log), bool))


def test_an_empty_log(log):
    with pytest.raises(ParameterError, match="the log has no events"):
        CSRR().fit(nothing(log))


def test_an_empty_log_in_a_path(log):
    with pytest.raises((ParameterError, DataError), match="no events"):
        csrr.path(nothing(log))


@pytest.mark.parametrize("kind", [CSRR, PopRank])
def test_empty_data(kind):
    with pytest.raises(DataError, match="no events left"):
        kind().fit(np.zeros((3, 4)))
    with pytest.raises(DataError, match="shape is 0 x 4"):
        kind().fit(np.zeros((0, 4)))
    with pytest.raises(DataError):
        kind().fit({"user": [], "item": []})


def test_one_user_and_one_item():
    one_user = CSRR().fit({"user": [1, 1, 1], "item": ["a", "b", "c"]})
    assert one_user.recommend(1, k=2).items.tolist() == [[None, None]]
    assert one_user.recommend(1, k=3, exclude_seen=False).items.shape == (1, 3)
    one_item = CSRR().fit({"user": [1, 2, 3], "item": ["a"] * 3})
    assert one_item.recommend(2).items.tolist() == [[None]]
    assert one_item.similar_items("a").ids.tolist() == []
    assert CSRR().fit({"user": [1], "item": ["a"]}).recommend(1).items.tolist() == [[None]]


def test_a_user_without_items_gets_what_is_popular(clicks):
    some = clicks.copy()
    some[5] = 0
    model = CSRR().fit(some)
    with pytest.warns(NoHistoryWarning):
        recs = model.recommend(5, k=6)
    assert recs.items.tolist() == [np.argsort(-some.sum(0), kind="stable")[:6].tolist()]
    assert recs.scores.tolist() == [[0] * 6]
    assert len(model.explain(5, 3)) == 0
    assert len(model.specific_preferences(5)) == 0


def test_an_all_ones_matrix_can_be_fitted_in_double_precision():
    model = CSRR(dtype="float64", reg_low_rank=0.3).fit(np.ones((60, 50)))
    assert model.rank_ == 1
    np.testing.assert_allclose(model.score(np.arange(60)), model.score(0)[0, 0], rtol=1e-3)


@pytest.mark.parametrize("shape", [(20, 10)])
def test_an_all_ones_matrix(shape):
    model = CSRR().fit(np.ones(shape))
    assert model.certificate_.status == "converged"
    assert model.rank_ == 1


@pytest.mark.parametrize(("bad", "word"), [(math.nan, "weight"), (math.inf, "weight"), (-1.0, "weight")])
def test_bad_weights(bad, word):
    with pytest.raises(DataError, match=word):
        CSRR().fit({"user": [1, 1, 2], "item": [1, 2, 1], "weight": [1.0, bad, 2.0]})


def test_a_weight_of_zero_is_no_event():
    model = PopRank().fit({"user": [1, 1, 2], "item": [1, 2, 1], "weight": [1.0, 0.0, 2.0]})
    assert list(model.items_) == [1]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -2.0])
def test_bad_matrix_values(bad):
    matrix = np.eye(4)
    matrix[2, 3] = bad
    with pytest.raises(DataError, match="at row 2, column 3"):
        CSRR().fit(matrix)


def test_ids_of_mixed_types():
    with pytest.raises(DataError, match="user"):
        CSRR().fit({"user": [1, "a", 2], "item": [1, 2, 3]})


def test_a_transposed_matrix():
    with pytest.raises(DataError, match="looks transposed"):
        Log.from_matrix(np.ones((3, 4)), user_ids=list("abcd"), item_ids=list("xyz"))


@pytest.mark.parametrize("data", [3, None, "ratings.csv", [[1, 2]]])
def test_no_data(data):
    with pytest.raises(DataError, match="cannot use a"):
        CSRR().fit(data)


def test_unknown_ids(model):
    for ask in (
        lambda: model.recommend(999),
        lambda: model.explain(999, 1),
        lambda: model.score(999),
        lambda: model.specific_preferences(999),
        lambda: model.similar_users(999),
    ):
        with pytest.raises(UnknownIdError, match="unknown user id: 999"):
            ask()
    for ask in (
        lambda: model.explain(1, 999),
        lambda: model.score(1, 999),
        lambda: model.similar_items(999),
        lambda: model.recommend_for([1, 999]),
        lambda: model.fold_in([[1], [999]]),
        lambda: model.fold_in({"user": [1], "item": [999]}),
    ):
        with pytest.raises(UnknownIdError, match="unknown item id: 999"):
            ask()


@pytest.mark.parametrize("k", [0, -1, 2.5, True])
def test_bad_k(model, k):
    for ask in (
        lambda: model.recommend(1, k=k),
        lambda: model.recommend_for([1], k=k),
        lambda: model.similar_items(1, k=k),
    ):
        with pytest.raises(ValueError, match=f"k={k}"):
            ask()


def test_k_beyond_the_items(model):
    assert model.recommend(1, k=10**6).k == 60
    assert len(model.similar_items(1, k=10**6).ids) == 59
    assert model.recommend_for([1], k=10**6).k == 60


def test_an_empty_history(model):
    with pytest.raises(ParameterError, match="at least one history"):
        model.fold_in([])
    for ask in (lambda: model.recommend_for([]), lambda: model.fold_in([[1], []]).recommend()[1]):
        with pytest.warns(NoHistoryWarning, match="has no history and gets popular items"):
            assert ask().fallback.tolist() == [True]


def test_a_flat_list_as_histories(model):
    with pytest.raises(ParameterError, match="histor"):
        model.fold_in([1, 2, 3])


NAN, INF = math.nan, math.inf
BAD = {
    "loss": ["III", 1, None],
    "cost_ratio": [0, -1, NAN, INF, 1e9, "2", True],
    "positive_cost": [0, 1, -0.5, 1.5, NAN],
    "miss_cost": [0, -1, NAN, INF],
    "reg_low_rank": [0, -0.1, NAN, INF, "best", None, True],
    "reg_sparse": [-0.1, NAN, INF, 10**400, "some", None],
    "neighbors": [-1, 2.5, True, "3", None],
    "reg_neighbors": [-0.1, NAN, INF, "some", None],
    "neighbor_scaling": [-0.1, 1.1, NAN, "auto", None],
    "l1": [0, -1, NAN, INF, "a"],
    "l2": [0, -1, NAN, INF, "a"],
    "user_scaling": [-0.1, 1.1, NAN, "a", None],
    "item_scaling": [-0.1, 1.1, NAN, "a", None],
    "max_rank": [0, -1, 2.5, True, "3"],
    "box": ["", None, "papers"],
    "tol": [0, -1, NAN, 2, "a", None],
    "max_iter": [0, -1, 2.5, True],
    "time_limit": [0, -1, NAN, INF],
    "dtype": ["float16", "int32", None],
    "threads": [-1, 1.5, None, True],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in BAD.items() for v in values])
def test_bad_parameters(log, name, value):
    params = {name: value} | ({"false_alarm_cost": 1.0} if name == "miss_cost" else {})
    with pytest.raises(ParameterError, match=name):
        CSRR(**params).fit(log)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", -1),
        ("seed", 1.5),
        ("seed", "x"),
        ("max_iter", None),
        ("positive_cost", "a"),
        ("cost_ratio", 10**400),
        ("cost_ratio", 1e-300),
    ],
)
def test_bad_parameters_of_other_kinds(log, name, value):
    with pytest.raises(ParameterError, match=name):
        CSRR(**{name: value}).fit(log)


@pytest.mark.parametrize("params", [{"positive_cost": 1 - 1e-9}, {"miss_cost": 1e9, "false_alarm_cost": 1.0}])
def test_an_absurd_cost_by_other_ways(log, params):
    with pytest.raises(ParameterError, match="cost"):
        CSRR(**params, max_iter=1).fit(log)


def test_whole_numbers_of_numpy(log):
    model = CSRR(max_rank=np.int64(5), max_iter=np.int64(9), threads=np.int64(1)).fit(log)
    assert model.rank_ <= 5
    assert model.certificate_.iterations <= 9


def test_bad_values_are_found_at_fit_and_not_before():
    assert CSRR(tol=-1).tol == -1


def test_a_tolerance_beyond_single_precision(log):
    with pytest.raises(ParameterError, match=r'tol=1e-09 is beyond float32.*dtype="float64"'):
        CSRR(tol=1e-9).fit(log)


def test_costs_given_twice(log):
    for params in (
        {"cost_ratio": 2.0, "positive_cost": 0.6},
        {"positive_cost": 0.6, "miss_cost": 2.0},
    ):
        with pytest.raises(ParameterError, match="give the cost once"):
            CSRR(**params).fit(log)
    with pytest.raises(ParameterError, match="go together"):
        CSRR(miss_cost=2.0).fit(log)


def test_a_start_of_another_size(log, model):
    with pytest.raises(ParameterError, match="80 users x 60 items, the data has 3 x 2"):
        CSRR().fit(np.ones((3, 2)), start=model)


def interrupt(step):
    raise KeyboardInterrupt


def test_an_interrupted_fit_leaves_the_model_as_it_was(log, clicks):
    fresh = CSRR()
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(log, callback=interrupt)
    assert not fresh.is_fitted
    model = CSRR().fit(log)
    before = model.recommend(k=5).items
    with pytest.raises(KeyboardInterrupt):
        model.fit(clicks[:20], callback=interrupt)
    assert len(model.users_) == 80
    np.testing.assert_array_equal(model.recommend(k=5).items, before)


@pytest.mark.parametrize("matrix", LIES.values(), ids=LIES)
def test_matrices_that_lie_are_refused_wherever_one_is_taken(matrix):
    model = PopRank().fit(sparse.csr_array(np.eye(6, 4) + np.eye(6, 4, 1)))
    for name in ("exclude", "candidates", "exclude_seen"):
        with pytest.raises(DataError, match=f"{name} is damaged"):
            model.recommend(**{name: matrix})
        with pytest.raises(DataError, match=f"{name} is damaged"):
            next(model.recommend_batches(batch_users=2, **{name: matrix}))
    for ask in (PopRank().fit, model.fold_in, model.update):
        with pytest.raises(DataError, match="the matrix is damaged"):
            ask(matrix)
    with pytest.raises(DataError, match="seen is damaged"):
        rank_items(model, np.arange(6), 2, seen=matrix)


def test_a_scaling_may_be_a_whole_number(log):
    one, same = (CSRR(reg_low_rank=0.3, neighbors=3, neighbor_scaling=each).fit(log) for each in (1, 1.0))
    assert (one.neighbors_ != same.neighbors_).nnz == 0


def test_who_is_no_number_is_not_recommended_to(model):
    for ids in (math.nan, [1, math.nan]):
        with pytest.raises(DataError, match=r"user ids.*the value is missing; leave it out"):
            model.recommend(ids)


def test_what_is_no_id_of_an_item_is_told_as_one(model):
    for ids in (None, math.nan, [1, None], True):
        with pytest.raises(DataError, match=r"item ids"):
            model.similar_items(ids)
