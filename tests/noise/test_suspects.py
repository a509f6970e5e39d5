import numpy as np
import pytest
from scipy.optimize import isotonic_regression

import csrr
from csrr.data.ids import IdMap
from csrr.data.log import Log
from csrr.data.synthetic import NOISE
from csrr.noise import scores as scoring
from csrr_paper.noise_experiment import auc

BY_RULE = {"reg_low_rank": "noise", "neighbors": 0}


def blocks(noise, seed=0):
    """A log of 400 users with clicks on items of one of four kinds, a share `noise` anywhere; and which these are.

    A fifth of the 50 items of a kind has half of its clicks.
    """
    rng = np.random.default_rng(seed)
    kinds = np.zeros((400, 200), np.int8)
    for user, mine in enumerate(kinds):
        weights = np.where(np.arange(50) < 10, 4.0, 1.0)
        mine[50 * (user % 4) + rng.choice(50, rng.integers(10, 30), replace=False, p=weights / weights.sum())] = 1
        free = np.flatnonzero(mine == 0)
        mine[rng.choice(free, rng.poisson(noise / (1 - noise) * mine.sum()), replace=False)] = 2
    rows, columns = np.nonzero(kinds)
    titles = [f"kind {item // 50} item {item}" for item in range(200)]
    return csrr.Log(IdMap.range(400), IdMap.range(200), rows, columns, titles=titles), kinds[rows, columns] == 2


@pytest.fixture(scope="module")
def planted():
    return blocks(0.25)


@pytest.fixture(scope="module")
def model(planted):
    return csrr.CSRR(**BY_RULE, threads=1).fit(planted[0])


@pytest.fixture(scope="module")
def found(model):
    return model.suspects()


def rich(log):
    """The log with weights and times that say where each event was."""
    count = np.arange(1, len(log) + 1)
    return Log(log.users, log.items, log.user_rows, log.item_rows, count, 10.0 * count, log.titles)


def test_planted_noise_is_found_far_better_than_by_the_rarity_of_the_item(planted, found):
    log, noise = planted
    rare = auc(-log.item_counts()[log.item_rows], noise)
    assert auc(found.scores, noise) > 0.9
    assert auc(found.scores, noise) > rare + 0.2


def test_scores_come_near_to_the_probabilities_that_planted_tastes_give():
    made = csrr.synthetic(400, 300, rank=6, events_per_user=30, specific=0, noise=0.2, seed=5)
    log, noise = made.log, made.truth == NOISE
    users, items = made.taste
    taste = users @ items.T
    taste = (taste / taste.sum(axis=1, keepdims=True))[log.user_rows, log.item_rows]
    best = auc(0.2 / 300 / (0.2 / 300 + 0.8 * taste), noise)
    assert best - 0.06 < auc(csrr.CSRR(**BY_RULE, threads=1).fit(log).suspects().scores, noise) < best


def test_the_share_of_noise_is_estimated_and_scores_are_its_rates(planted, found):
    _, noise = planted
    assert found.noise_share == pytest.approx(noise.mean(), abs=0.06)
    assert ((found.scores >= 0) & (found.scores <= 1)).all()
    for low, high in ((0, 0.2), (0.8, 1.01)):
        part = (found.scores >= low) & (found.scores < high)
        assert found.scores[part].mean() == pytest.approx(noise[part].mean(), abs=0.1)


def test_a_log_without_noise_has_few_suspects():
    assert csrr.CSRR(**BY_RULE, threads=1).fit(blocks(0.0)[0]).suspects().noise_share < 0.02


@pytest.mark.parametrize("scaling", [0, 0.3])
def test_a_cell_left_out_has_what_a_fit_without_its_click_gives_it(scaling):
    log = csrr.synthetic(80, 50, rank=4, events_per_user=10, seed=1).log
    exact = {
        **BY_RULE,
        "reg_sparse": 0.5,
        "user_scaling": scaling,
        "item_scaling": scaling,
        "dtype": "float64",
        "tol": 1e-6,
    }
    model = csrr.CSRR(**exact, l1=0.6 * csrr.CSRR(**exact).strength(log)).fit(log)
    cells = model.leave_out()
    events = np.arange(0, len(log), len(log) // 12)
    truth = []
    for event in events:
        refit = csrr.CSRR(**exact, l1=model.l1_).fit(log.select(np.arange(len(log)) != event))
        factors = refit.fitted_.make_factors("float64")
        truth.append(factors.users[log.user_rows[event]] @ factors.items[log.item_rows[event]])
    factors = model.fitted_.make_factors("float64")
    with_click = cells.pattern.dots(factors.users, factors.items)[events]
    change = np.abs(with_click - truth).mean()
    assert np.abs(cells.values[events] - truth).mean() < 0.15 * change


def dense_scores(model, popularity):
    """The scores, users of mostly noise aside, with every cell in one array: slow, and meant to be read."""
    cells = model.leave_out()
    clicked = model.seen_.toarray() > 0
    values = cells.score_cells(np.arange(clicked.shape[0]), np.arange(clicked.shape[1]))
    values[clicked] = cells.values
    background = (clicked.sum(axis=0) + 1.0) ** popularity
    background = np.broadcast_to(background / background.mean(), values.shape)
    ratio = values / background
    parts = [ratio <= np.quantile(ratio, share, axis=1, keepdims=True) for share in (0.05, 0.25, 0.5)]
    solid = clicked & (clicked.sum(axis=0) > 1) & (clicked.sum(axis=1, keepdims=True) > 1)
    bottom, quarter, typical = ((solid & part).sum() / background[part].sum() for part in parts)
    level, half = quarter * min(1, bottom / quarter) ** 2, parts[-1]
    pseudo = clicked.shape[1] / 8
    own = ((solid & half).sum(axis=1) + pseudo * typical) / ((half * background).sum(axis=1) + pseudo)
    noise = (own * level / typical)[:, None] * background
    edges = np.unique(np.quantile(values[clicked], np.linspace(0, 1, 300)).astype(values.dtype))
    bins = np.searchsorted(edges, values)
    count = np.bincount(bins.ravel(), minlength=len(edges) + 1)
    mass = np.bincount(bins.ravel(), background.ravel(), minlength=len(edges) + 1)
    clicks = np.bincount(bins[clicked], minlength=len(edges) + 1)
    rate = np.maximum((clicks - level * mass) / np.maximum(count, 1e-9), 0)
    taste = isotonic_regression(rate, weights=np.maximum(count, 1e-9)).x[bins]
    mostly_noise = own * level / typical * clicked.shape[1] > clicked.sum(axis=1) / 2
    return (noise / (noise + taste))[clicked], np.repeat(mostly_noise, clicked.sum(axis=1))


@pytest.mark.parametrize("popularity", [0, 0.5])
def test_scores_in_blocks_are_those_of_one_array(monkeypatch, model, popularity):
    monkeypatch.setattr("csrr.ranking.topk.choose_block_rows", lambda n: 33)
    expected, mostly_noise = dense_scores(model.noise_model(), popularity)
    scores = model.suspects(popularity=popularity).scores
    assert 0 < mostly_noise.sum() < 0.2 * len(scores)
    np.testing.assert_allclose(scores[~mostly_noise], expected[~mostly_noise], atol=1e-4)
    assert (scores[mostly_noise] >= expected[mostly_noise] - 1e-4).all()


def test_a_user_who_clicks_everywhere_is_flagged(planted):
    noisy = csrr.add_noise(planted[0], "crawler", 0.1, seed=1)
    found = csrr.CSRR(**BY_RULE, threads=1).fit(noisy.log).suspects()
    assert (found.scores[noisy.planted] > 0.5).mean() > 0.95
    crawlers = set(noisy.log.users.ids[400:].tolist())
    assert len(crawlers) > 5
    assert len(crawlers - set(found.users.head(len(crawlers))["user"].tolist())) <= 1  # the last has few clicks


@pytest.mark.parametrize(("kind", "gain"), [("popular", 0.01), ("push", 0.03)])
def test_popularity_finds_noise_on_popular_items_better(kind, gain):
    clean = csrr.synthetic(600, 400, rank=4, events_per_user=25, specific=0, noise=0, seed=6).log
    noisy = csrr.add_noise(clean, kind, 0.3, seed=1)
    model = csrr.CSRR(**BY_RULE, reg_sparse=0.5, threads=1).fit(noisy.log)
    even, popular = (model.suspects(popularity=popularity).scores for popularity in (0, 0.5))
    assert auc(popular, noisy.planted) > auc(even, noisy.planted) + gain
    assert abs(popular.mean() - 0.3) < abs(even.mean() - 0.3)


def test_a_sample_of_the_items_says_nearly_the_same(monkeypatch, planted, model, found):
    monkeypatch.setattr(scoring, "SAMPLED", 150)
    sampled = model.suspects().scores
    assert not np.array_equal(sampled, found.scores)
    assert np.abs(sampled - found.scores).mean() < 0.05
    assert auc(sampled, planted[1]) == pytest.approx(auc(found.scores, planted[1]), abs=0.01)


def test_a_model_with_a_strong_v_judges_by_itself_and_others_by_one_that_has(planted, model):
    log, _ = planted
    own = csrr.CSRR(**BY_RULE, reg_sparse=0.5, threads=1).fit(log)
    assert own.noise_model() is own
    assert model.noise_model().l2_ == own.l2_
    assert model.noise_model().l1_ == model.l1_
    assert np.abs(own.suspects().scores - model.suspects().scores).mean() < 0.02
    given = csrr.CSRR(**BY_RULE, l2=0.4 * own.costs_.ratio, threads=1).fit(log)
    assert given.noise_model() is given


def test_it_is_the_same_each_time_and_after_saving(model, found, tmp_path):
    assert np.array_equal(model.suspects().scores, found.scores)
    model.save(tmp_path / "m.csrr")
    assert np.array_equal(csrr.load(tmp_path / "m.csrr").suspects().scores, found.scores)


@pytest.mark.parametrize("kind", [csrr.CSRRe, lambda **kw: csrr.CSRR(box="paper", max_iter=20, **kw)])
def test_other_forms_of_the_model_find_the_same_noise(planted, kind):
    log, noise = planted
    assert auc(kind(threads=1).fit(log).suspects().scores, noise) > 0.88


def test_costs_of_clicks_reach_the_judge(planted):
    log = rich(planted[0])
    model = csrr.CSRR(**BY_RULE, event_weights="log", threads=1).fit(log)
    other = model.noise_model()
    np.testing.assert_allclose(other.fitted_.clicks.values, model.fitted_.clicks.values, rtol=1e-6)
    assert model.suspects().log.weights is None


def test_the_tables(planted, found):
    log, _ = planted
    events, users, items = found.events, found.users, found.items
    assert len(events) == len(log) == len(found)
    assert (np.diff(events["score"]) <= 0).all()
    where = {(user, item): at for at, (user, item) in enumerate(zip(log.user_rows, log.item_rows, strict=True))}
    for row in events.head(30).rows():
        assert found.scores[where[row["user"], row["item"]]] == row["score"]
        assert row["title"] == log.title(row["item"])
    assert (np.diff(users["noise"]) <= 0).all()
    assert users["clicks"].sum() == items["clicks"].sum() == len(log)
    assert (users["clicks"] * users["noise"]).sum() == pytest.approx(found.scores.sum())
    first = next(items.rows())
    assert first["noise"] == pytest.approx(found.scores[log.item_rows == first["item"]].mean())
    assert first["title"] == log.title(first["item"])
    assert events.to_arrow().column_names == ["user", "item", "title", "score", "unexplained"]
    assert list(users.head(3).to_frame()["user"]) == users["user"][:3].tolist()
    assert f"{found.noise_share:.1%} of {len(log):,}" in str(found)
    assert len(str(found).splitlines()) == 14
    assert "more" in repr(events)


@pytest.mark.parametrize("loss", ["I", "II"])
def test_unexplained_is_what_the_common_taste_leaves_of_a_click(planted, loss):
    log, _ = planted
    model = csrr.CSRR(loss, **BY_RULE, threads=1).fit(log)
    unexplained = model.suspects().unexplained
    values = model.specific_[log.user_rows, log.item_rows]
    assert ((unexplained >= 0) & (unexplained <= 1)).all()
    ratio = 2 if loss == "II" else 1
    own = np.flatnonzero(values > 0)
    assert len(own)
    np.testing.assert_allclose(ratio * (unexplained[own] - 0.85), values[own], atol=1e-4)


def test_clean_keeps_what_is_known_of_the_events_that_stay(planted):
    log = rich(planted[0])
    left = csrr.plan_cleaning(log, above=0.5).log
    found = csrr.CSRR(**BY_RULE, reg_sparse=0.5).fit(log).suspects()
    assert left == log.select(~found.above(0.5))
    assert 0 < len(left) < len(log)
    assert (left.users, left.items) == (log.users, log.items)
    np.testing.assert_array_equal(left.times, 10.0 * left.weights)
    assert left.titles.tolist() == log.titles.tolist()


def test_clean_removes_mostly_noise_and_less_with_a_higher_bar(planted):
    log, noise = planted
    found = csrr.CSRR(**BY_RULE, reg_sparse=0.5).fit(log).suspects()
    assert noise[found.above(0.5)].mean() > 0.75
    less, more, nothing = (csrr.plan_cleaning(log, above=above).log for above in (0.9, 0.5, 1))
    assert len(less) > len(more)
    assert nothing == log


def test_clean_takes_tables_and_parameters_and_leaves_the_model_alone(planted):
    log, _ = planted
    mine = csrr.CSRRe(**BY_RULE, rank=16, threads=1)
    other = csrr.plan_cleaning(log.to_arrow(), model=mine).log
    assert not mine.is_fitted
    assert other.n_users == log.n_users
    same = csrr.plan_cleaning(log, model=csrr.CSRRe(**BY_RULE, rank=16, reg_sparse=0.5, threads=1))
    assert other == same.log


def test_ids_of_text_without_titles():
    log = csrr.synthetic(60, 40, rank=3, events_per_user=8).log
    named = Log(IdMap([f"u{n:02}" for n in range(60)]), log.items, log.user_rows, log.item_rows)
    found = csrr.CSRR(**BY_RULE, threads=1).fit(named).suspects()
    assert found.events.to_arrow().column_names == ["user", "item", "score", "unexplained"]
    assert next(found.users.rows())["user"].startswith("u")


def test_bad_input(planted, model):
    log, _ = planted
    for call in (model.suspects, model.stability, lambda **kw: csrr.clean(log, **kw)):
        for popularity in (-0.1, 1.5, float("nan"), "much"):
            with pytest.raises(csrr.ParameterError, match="popularity"):
                call(popularity=popularity)
    for above in (0, 1.1, float("nan"), "much"):
        with pytest.raises(csrr.ParameterError, match="above"):
            csrr.clean(log, above=above)
    with pytest.raises(csrr.ParameterError, match="CSRR or CSRRe"):
        csrr.clean(log, model=csrr.EASE())
    with pytest.raises(csrr.ParameterError, match="MCShift has no V"):
        csrr.MCShift(threads=1).fit(log).suspects()
    with pytest.raises(csrr.ParameterError, match="no events"):
        csrr.clean(log.select(np.zeros(len(log), bool)))
    with pytest.raises(csrr.NotFittedError):
        csrr.CSRR().suspects()
    with pytest.raises(csrr.ParameterError, match="rank 0"):
        csrr.CSRR(reg_low_rank=1.0, neighbors=0, threads=1).fit(log).leave_out()


@pytest.mark.parametrize("shape", [(1, 9), (9, 1), (3, 3)])
def test_what_cannot_be_judged_is_left_alone(shape):
    with pytest.raises(csrr.ParameterError, match="tell no noise from taste"):
        csrr.clean(np.ones(shape))


def test_stability_beside_the_suspects(planted):
    found = csrr.CSRR(**BY_RULE, reg_sparse=0.5, threads=1).fit(planted[0]).suspects(stability=True)
    assert "nine tenths of the clicks" in str(found)
    assert len(found.stability) >= 5


def test_whatever_strength_ranks_best_clicks_are_judged_at_the_automatic_one(planted):
    log, _ = planted
    usual = csrr.CSRR(**BY_RULE, reg_sparse=0.5, threads=1).fit(log)
    assert usual.noise_model() is usual
    for strength in (0.05, 1.0):
        other = csrr.CSRR(reg_sparse=0.5, reg_low_rank=strength, neighbors=0, threads=1).fit(log)
        assert other.noise_model().l1_ == pytest.approx(usual.l1_, rel=1e-3)
        # Fits that began elsewhere end inside the same certificate, not at the same point.
        assert np.corrcoef(other.suspects().scores, usual.suspects().scores)[0, 1] > 0.99
