"""Items that appeared today: scores and lists without a fit."""

import numpy as np
import pytest
from scipy.stats import spearmanr

import csrr
from csrr import Log, ParameterError, UnknownIdError
from csrr.registry import MODELS

FOLDING = [name for name, kind in MODELS.items() if kind.can("fold_in_items")]
PARAMS = {
    "EASE": {"reg": 20.0},
    "WRMF": {"reg": 40.0, "rank": 6},
    "CSRRe": {"rank": 16, "cost_ratio": 2.0, "denoise": 0.0},
    "CSRR": {"cost_ratio": 2.0, "denoise": 0.0},
}
MINE = [3, 11, 40]
"""The items that are left out of the fit."""


@pytest.fixture(scope="module")
def whole():
    log = csrr.synthetic(400, 60, rank=4, events_per_user=14, noise=0, seed=1).log
    assert log.item_counts()[MINE].min() > 20
    return log


@pytest.fixture(scope="module")
def parts(whole):
    """The log without some items, and their events."""
    mine = np.isin(whole.item_rows, MINE)
    old, new = (Log.from_table(whole.select(each).to_arrow()) for each in (~mine, mine))
    assert old.n_users == whole.n_users
    return old, new


@pytest.fixture(scope="module")
def fitted(whole, parts):
    """Models without the items, and with them."""
    make = {name: (lambda kind=MODELS[name], name=name: kind(**PARAMS.get(name, {}))) for name in FOLDING}
    return {name: tuple(each().fit(log) for log in (parts[0], whole)) for name, each in make.items()}


def test_all_but_bpr_and_those_that_use_order_fold_items_in():
    assert set(MODELS) - set(FOLDING) == {"BPRMF"} | {name for name, kind in MODELS.items() if kind().uses_order}
    model = csrr.BPRMF(epochs=2).fit({"user": [1, 2], "item": [1, 2]})
    with pytest.raises(NotImplementedError, match="a BPRMF knows only the items it was fitted to; update it"):
        model.fold_in_items({"user": [1], "item": [3]})


@pytest.mark.parametrize("name", FOLDING)
def test_scores_are_nearly_those_of_a_fit(name, fitted, parts):
    model, full = fitted[name]
    found = model.fold_in_items(parts[1]).score()
    expected = full.score_rows(np.arange(400))[:, MINE]
    assert found.shape == (400, 3)
    unseen = full.seen_.toarray()[:, MINE] == 0
    for j in range(3):
        if name != "PopRank":
            assert spearmanr(found[unseen[:, j], j], expected[unseen[:, j], j]).statistic > 0.85
    np.testing.assert_allclose(found[unseen].mean(), expected[unseen].mean(), rtol=0.2, atol=0.02)


@pytest.mark.parametrize("name", FOLDING)
def test_lists_have_known_and_new_items_by_their_scores(name, fitted, parts):
    model, _ = fitted[name]
    items = model.fold_in_items(parts[1])
    lists = items.recommend(k=60, exclude_seen=False)
    users = lists.users.tolist()
    both = {
        **dict(zip(model.items_, model.score(users).T, strict=True)),
        **dict(zip(MINE, items.score().T, strict=True)),
    }
    for place in (0, 100, 399):
        scores = np.array([both[item][place] for item in lists.items[place].tolist()])
        assert sorted(lists.items[place].tolist()) == sorted(both)
        np.testing.assert_array_equal(scores, lists.scores[place])
        assert (np.diff(scores) <= 0).all()


def test_what_is_seen_or_excluded_is_left_out(fitted, parts, whole):
    model, _ = fitted["CSRR"]
    items = model.fold_in_items(parts[1])
    lists = items.recommend(k=60)
    for row in (0, 7, 200):
        listed = {item for item in lists.items[row].tolist() if item is not None}
        assert listed == set(range(60)) - set(whole.history(row).tolist())
    assert items.recommend(5, k=3, candidates=MINE, exclude_seen=False).items[0].tolist() == sorted(
        MINE, key=lambda item: -items.score(5)[0, MINE.index(item)]
    )
    assert not np.isin(items.recommend(k=5, exclude=[3]).items, [3]).any()
    least = items.recommend(5, k=20, min_score=0.3)
    assert (least.scores[0] >= 0.3).sum() == sum(item is not None for item in least.items[0].tolist()) < 20


def test_each_person_may_have_candidates_of_their_own(fitted, parts):
    items = fitted["CSRR"][0].fold_in_items(parts[1])
    lists = items.recommend([0, 7], k=2, candidates={0: [3, 5], 7: [11]}, exclude_seen=False)
    assert set(lists.items[0].tolist()) == {3, 5}
    assert lists.items[1].tolist() == [11, None]
    with pytest.raises(UnknownIdError, match="99"):
        items.recommend(0, candidates=[99])


def test_who_has_no_history_gets_what_is_popular(whole):
    clicks = np.zeros((4, 3))
    clicks[[0, 1, 1, 2], [0, 0, 1, 2]] = 1
    model = csrr.CSRR(reg_low_rank=0.1, neighbors=0).fit(clicks)
    lists = model.fold_in_items({"user": [0, 1, 2], "item": [9, 9, 9]}).recommend(k=4)
    assert lists.fallback.tolist() == [False, False, False, True]
    assert lists.items[3].tolist() == [9, 0, 1, 2]


def test_titles_go_along(whole):
    model = csrr.PopRank().fit({"user": [1, 2], "item": [1, 2], "title": ["one", "two"]})
    items = model.fold_in_items({"user": [1, 2], "item": [9, 9], "title": ["nine", "nine"]})
    assert items.recommend(1, k=2, exclude_seen=False).titles[0].tolist() == ["nine", "one"]
    assert repr(items).startswith("FoldedItems: 1 items of PopRank()")


# Each by what it is


def test_of_ease_it_is_the_column_of_a_fit(fitted, parts):
    model, full = fitted["EASE"]
    others = np.setdiff1d(np.arange(60), MINE)
    clicks = model.seen_.toarray().astype(np.float64)
    by_hand = np.linalg.solve(
        clicks.T @ clicks + 20 * np.eye(57), clicks.T @ full.seen_.toarray()[:, MINE].astype(np.float64)
    )
    items = model.fold_in_items(parts[1])
    np.testing.assert_allclose(items.weights, by_hand, atol=1e-6)
    one = Log.from_table(parts[1].select(parts[1].item_rows == 0).to_arrow())
    alone = csrr.EASE(reg=20).fit(full.training_log().select(~np.isin(full.seen_.indices, MINE[1:])))
    found = model.fold_in_items(one).weights[:, 0]
    np.testing.assert_allclose(found, alone.weights_[others, 3], atol=1e-5)


@pytest.mark.parametrize("params", [{}, {"reg_sparse": 0.6}, {"loss": "II", "neighbors": 0}], ids=str)
def test_of_csrr_it_is_the_optimum_with_the_users_held_fixed(parts, params):
    model = csrr.CSRR(cost_ratio=3, reg_low_rank=0.15, dtype="float64", **({"neighbors": 0} | params)).fit(parts[0])
    items = model.fold_in_items(parts[1])
    fitted, l1 = model.fitted_, model.l1_
    P = (fitted.users * fitted.scaling.user[:, None]).astype(np.float64)
    for j in range(3):
        clicked = np.flatnonzero(items.seen.toarray()[:, j])
        scale = len(clicked) ** -0.3
        target = fitted.scaling.user[clicked].astype(np.float64) * scale
        cap = np.inf if model.l2_ is None else model.l2_ * target
        weight, goal = (3, target) if model.loss == "I" else (1, 3 * target)

        def objective(q, clicked=clicked, cap=cap, weight=weight, goal=goal):
            u = P @ q
            at = u[clicked]
            v = np.clip(goal - at - cap / weight, 0, 1)
            own = weight / 2 * (goal - at - v) ** 2 + (0 if model.l2_ is None else cap * v)
            return l1 / 2 * q @ q + own.sum() + (u @ u - at @ at) / 2

        best = items.item_factors[j].astype(np.float64) * scale
        value = objective(best)
        rng = np.random.default_rng(j)
        for size in (1e-1, 1e-2):
            for _ in range(50):
                assert objective(best + size * np.abs(best).max() * rng.standard_normal(len(best))) > value


@pytest.mark.parametrize("weight", [2, 4])
def test_of_neighbors_it_is_the_ridge_regression_of_what_is_left_over(parts, weight):
    model = csrr.CSRR(cost_ratio=weight, reg_low_rank=0.2, neighbors=5, reg_neighbors=2.0, neighbor_scaling=0.2)
    model.fit(parts[0])
    items = model.fold_in_items(parts[1])
    clicks, chosen = model.seen_.toarray().astype(np.float64), items.seen.toarray().astype(np.float64)
    scale, mine = clicks.sum(0) ** -0.3, chosen.sum(0) ** -0.3
    x = clicks.sum(1)[:, None] ** -0.2 * clicks * scale
    rho = 2.0 * (x**2).sum(0).mean()
    cosine = clicks.T @ chosen / np.sqrt(np.outer(clicks.sum(0), chosen.sum(0)))
    user = clicks.sum(1) ** -0.3
    users = user[:, None] * model.user_factors_.astype(np.float64)
    for j in range(3):
        near = np.argsort(-cosine[:, j], kind="stable")[:5]
        target = user * mine[j] * chosen[:, j]
        # What the users' tastes say of it; beyond a weight of 2 when clicks weigh as other cells do.
        own = mine[j] * items.item_factors[j].astype(np.float64)
        gram = users.T @ users + model.l1_ / weight * np.eye(users.shape[1])
        left_over = target - users @ (own if weight == 2 else np.linalg.solve(gram, users.T @ target))
        s = np.linalg.solve(x[:, near].T @ x[:, near] + rho * np.eye(5), x[:, near].T @ left_over)
        expected = np.zeros(57)
        expected[near] = s * scale[near] / mine[j]
        np.testing.assert_allclose(items.weights.toarray()[:, j], expected, atol=1e-5)
        score = model.user_factors_ @ items.item_factors[j] + clicks.sum(1) ** 0.1 * (clicks @ expected)
        np.testing.assert_allclose(items.score()[:, j], score, atol=1e-4)


def test_the_number_of_threads_changes_no_bit(parts, monkeypatch):
    monkeypatch.setattr("csrr._base.threads.available_cores", lambda: 2)
    one, two = (csrr.CSRR(threads=n).fit(parts[0]).fold_in_items(parts[1]).score() for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_a_loaded_model_folds_in_alike(fitted, parts, tmp_path):
    for name in FOLDING:
        model, _ = fitted[name]
        model.save(tmp_path / "m.csrr")
        loaded = csrr.load(tmp_path / "m.csrr")
        np.testing.assert_array_equal(loaded.fold_in_items(parts[1]).score(), model.fold_in_items(parts[1]).score())


def test_weights_of_clicks_count_where_the_model_weighs(whole, parts):
    rng = np.random.default_rng(0)
    weighted = Log.from_table({**parts[0].to_arrow().to_pydict(), "weight": rng.integers(1, 5, len(parts[0]))})
    model = csrr.CSRR(event_weights="linear", reg_low_rank=0.2, neighbors=0).fit(weighted)
    light, heavy = (
        model.fold_in_items({**parts[1].to_arrow().to_pydict(), "weight": [w] * len(parts[1])}).score() for w in (1, 4)
    )
    seen = model.fold_in_items(parts[1]).seen.toarray() > 0
    assert heavy[seen].mean() > light[seen].mean()


# What goes wrong


def test_words_for_what_cannot_be_folded_in(fitted):
    model, _ = fitted["CSRR"]
    with pytest.raises(ParameterError, match="item 7 is in the training data; fold_in_items takes new items only"):
        model.fold_in_items({"user": [1, 2], "item": [7, 3]})
    with pytest.raises(UnknownIdError, match="unknown user id: 4000"):
        model.fold_in_items({"user": [4000], "item": [3]})
    with pytest.raises(csrr.DataError, match="item ids of the new events are strings"):
        model.fold_in_items({"user": [1], "item": ["new"]})
    with pytest.raises(ParameterError, match="nobody chose item 61"):
        model.fold_in_items(Log.from_matrix(np.array([[1, 0]]), user_ids=[1], item_ids=[60, 61]))
    with pytest.raises(ParameterError, match="there are no events"):
        model.fold_in_items(model.training_log().select(np.zeros(model.seen_.nnz, np.bool_)))
    with pytest.raises(csrr.NotFittedError):
        csrr.CSRR().fold_in_items({"user": [1], "item": [3]})
