"""Weights of a new history are those of a fit: used where it used them, refused where it could not."""

import numpy as np
import pytest

import csrr
from csrr import ParameterError
from csrr.registry import MODELS
from tests.in_order import suit

WEIGHING = [
    (csrr.WRMF, {"event_weights": "linear", "rank": 6, "reg": 3.0}),
    *((csrr.CSRR, {"event_weights": kind, "reg_low_rank": 0.2, "neighbors": 0}) for kind in ("cost", "linear", "log")),
    (csrr.CSRRe, {"event_weights": "linear", "rank": 6, "reg_low_rank": 0.2, "neighbors": 0}),
]


@pytest.fixture(scope="module")
def weighted(clicks):
    return csrr.Log.from_matrix(clicks * np.random.default_rng(0).integers(1, 6, clicks.shape))


@pytest.mark.parametrize(("kind", "params"), WEIGHING)
def test_a_dict_of_weights_is_a_log_of_weights(kind, params, weighted):
    model = kind(**params).fit(weighted)
    heavy, even = {1: 50.0, 4: 1.0, 30: 1.0}, {1: 1.0, 4: 1.0, 30: 1.0}
    table = {"user": [0, 0, 0], "item": list(heavy), "weight": list(heavy.values())}
    scores = model.fold_in([heavy, even]).score()
    np.testing.assert_allclose(scores[0], model.fold_in(table).score()[0], rtol=1e-3, atol=1e-4)
    assert scores[0, 1] > scores[1, 1]
    recs = model.recommend_for(heavy, 5)
    np.testing.assert_array_equal(recs.items, model.fold_in(table).recommend(5).items)
    assert not np.allclose(recs.scores, model.recommend_for(even, 5).scores, rtol=1e-3)


@pytest.mark.parametrize(("kind", "params"), WEIGHING)
def test_a_training_user_with_their_weights_is_themselves(kind, params, weighted):
    model = kind(**params).fit(weighted)
    mine = weighted.to_csr(weighted=True)[[7]]
    history = dict(zip(mine.indices.tolist(), mine.data.tolist(), strict=True))
    theirs = model.score(7)[0]
    np.testing.assert_allclose(model.fold_in([history]).score()[0], theirs, atol=5e-3 * np.abs(theirs).max())


def test_what_weighs_nothing_did_not_happen_and_lists_go_beside_dicts(weighted):
    model = csrr.WRMF(event_weights="linear", rank=6, reg=3.0).fit(weighted)
    people = model.fold_in([{1: 2.0, 5: 0}, [1, 1, 4], {1: 2}])
    assert people.seen.toarray()[:, [1, 4, 5]].tolist() == [[2, 0, 0], [1, 1, 0], [2, 0, 0]]


@pytest.mark.parametrize("kind", MODELS.values())
def test_models_without_weights_refuse_them(kind, log):
    model = kind().fit(suit(kind, log))
    with pytest.raises(ParameterError, match=f"history 0 has weights, and this {kind.__name__} .*give the item ids"):
        model.recommend_for({1: 100.0, 4: 3.0})
    plain = model.recommend_for({1: 1, 4: 1.0}, 5)
    np.testing.assert_array_equal(plain.items, model.recommend_for([1, 4], 5).items)


def test_the_message_says_how_a_model_was_fitted(log):
    with pytest.raises(ParameterError, match="this WRMF was fitted to events without weights"):
        csrr.WRMF(rank=4, reg=1.0).fit(log).fold_in([{1: 2.0}])
    with pytest.raises(ParameterError, match="this EASE takes no weights"):
        csrr.EASE(reg=10).fit(log).fold_in([{1: 2.0}])


@pytest.mark.parametrize("weight", [-1, np.nan, np.inf, "2", None, True, 1e16, [1]])
def test_a_weight_that_is_none(weighted, weight):
    model = csrr.WRMF(event_weights="linear", rank=4, reg=3.0).fit(weighted)
    with pytest.raises(ParameterError, match=r"history 1, item 4: the weight .* must be a number from 0 to 1e\+15"):
        model.fold_in([[1], {3: 1.0, 4: weight}])
