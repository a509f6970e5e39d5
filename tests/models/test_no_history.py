"""People of whom nothing is known get what is popular, and the result says so; equal scores go by popularity."""

import warnings

import numpy as np
import pytest

import csrr
from csrr import NoHistoryWarning, registry
from csrr.models.recommend import rank_items
from csrr.models.store import read, write
from csrr.registry import MODELS
from tests.reference.metrics import best_items

COLD = [5, 9, 33]
NEEDING = [kind for kind in MODELS.values() if not kind.knows_everyone]


@pytest.fixture(scope="module")
def timed(clicks):
    """A log with times, and three users without events. The later half of the items is chosen late."""
    some = clicks.copy()
    some[COLD] = 0
    users, items = np.nonzero(some)
    times = np.where(items < 30, 0, 1000) + np.arange(len(users)) % 100
    return csrr.Log(csrr.IdMap.range(80), csrr.IdMap.range(60), users, items, times=times)


@pytest.fixture(scope="module")
def plain(timed):
    return csrr.Log(timed.users, timed.items, timed.user_rows, timed.item_rows)


@pytest.fixture(scope="module")
def fitted(timed):
    return {kind: kind().fit(timed) for kind in MODELS.values()}


@pytest.fixture(params=NEEDING)
def model(request, fitted):
    return fitted[request.param]


def popular(log):
    """Return the items by recent events, then all events, then row: the specification."""
    ages = log.times.max() - log.times if log.times is not None else np.zeros(len(log))
    weights = 0.5 ** (10 * ages / max(ages.max(), 1))
    recent = np.bincount(log.item_rows, weights, minlength=log.n_items)
    return sorted(range(log.n_items), key=lambda item: (-recent[item], -log.item_counts()[item], item))


def test_users_without_events_get_what_is_popular_of_late_and_are_marked(model, timed):
    with pytest.warns(NoHistoryWarning, match=r"^3 of 80 users have no history and get popular items") as told:
        recs = model.recommend(k=7)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert np.flatnonzero(recs.fallback).tolist() == COLD
    for user in COLD:
        assert recs.items[user].tolist() == popular(timed)[:7]
        assert recs.scores[user].tolist() == [0] * 7
    assert min(popular(timed)[:7]) >= 30  # recent, not merely popular
    assert popular(timed) != np.argsort(-timed.item_counts(), kind="stable").tolist()


def test_the_table_says_why(model):
    with pytest.warns(NoHistoryWarning):
        recs = model.recommend([4, 5], k=2)
    assert [row["why"] for row in recs.rows()] == [None, None, "popular", "popular"]
    assert recs.to_frame()["why"].tolist()[2:] == ["popular"] * 2
    assert recs.to_arrow().schema.field("why").type == "string"
    assert "popular" in repr(recs)
    assert recs[1].fallback.tolist() == [True]
    known = recs[0]
    assert "why" not in known.to_arrow().column_names
    assert known.fallback.tolist() == [False]


def test_without_times_all_events_count_alike(plain):
    model = csrr.EASE(reg=10).fit(plain)
    with pytest.warns(NoHistoryWarning, match="^1 of 1 user has"):
        recs = model.recommend(5, k=9)
    assert recs.items[0].tolist() == popular(plain)[:9]
    np.testing.assert_array_equal(model.popularity, plain.item_counts())


def test_what_is_popular_is_kept_in_the_file(model, timed, tmp_path):
    model.save(tmp_path / "m.csrr")
    again = csrr.load(tmp_path / "m.csrr")
    np.testing.assert_array_equal(again.popularity, model.popularity)
    with pytest.warns(NoHistoryWarning):
        assert again.recommend(5, k=5).items[0].tolist() == popular(timed)[:5]


def test_a_file_without_times_counts_all_events_alike(plain, tmp_path):
    model = csrr.EASE(reg=10).fit(plain)
    model.save(tmp_path / "m.csrr")
    assert b"recent_popularity" not in (tmp_path / "m.csrr").read_bytes()
    with pytest.warns(NoHistoryWarning):
        assert csrr.load(tmp_path / "m.csrr").recommend(5, k=5).items[0].tolist() == popular(plain)[:5]


def test_asking_for_popularity_does_not_let_one_change_it(fitted):
    model = fitted[csrr.EASE]
    before = model.popularity
    model.popularity[:] = 0
    np.testing.assert_array_equal(model.popularity, before)


def test_restrictions_hold_for_what_is_popular_too(model, timed):
    with pytest.warns(NoHistoryWarning):
        recs = model.recommend([5, 9], k=4, candidates=range(20, 60), exclude={5: [40, 41, 42], 9: popular(timed)[:2]})
    assert recs.items[0].tolist() == [i for i in popular(timed) if i >= 20 and i not in (40, 41, 42)][:4]
    assert recs.items[1].tolist() == [i for i in popular(timed)[2:] if i >= 20][:4]


def test_those_with_a_history_are_not_touched_and_nothing_is_said(model):
    with_history = [user for user in range(80) if user not in COLD]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = model.recommend(with_history, k=6)
    with pytest.warns(NoHistoryWarning):
        together = model.recommend(k=6)
    np.testing.assert_array_equal(alone.items, together.items[with_history])
    assert not alone.fallback.any()


def test_equal_scores_go_by_popularity_in_every_model(fitted):
    for model in fitted.values():
        place = np.argsort(model.item_order.items)
        rows = np.array([row for row in range(80) if row not in COLD])
        items, scores = rank_items(model, rows, 60, seen=model.seen_)
        for mine, values in zip(items, scores, strict=True):
            count = int((values > -np.inf).sum())
            ties = np.flatnonzero(values[1:count] == values[: count - 1])
            assert (place[mine[ties]] < place[mine[ties + 1]]).all()


def test_items_that_neighbours_do_not_reach_go_by_popularity(timed):
    model = csrr.ItemKNN(neighbors=2).fit(timed)
    user = 0
    scores = model.score(user)[0]
    assert (scores == 0).sum() > 20
    order = np.argsort(popular(timed))
    expected = sorted(set(range(60)) - set(timed.history(user)), key=lambda item: (-scores[item], order[item]))
    assert model.recommend(user, k=45).items[0].tolist() == expected[:45]


def test_new_people_without_a_history_get_it_too(model, timed):
    people = model.fold_in([[1, 2, 30], []])
    with pytest.warns(NoHistoryWarning, match="^1 of 2 users has"):
        recs = people.recommend(5)
    assert recs.fallback.tolist() == [False, True]
    assert recs.items[1].tolist() == popular(timed)[:5]
    with pytest.warns(NoHistoryWarning):
        assert model.recommend_for([], 5).items[0].tolist() == popular(timed)[:5]


def test_non_negative_factors_take_an_empty_history(timed):
    model = csrr.CSRRe(factors="nonnegative", rank=4).fit(timed)
    with pytest.warns(NoHistoryWarning):
        assert model.recommend_for([], 5).items[0].tolist() == popular(timed)[:5]


def test_popularity_too_gives_those_without_a_history_what_every_model_does(fitted, timed):
    model = fitted[csrr.PopRank]
    counts, order = timed.item_counts(), popular(timed)
    by_counts = sorted(range(60), key=lambda item: (-counts[item], order.index(item)))
    assert model.recommend(0, k=6, exclude_seen=False).items[0].tolist() == by_counts[:6] != order[:6]
    with pytest.warns(NoHistoryWarning):
        assert model.recommend(5, k=6).items[0].tolist() == order[:6]


def test_a_model_of_ones_own_may_know_everyone(plain):
    class Own(csrr.Recommender):
        knows_everyone = True

        def fit(self, data):
            self.remember(self.read(data))
            return self

        def score_rows(self, rows):
            return np.tile(np.arange(60, dtype=np.float32), (len(rows), 1))

    class Modest(Own):
        knows_everyone = False

    recs = Own().fit(plain).recommend(5, k=3)
    assert recs.items[0].tolist() == [59, 58, 57]
    assert not recs.fallback.any()
    with pytest.warns(NoHistoryWarning):
        assert Modest().fit(plain).recommend(5, k=3).items[0].tolist() == popular(plain)[:3]


def test_a_model_of_ones_own_keeps_what_is_popular_in_its_file(timed, tmp_path, monkeypatch):
    class Ownest(csrr.Recommender):
        def fit(self, data):
            self.remember(self.read(data))
            self.weights_ = np.ones(3)
            return self

        def score_histories(self, seen, rows):
            return np.zeros((len(rows), seen.shape[1]), np.float32)

    monkeypatch.setattr(registry, "_added", {})
    csrr.register(Ownest)
    Ownest().fit(timed).save(tmp_path / "m.csrr")
    again = csrr.load(tmp_path / "m.csrr")
    assert again.recommend(0, k=3, exclude_seen=False).items[0].tolist() == popular(timed)[:3]
    with pytest.warns(NoHistoryWarning):
        assert again.recommend(5, k=3).items[0].tolist() == popular(timed)[:3]


def test_what_is_popular_has_the_score_and_the_probability_of_no_knowledge(timed):
    model = csrr.EASE(reg=10).fit(timed)
    with pytest.warns(NoHistoryWarning):
        assert model.recommend(5, k=3, min_score=0.1).items.tolist() == [[None] * 3]
    model.calibrate({"user": [0, 1, 2], "item": [59, 58, 57]})
    with pytest.warns(NoHistoryWarning):
        recs = model.recommend(5, k=3)
    np.testing.assert_allclose(recs.probabilities[0], model.probability(5, recs.items[0]), rtol=1e-6)


@pytest.fixture(scope="module")
def asked(timed):
    """Three events of each of 40 users, those without history among them."""
    rng = np.random.default_rng(1)
    users = np.repeat(np.arange(40), 3)
    found = {(int(u), int(i)) for u, i in zip(users, rng.integers(60, size=120), strict=True)}
    found -= set(zip(timed.user_rows.tolist(), timed.item_rows.tolist(), strict=True))
    users, items = zip(*sorted(found), strict=True)
    return csrr.Log(timed.users, timed.items, users, items)


class TestEvaluation:
    def test_users_with_and_without_history_apart(self, model, timed, asked):
        names = ["ndcg", "recall", "precision", "coverage", "novelty", "auc", "cost", "cell_recall"]
        found = csrr.evaluate(model, timed, asked, at=(5, 10), metrics=names)
        warm = [user for user in found.users.tolist() if user not in COLD]
        assert found.n_without_history == 3
        assert found.by_history["without"].users.tolist() == COLD
        for name, users in (("with", warm), ("without", COLD)):
            alone = csrr.evaluate(model, timed, asked, at=(5, 10), metrics=names, users=users)
            assert found.by_history[name].means == pytest.approx(alone.means, rel=1e-12)
            assert found.by_history[name].n_users == len(users)
        assert found.to_frame()["n_train"].tolist() == np.bincount(timed.user_rows, minlength=80)[found.users].tolist()

    def test_lists_of_those_without_are_what_is_popular(self, model, timed, asked):
        found = csrr.evaluate(model, timed, asked, at=5, metrics=["precision"]).by_history["without"]
        hits = [len(set(popular(timed)[:5]) & set(asked.history(user).tolist())) / 5 for user in COLD]
        assert found.per_user["precision@5"].tolist() == pytest.approx(hits)

    def test_it_is_printed_and_summed_up(self, fitted, timed, asked):
        found = csrr.evaluate(fitted[csrr.EASE], timed, asked, at=5, metrics=["ndcg"])
        assert "3 of 40 users have no training events and get the same popular items" in repr(found)
        assert "with history (37)  without history (3)" in repr(found)
        plain = found.summary()
        assert plain["n_without_history"] == 3
        assert plain["by_history"]["without"]["n_users"] == 3
        assert plain["by_history"]["with"]["means"] == found.by_history["with"].means
        assert found.display_table()["users"].tolist() == ["all", "with history", "without history"]

    def test_models_are_compared_on_users_with_a_history_and_on_all(self, fitted, timed, asked):
        both = {kind.__name__: csrr.evaluate(fitted[kind], timed, asked, at=10) for kind in (csrr.EASE, csrr.PopRank)}
        found = csrr.compare(both)
        assert found.rows[0].paired.n == 40
        alone = csrr.compare({name: each.by_history["with"] for name, each in both.items()})
        assert found.with_history == alone
        assert alone.rows[0].paired.n == 37
        assert alone.with_history is None
        # Those without a history have the same list from both.
        total = 40 * found.rows[0].paired.difference
        assert 37 * alone.rows[0].paired.difference == pytest.approx(total, abs=1e-12)
        assert "over 37 users with a history and all 40 users" in repr(found)
        assert found.display_table()["users"].tolist() == ["with history", "all"]
        assert found.summary()["with_history"] == alone.summary()
        assert [panel["title"][-8:] for panel in found.panels] == ["37 users", "40 users"]

    def test_where_all_have_a_history_nothing_is_added(self, fitted, timed, asked):
        found = csrr.evaluate(fitted[csrr.EASE], timed, asked, at=5, metrics=["ndcg"], users=[0, 1, 2])
        assert found.by_history == {}
        assert found.summary()["n_without_history"] == 0
        assert "by_history" not in found.summary()
        assert "popular" not in repr(found)
        assert list(found.display_table().columns) == ["metric", "mean", "low", "high"]

    def test_where_nobody_has_one_all_are_without(self, fitted, timed, asked):
        found = csrr.evaluate(fitted[csrr.EASE], timed, asked, at=5, metrics=["ndcg"], users=COLD)
        assert list(found.by_history) == ["without"]
        assert found.by_history["without"].means == found.means


def test_the_reference_agrees_where_there_are_no_ties(fitted):
    model = fitted[csrr.CSRR]
    scores = model.score(0)[0]
    seen = set(model.seen_[[0]].indices.tolist())
    assert len(set(scores.tolist())) > 55
    assert model.recommend(0, k=5).items[0].tolist() == best_items(scores, 5, seen)


def change_file(path, change):
    """Write a model file anew, its arrays changed."""
    header, arrays = read(path)
    arrays = dict(arrays)
    change(arrays)
    write(path, header, arrays)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda counts: counts * -1, "has values from"),
        (lambda counts: np.where(counts > 1, np.nan, counts), "has values from"),
        (lambda counts: counts[:-1], "has shape"),
        (lambda counts: counts.astype(np.float32), "is of type float32"),
    ],
)
def test_popularity_that_is_none_is_refused(fitted, tmp_path, harm, message):
    fitted[csrr.EASE].save(tmp_path / "m.csrr")
    change_file(tmp_path / "m.csrr", lambda a: a.update(recent_popularity=harm(a["recent_popularity"])))
    with pytest.raises(csrr.ModelFileError, match=f"'recent_popularity' {message}"):
        csrr.load(tmp_path / "m.csrr")
