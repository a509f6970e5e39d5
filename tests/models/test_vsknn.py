"""VSKNN beside a naive loop over all users."""

import math

import numpy as np
import pytest

import csrr
from csrr import VSKNN
from tests.models.test_markov import make_log

FADINGS = ["same", "div", "linear", "quadratic", "log"]


def weigh(fading, place, share):
    """The weight of one place, 1 for the newest."""
    return {
        "same": 1.0,
        "div": share,
        "quadratic": share**2,
        "linear": max(1 - (place - 1) / 10, 0),
        "log": 1 / math.log10(place + 0.7),
    }[fading]


def score_naively(histories, n_items, model):
    """The scores of all histories, (n, m), by the formulas."""
    found = np.zeros((len(histories), n_items))
    counts = np.bincount(np.concatenate(histories), minlength=n_items)
    for u, history in enumerate(histories):
        length, near = len(history), []
        for v, other in enumerate(histories):
            places = [length - at for at, item in enumerate(history) if item in other]
            if not places:
                continue
            similarity = sum(weigh(model.weighting, place, (length - place + 1) / length) for place in places)
            similarity /= len(other) ** model.length_scaling
            newest = min(places)
            near.append((similarity, -v, weigh(model.score_weighting, newest, 1 / newest)))
        for similarity, v, factor in sorted(near, reverse=True)[: model.neighbors]:
            for item in histories[-v]:
                found[u, item] += similarity * factor * (1 + model.idf_weight * math.log(len(histories) / counts[item]))
    return found


@pytest.mark.parametrize("weighting", FADINGS)
@pytest.mark.parametrize("score_weighting", FADINGS)
def test_scores_are_those_of_a_naive_loop(weighting, score_weighting):
    log, histories = make_log(50, 20)
    model = VSKNN(
        7, weighting=weighting, score_weighting=score_weighting, length_scaling=0.3, idf_weight=0.4, threads=1
    ).fit(log)
    scores = model.score(np.arange(50))
    np.testing.assert_allclose(scores, score_naively(histories, 20, model), rtol=1e-4, atol=1e-6)
    model.set_params(threads=2)
    np.testing.assert_array_equal(model.score(np.arange(50)), scores)


def test_the_newest_items_say_who_is_near():
    log = csrr.read({"user": [1, 1, 2, 2], "item": ["a", "x", "b", "y"]}, ordered=True)
    model = VSKNN(1).fit(log)
    assert model.recommend_for(["a", "b"], k=1).items.tolist() == [["y"]]
    assert model.recommend_for(["b", "a"], k=1).items.tolist() == [["x"]]


def test_a_log_without_order_is_refused_and_says_what_to_do():
    with pytest.raises(csrr.DataError, match="ordered=True"):
        VSKNN().fit({"user": [1, 1], "item": [1, 2]})
