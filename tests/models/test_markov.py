"""MarkovChain beside loops over all pairs of events, and what it does with an order."""

import numpy as np
import pytest

import csrr
from csrr import MarkovChain


def make_log(n_users=40, n_items=15, seed=0):
    """Histories of distinct items in a random order, declared to be in order, and the same as lists."""
    rng = np.random.default_rng(seed)
    histories = [rng.permutation(n_items)[: rng.integers(1, n_items)].tolist() for _ in range(n_users)]
    table = {
        "user": np.repeat(np.arange(n_users), [len(each) for each in histories]),
        "item": np.concatenate(histories),
    }
    return csrr.read(table, ordered=True), histories


def count_naively(histories, n_items, decay, item_scaling):
    """All transitions, (m, m), by the formula."""
    found = np.zeros((n_items, n_items))
    for history in histories:
        for t, j in enumerate(history):
            for s, i in enumerate(history[:t]):
                found[i, j] += decay ** (t - 1 - s)
    counts = np.bincount(np.concatenate(histories), minlength=n_items)
    return found / counts[:, None] ** item_scaling


@pytest.mark.parametrize(("decay", "item_scaling"), [(0.0, 0.0), (0.5, 0.0), (0.6, 0.7)])
def test_scores_are_those_of_the_formula(monkeypatch, decay, item_scaling):
    monkeypatch.setattr("csrr.numerics.transitions.WINDOW_SHARE", 1e-12)
    log, histories = make_log()
    model = MarkovChain(decay, item_scaling=item_scaling).fit(log)
    transitions = count_naively(histories, 15, decay, item_scaling)
    np.testing.assert_allclose(model.weights_.toarray(), transitions, rtol=1e-5, atol=1e-8)
    faded = np.zeros((40, 15))
    for user, history in enumerate(histories):
        faded[user, history] = decay ** np.arange(len(history))[::-1]
    np.testing.assert_allclose(model.score(np.arange(40)), faded @ transitions, rtol=1e-4, atol=1e-6)
    pairs = np.arange(40), np.arange(40) % 15
    np.testing.assert_allclose(model.score(*pairs), (faded @ transitions)[pairs], rtol=1e-4, atol=1e-6)


def test_the_best_so_many_predecessors_are_kept():
    log, _ = make_log()
    whole, few = (MarkovChain(0.5, neighbors=n).fit(log).weights_.tocsc() for n in (99, 4))
    assert np.diff(few.indptr).max() == 4
    kept = few.toarray()
    np.testing.assert_array_equal(kept[kept > 0], whole.toarray()[kept > 0])


def test_an_explanation_names_each_event_with_its_part():
    log, histories = make_log()
    model = MarkovChain(0.5).fit(log)
    user = int(np.argmax([len(each) for each in histories]))
    item = next(each for each in range(15) if each not in histories[user])
    why = model.explain(user, item)
    fading = {each: 0.5**age for age, each in enumerate(histories[user][::-1])}
    weights = model.weights_.toarray()[:, item]
    assert dict(zip(why.items.tolist(), why.amounts.tolist(), strict=True)) == pytest.approx(
        {each: fading[each] * weights[each] for each in histories[user]}, rel=1e-4
    )


def test_similar_items_are_those_that_come_after():
    log = csrr.read({"user": [1, 1, 2, 2, 3, 3], "item": ["a", "b", "a", "b", "b", "c"]}, ordered=True)
    model = MarkovChain(0).fit(log)
    assert [model.similar_items(item, k=1).ids.tolist() for item in "abc"] == [["b"], ["c"], []]


def test_update_adds_later_events(tmp_path):
    log, histories = make_log()
    users, items = np.array([0, 0, 1]), np.array([3, 4, 5])
    model = MarkovChain(0.5).fit(log)
    model.save(tmp_path / "m.csrr")
    model = csrr.load(tmp_path / "m.csrr")
    with pytest.raises(csrr.DataError, match="ordered=True"):
        model.update({"user": users, "item": items})
    model.update(csrr.read({"user": users, "item": items}, ordered=True))
    longer = [[each for each in history if each not in items[users == user]] for user, history in enumerate(histories)]
    longer = [history + items[users == user].tolist() for user, history in enumerate(longer)]
    table = {"user": np.repeat(np.arange(40), [len(each) for each in longer]), "item": np.concatenate(longer)}
    expected = MarkovChain(0.5).fit(csrr.read(table, ordered=True))
    np.testing.assert_allclose(model.score(np.arange(40)), expected.score(np.arange(40)), rtol=1e-5)


def test_new_events_with_times_may_be_in_any_order():
    log, histories = make_log()
    mixed = {"user": [0, 0, 0], "item": [3, 4, 5], "time": [30, 10, 20]}
    model = MarkovChain(0.5).fit(log).update(mixed)
    history = [each for each in histories[0] if each not in (3, 4, 5)]
    expected = model.fold_in([[*history, 4, 5, 3]]).score()
    np.testing.assert_allclose(model.score(0), expected, rtol=1e-6)


def test_a_planted_order_is_found():
    # Everybody goes on to the next item of a circle.
    rng = np.random.default_rng(0)
    firsts = rng.integers(30, size=200)
    table = {"user": np.repeat(np.arange(200), 6), "item": ((firsts[:, None] + np.arange(6)) % 30).ravel()}
    model = MarkovChain().fit(csrr.read(table, ordered=True))
    lists = model.recommend(k=1).items[:, 0]
    assert lists.tolist() == ((firsts + 6) % 30).tolist()
    backwards = {"user": table["user"], "item": table["item"][::-1].reshape(200, 6)[::-1].ravel()}
    lists = MarkovChain().fit(csrr.read(backwards, ordered=True)).recommend(k=1).items[:, 0]
    assert lists.tolist() == ((firsts - 1) % 30).tolist()


def test_a_plain_model_takes_new_events_with_times_or_in_order():
    log, _ = make_log()
    plain = csrr.PopRank().fit(log.to_csr())
    assert len(plain.update({"user": [0], "item": [3], "time": [5]}).users_) == 40
    assert plain.update(csrr.read({"user": [0], "item": [3]}, ordered=True)).seen_ages_ is None


def test_a_set_is_no_history_where_order_counts():
    model = MarkovChain(0.5).fit(make_log()[0])
    for ask in (lambda: model.recommend_for({1, 2}), lambda: model.fold_in([[1, 2], frozenset({1, 2})])):
        with pytest.raises(csrr.ParameterError, match="is a set, and this MarkovChain needs its order: give a list"):
            ask()
    assert csrr.ItemKNN().fit(make_log()[0]).recommend_for({1, 2}, k=3).items.shape == (1, 3)
