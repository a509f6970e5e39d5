"""How models ages: each fit on each later window, recomputed by hand, and planted drift that it must find."""

import numpy as np
import pytest

import csrr

DAY = 86_400


@pytest.fixture(scope="module")
def log():
    return csrr.synthetic(300, 80, rank=4, events_per_user=20, drift=1, seed=3).log


@pytest.fixture(scope="module")
def found(log):
    return csrr.evaluate_rolling(csrr.EASE(10), log, every="30d", metric="recall@10")


def test_every_number_is_that_of_splits_by_hand(log, found):
    first = float(np.quantile(log.times, 0.5, method="higher"))
    cuts = first + 30 * DAY * np.arange(7)
    assert [(each.fitted_until, each.start) for each in found.windows] == [
        (cuts[i], cuts[j]) for i in range(6) for j in range(i, 6)
    ]
    scores = {}
    for i in range(6):
        model = csrr.EASE(10).fit(log.select(log.times < cuts[i]))
        for j in range(i, 6):
            window = log.select((log.times >= cuts[j]) & (log.times < cuts[j + 1]))
            scores[i, j] = csrr.evaluate(model, log.select(log.times < cuts[j]), window, at=10)
    for each, by_hand in zip(found.windows, scores.values(), strict=True):
        assert (each.mean, each.n_users) == (by_hand["recall@10"], by_hand.n_users)
        assert (each.low, each.high) == tuple(by_hand.interval("recall@10"))
    # Of each user the mean over the windows in which both fits are judged.
    differences = {}
    for j in (2, 3, 4, 5):
        new, old = scores[j, j], scores[j - 2, j]
        for user, a, b in zip(new.users.tolist(), new.per_user["recall@10"], old.per_user["recall@10"], strict=True):
            differences.setdefault(user, []).append(b - a)
    effect = found.ages[1]
    means = [np.mean(each) for each in differences.values()]
    assert (effect.age, effect.days, effect.n_users) == (2, 60, len(means))
    assert effect.change == pytest.approx(np.mean(means))
    assert effect.mean - effect.fresh == pytest.approx(effect.change)
    assert (effect.high - effect.low) / 2 == pytest.approx(1.96 * np.std(means, ddof=1) / len(means) ** 0.5, rel=0.02)


def test_planted_drift_ages_a_fit_and_still_tastes_do_not(found):
    changes = [each.change for each in found.ages]
    assert found.ages[-1].high < 0
    assert changes[-1] < changes[2] < 0
    late = next(each for each in found.ages if each.high < 0)
    loss = f"{-100 * late.change / late.fresh:.1f}"
    assert f"fit again at least every {late.days:g} days: a fit of that age loses {loss} ±" in found.recommendation
    # What is popular in general does not change without drift.
    still = csrr.synthetic(300, 80, rank=4, events_per_user=20, order=1e-9, seed=3).log
    calm = csrr.evaluate_rolling("pop-rank", still, every="30d", metric="recall@10")
    assert all(each.low < 0.01 for each in calm.ages)
    assert abs(calm.ages[-1].change) < 0.1 * calm.ages[-1].fresh


def test_fits_that_are_asked_with_fresh_histories_age_less():
    log = csrr.synthetic(300, 80, rank=4, events_per_user=20, order=0.9, decay=0.2, seed=3).log
    stale, fresh = (
        csrr.evaluate_rolling("markov-chain", log, every="40d", fold_in=fold_in) for fold_in in (False, True)
    )
    # New fits are the same, and old ones lose what came last only where they are not told.
    assert [each.fresh for each in stale.ages] == [each.fresh for each in fresh.ages]
    for old, told in zip(stale.ages, fresh.ages, strict=True):
        assert old.change < 3 * min(told.change, -0.01)
    cuts = [each.start for each in fresh.windows if each.age == 0]
    model = csrr.MarkovChain().fit(log.select(log.times < cuts[0]))
    window = log.select((log.times >= cuts[1]) & (log.times < cuts[2]))
    before = log.select(log.times < cuts[1])
    hits = []
    for user in np.unique(window.user_rows):
        mine = before.select(before.user_rows == user)
        history = before.items.ids[mine.item_rows[mine.find_order()]].tolist()
        listed = set(model.recommend_for(history, k=10).items[0].tolist())
        chosen = window.item_rows[window.user_rows == user].tolist()
        hits.append(len(listed & set(chosen)) / len(chosen))
    recall = csrr.evaluate_rolling(csrr.MarkovChain(), log, every="40d", fold_in=True, metric="recall@10").windows[1]
    assert (recall.age, recall.n_users) == (1, len(hits))
    assert recall.mean == pytest.approx(np.mean(hits))


def test_tables_text_and_picture(found, tmp_path):
    assert len(found.to_frame()) == 21
    assert "on 6 windows of 30 days from 2024-" in repr(found)
    assert found.summary()["ages"][0]["age"] == 1
    assert found.summary()["recommendation"] == found.recommendation
    csrr.plot(found, tmp_path / "ages.svg")
    drawn = (tmp_path / "ages.svg").read_text()
    assert "How EASE ages" in drawn
    assert "fitted once" in drawn


def test_by_default_six_windows_after_half_of_the_events(log):
    found = csrr.evaluate_rolling("pop-rank", log)
    assert len({each.start for each in found.windows}) == 6
    assert found.windows[0].start == np.quantile(log.times, 0.5, method="higher")
    assert found.windows[-1].end == pytest.approx(log.times.max() + 1)
    told = []
    csrr.evaluate_rolling("pop-rank", log, first="2024-10-01", every="60d", metric="full_mrr", callback=told.append)
    assert told == ["fit 1 of 1, until 2024-10-01T00:00:00"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"every": "0d"}, "every="),
        ({"every": "900d"}, r"every='900d' must make 1 to 60 windows of the 1\d\d days"),
        ({"every": "1h"}, r"must make 1 to 60 windows .* of [23]\.\d+ days or more each"),
        ({"first": "1999-01-01"}, "first='1999-01-01' must lie within the times of the log"),
        ({"metric": "ndcg"}, "metric='ndcg' must be like ndcg@10"),
        ({"metric": "ndcg@900"}, "the log has only 80 items"),
        ({"metric": "cost"}, "metric='cost' must be like"),
    ],
)
def test_arguments_that_cannot_be(log, given, words):
    with pytest.raises((csrr.ParameterError, csrr.DataError), match=words):
        csrr.evaluate_rolling("pop-rank", log, **given)


def test_times_of_loading_are_warned_of_once():
    rows = [(user, (user + 7 * k) % 40, user) for user in range(60) for k in range(8)]
    loaded = csrr.read(dict(zip(("user", "item", "time"), zip(*rows, strict=True), strict=True)))
    with pytest.warns(csrr.DataWarning, match="at one time") as told:
        csrr.evaluate_rolling("pop-rank", loaded)
    assert len(told) == 1


def test_purchases_are_judged_and_views_are_history():
    rng = np.random.default_rng(0)
    users, items, times = rng.integers(0, [50, 40, 10**7], (3000, 3)).T
    kinds = rng.choice(["view", "buy"], 3000)
    table = {"user": users, "item": items, "type": kinds, "time": times}
    # After the last purchase there are only views.
    late = {"user": [1] * 9, "item": range(9), "type": ["view"] * 9, "time": 2 * 10**7 + np.arange(9)}
    table = {name: np.concatenate([table[name], list(late[name])]) for name in table}
    log = csrr.read(table, event="type", weights={"view": 1, "buy": 3}, target="buy")
    found = csrr.evaluate_rolling("pop-rank", log, metric="recall@5")
    bought = log.select(log.is_target).types.times[:, 1]
    assert found.windows[-1].end == pytest.approx(bought.max() + 1)
    assert found.windows[0].start == np.quantile(bought, 0.5, method="higher")
    start, end = (getattr(found.windows[0], name) for name in ("start", "end"))
    before, after = csrr.split(log, at=start)
    by_hand = csrr.evaluate(csrr.PopRank().fit(before), before, after.select(after.times < end), at=5)
    assert found.windows[0].mean == by_hand["recall@5"]


def test_a_log_without_times_cannot_age():
    with pytest.raises(csrr.DataError, match="the log has no times"):
        csrr.evaluate_rolling("pop-rank", csrr.read({"user": [1, 1], "item": [1, 2]}, ordered=True))
