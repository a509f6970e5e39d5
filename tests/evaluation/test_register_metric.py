"""Metrics of somebody else's, by name, wherever ours are."""

import numpy as np
import pytest

import csrr
from csrr.parameters import ParameterError


@pytest.fixture(scope="module")
def parts():
    return csrr.split(csrr.synthetic(60, 40, events_per_user=10).log)


def rank_biased(hits, n_relevant):
    """Rank-biased precision with patience 0.8."""
    return hits @ (0.2 * 0.8 ** np.arange(hits.shape[1]))


def test_a_metric_gets_hits_and_numbers_and_is_averaged_and_compared(parts):
    csrr.register_metric("rank_biased", rank_biased)
    models = {"popular": csrr.PopRank().fit(parts[0]), "ease": csrr.EASE(10).fit(parts[0])}
    found = {
        name: csrr.evaluate(model, *parts, at=(3, 5), metrics=["recall", "rank_biased"])
        for name, model in models.items()
    }
    for name, model in models.items():
        test = {user: set(parts[1].history(user).tolist()) for user in found[name].users.tolist()}
        by_hand = [
            sum(0.2 * 0.8**place for place, item in enumerate(items) if item in test[user])
            for user, items in zip(test, model.recommend(list(test), 3).items.tolist(), strict=True)
        ]
        assert found[name].per_user["rank_biased@3"] == pytest.approx(by_hand)
        assert found[name]["rank_biased@3"] == pytest.approx(np.mean(by_hand))
        low, high = found[name].interval("rank_biased@3")
        assert low < np.mean(by_hand) < high
    test = csrr.compare(found, "rank_biased@5").rows[0].paired
    assert test.difference == pytest.approx(found["popular"]["rank_biased@5"] - found["ease"]["rank_biased@5"])
    assert "rank_biased" in repr(found["ease"])


def test_a_metric_is_what_tune_makes_large(parts):
    # Smaller precision is larger here: another setting wins.
    csrr.register_metric("misses", lambda hits, n_relevant: (~hits).sum(axis=1))
    space = {"neighbors": [1, 20]}
    best = csrr.tune(csrr.ItemKNN, parts[0], space=space, metric="precision@5", defaults=False)
    worst = csrr.tune(csrr.ItemKNN, parts[0], space=space, metric="misses@5", defaults=False)
    assert best.best_params["neighbors"] != worst.best_params["neighbors"]
    assert sorted(trial.value for trial in worst.trials) == pytest.approx(
        sorted(5 * (1 - trial.value) for trial in best.trials)
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda hits, n: hits, r"metric 'mine' returned shape \(60, 5\) for hits of shape \(60, 5\); .* shape \(60,\)"),
        (lambda hits, n: hits.mean(), r"returned shape \(\) for hits"),
        (lambda hits, n: hits.sum(axis=0), r"returned shape \(5,\) for hits"),
        (lambda hits, n: None, r"returned shape \(\) for hits"),
        (lambda hits, n: ["x"] * len(n), "metric 'mine' returned list, not numbers"),
        (lambda hits, n: np.full(len(n), np.inf), "metric 'mine' is infinite for user 0"),
    ],
)
def test_what_is_no_number_a_user_is_said(parts, function, message):
    csrr.register_metric("mine", function)
    with pytest.raises(ParameterError, match=message):
        csrr.evaluate(csrr.PopRank().fit(parts[0]), *parts, at=5, metrics=["mine"])


def test_a_metric_cannot_change_the_hits_of_the_others(parts):
    def cheat(hits, n_relevant):
        hits[:] = True
        return hits.mean(axis=1)

    csrr.register_metric("cheat", cheat)
    with pytest.raises(ValueError, match="read-only"):
        csrr.evaluate(csrr.PopRank().fit(parts[0]), *parts, at=5, metrics=["cheat", "recall"])


@pytest.mark.parametrize("name", ["ndcg", "auc", "cost", "diversity", "f1_of_means", "my@5", "", "two words", 7])
def test_names_that_cannot_be_had(name):
    with pytest.raises(ParameterError, match="name="):
        csrr.register_metric(name, rank_biased)
    with pytest.raises(ParameterError, match="function=3"):
        csrr.register_metric("mine", 3)


def test_an_unknown_name_is_told_of_those_that_are_registered(parts):
    csrr.register_metric("mine", rank_biased)
    with pytest.raises(ParameterError, match=r"choose from precision.*mine"):
        csrr.evaluate(csrr.PopRank().fit(parts[0]), *parts, at=5, metrics=["other"])
