"""Costs in the user's own units: the ratio, the threshold, and clicks that cost more than others."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import csrr
from csrr import CSRR, CSRRe, ParameterError
from csrr.models.build_problem import RULE
from csrr.models.search import Search
from csrr.ranking.metrics import measure_cells
from csrr.ranking.topk import Cells
from tests.reference import dense

FAMILY = pytest.mark.parametrize("family", [CSRR, CSRRe])


@pytest.fixture(scope="module")
def played(log):
    """The log with play counts: long-tailed, at least 1."""
    rng = np.random.default_rng(5)
    return replace(log, weights=np.ceil(rng.lognormal(1.0, 1.0, len(log))).astype(np.float32))


class TestFromCosts:
    @FAMILY
    def test_they_set_decisions_and_leave_the_weight_open(self, family, log):
        model = family.from_costs(miss=5.0, false_alarm=1.0, reg_sparse=1.0)
        assert model.decision_probability == pytest.approx(1 / 6)
        model.fit(log)
        assert model.costs_.ratio == 5
        assert model.costs_.weight == RULE.cost_ratio
        assert "clicks weigh" in str(model.costs_)
        assert model.decision_probability == pytest.approx(1 / 6)
        same = family(reg_sparse=1.0).fit(log)
        assert np.array_equal(model.user_factors_, same.user_factors_)
        assert family(**model.settled_params()).fit(log).costs_.weight == RULE.cost_ratio

    def test_the_papers_words_are_the_weight_too(self, log):
        for words, ratio in (({"cost_ratio": 5.0}, 5), ({"positive_cost": 0.8}, 4)):
            costs = CSRR(**words).fit(log).costs_
            assert costs.weight == costs.ratio == pytest.approx(ratio)
        both = CSRR(miss_cost=50, false_alarm_cost=1, cost_ratio=3.0).fit(log)
        assert (both.costs_.ratio, both.costs_.weight) == (50, 3)
        assert both.decision_probability == pytest.approx(1 / 51)

    def test_other_words_for_the_same(self, log):
        in_cents = CSRR.from_costs(miss=500, false_alarm=100)
        as_share = CSRR.from_costs(positive_cost=5 / 6)
        assert in_cents.decision_probability == pytest.approx(as_share.decision_probability)

    def test_the_weighted_sum_takes_its_odds_from_the_clicks_and_says_so(self, log):
        model = CSRR.from_costs(recall_weight=0.4)
        assert model.decision_probability is None
        model.fit(log)
        odds = (80 * 60 - len(log)) / len(log)
        assert model.costs_.ratio == pytest.approx(0.4 / 0.6 * odds)
        assert f"T_n/T_p = {odds:.4g}, estimated" in str(model.costs_)
        assert model.decision_probability == pytest.approx(1 / (1 + 0.4 / 0.6 * odds))

    def test_a_model_without_costs_decides_nothing(self, log):
        model = CSRR().fit(log)
        assert model.decision_probability is None
        assert "the default" in str(model.costs_)

    def test_it_survives_saving(self, log, tmp_path):
        model = CSRR.from_costs(recall_weight=0.4).fit(log)
        model.save(tmp_path / "m.csrr")
        loaded = csrr.load(tmp_path / "m.csrr")
        assert loaded.costs_ == model.costs_
        assert loaded.decision_probability == model.decision_probability

    def test_recommending_what_pays(self, log):
        train, held = csrr.split(log, ratio=0.5, seed=0)
        dear = CSRR.from_costs(miss=1, false_alarm=50).fit(train)
        cheap = CSRR.from_costs(miss=50, false_alarm=1).fit(train)
        for model in (dear, cheap):
            model.calibrate(held)
        none = dear.recommend(k=10, min_probability="cost")
        some = cheap.recommend(k=10, min_probability="cost")
        assert (none.scores > -np.inf).sum() < 0.05 * (some.scores > -np.inf).sum()
        kept = some.scores > -np.inf
        assert (some.probabilities[kept] >= 1 / 51).all()

    @pytest.mark.parametrize(
        ("costs", "words"),
        [
            ({}, "give miss and false_alarm"),
            ({"miss": 5}, "go together"),
            ({"miss": 0, "false_alarm": 1}, "miss_cost=0 must be a number > 0"),
            ({"miss": 1, "false_alarm": -1}, "false_alarm_cost=-1 must be a number > 0"),
            ({"miss": 1e9, "false_alarm": 1}, "makes a miss cost 1e\\+09 false alarms"),
            ({"positive_cost": 1}, "positive_cost=1 must be a number > 0 and < 1"),
            ({"recall_weight": 0.0}, "recall_weight=0.0 must be a number > 0 and < 1"),
            ({"positive_cost": 0.5, "recall_weight": 0.5}, "give the cost once"),
            ({"positive_cost": 0.5, "cost_ratio": 2.0}, "give the cost once"),
            ({"miss": 5, "false_alarm": 1, "positive_cost": 0.5}, "give the cost once"),
        ],
    )
    def test_costs_that_make_no_sense(self, costs, words):
        with pytest.raises(ParameterError, match=words):
            CSRR.from_costs(**costs)

    def test_models_without_costs_say_so(self):
        with pytest.raises(ParameterError, match="MCShift takes no costs"):
            csrr.MCShift.from_costs(miss=5, false_alarm=1)

    def test_a_full_matrix_has_no_odds(self):
        with pytest.raises(ParameterError, match="recall_weight needs cells without a click"):
            CSRR(recall_weight=0.5).fit(np.ones((4, 5)))


@pytest.mark.parametrize("seed", range(5))
def test_lemma_1_the_least_cost_and_the_largest_sum_have_the_same_threshold(seed):
    rng = np.random.default_rng(seed)
    positives = rng.random((30, 40)) < 0.1
    scores = (rng.standard_normal((30, 40)) + 1.5 * positives).astype(np.float32)
    thresholds = np.unique(scores)
    recall_weight = 0.3 + 0.1 * seed
    odds = (~positives).sum() / positives.sum()
    alpha = recall_weight * odds / (1 - recall_weight)

    def measures(weight):
        relevant, seen = sparse.csr_array(positives.astype(np.float32)), sparse.csr_array((30, 40), dtype=np.float32)
        cells = Cells(lambda rows: scores[rows], np.arange(30), 40, relevant, seen)
        return measure_cells(cells, thresholds, weight)

    most, least = measures(recall_weight).sum, measures(alpha / (1 + alpha)).cost
    assert np.argmax(most) == np.argmin(least)
    # and they order all thresholds alike, not only the best
    assert np.corrcoef(most, -least)[0, 1] == pytest.approx(1)
    # the same weights without the odds pick another
    assert np.argmin(measures(recall_weight).cost) != np.argmin(least)


class TestClicksThatCostMore:
    @FAMILY
    def test_a_dear_user_is_fitted_more_closely(self, family, log):
        plain = family(reg_sparse=1.0).fit(log)
        dear = family(reg_sparse=1.0, l1=plain.l1_).fit(log, user_costs={7: 10.0})
        items = log.history(7)
        assert dear.score(7, items).mean() > plain.score(7, items).mean() + 0.1
        others = log.history(8)
        assert dear.score(8, others).mean() == pytest.approx(plain.score(8, others).mean(), abs=0.05)

    def test_item_costs_by_id_or_in_order(self, log):
        ordered = np.ones(60)
        ordered[3] = 4.0
        by_id = CSRR().fit(log, item_costs={3: 4.0})
        assert np.array_equal(by_id.user_factors_, CSRR().fit(log, item_costs=ordered).user_factors_)
        assert not np.array_equal(by_id.user_factors_, CSRR().fit(log).user_factors_)

    def test_costs_that_are_all_one_change_nothing(self, log):
        model = CSRR(tol=1e-4).fit(log, user_costs=np.ones(80), item_costs={})
        np.testing.assert_allclose(model.user_factors_, CSRR(tol=1e-4).fit(log).user_factors_, atol=1e-6)

    def test_event_costs_are_a_column_of_the_log(self, log):
        rng = np.random.default_rng(0)
        worth = rng.uniform(0.5, 4.0, len(log)).astype(np.float32)
        dear = CSRR(event_weights="cost", loss="II", reg_sparse=1.0, l1=1e-3, tol=1e-4).fit(replace(log, weights=worth))
        # Loss II multiplies targets; a penalty next to nothing leaves them as they are.
        reached = dear.score(log.users.ids[log.user_rows], log.items.ids[log.item_rows])
        assert np.corrcoef(reached, worth)[0, 1] > 0.99

    def test_confidence_is_relative(self, played):
        once = CSRR(event_weights="linear").fit(played)
        twice = CSRR(event_weights="linear").fit(replace(played, weights=played.weights * 2))
        np.testing.assert_allclose(once.user_factors_, twice.user_factors_, rtol=1e-4, atol=1e-6)
        as_costs = [CSRR(event_weights="cost").fit(replace(played, weights=played.weights * f)) for f in (1, 2)]
        assert not np.allclose(*(each.score(list(range(80))) for each in as_costs), rtol=1e-2)

    @pytest.mark.parametrize("params", [{}, {"loss": "II", "reg_sparse": 0.6}])
    def test_the_certificate_is_the_weighted_problems(self, played, params):
        model = CSRR(event_weights="log", tol=1e-6, dtype="float64", **params).fit(played)
        own = np.log1p(played.to_csr(weighted=True).toarray().astype(np.float64))
        own = np.where(own > 0, own / own[own > 0].mean(), 1.0)
        A = played.to_csr().toarray()
        reference = dense.Dense(A, 2.0, model.l1_, model.l2_, model.loss, 0.3, 0.3, own)
        assert model.certificate_.primal == pytest.approx(dense.solve(reference, tol=1e-9).objective, rel=2e-6)
        assert model.certificate_.gap <= 1e-6

    @FAMILY
    def test_new_people_and_explanations_are_weighed_alike(self, family, played, tmp_path):
        model = family(event_weights="log", tol=1e-5 if family is CSRR else 1e-7).fit(played)
        user = 11
        known = model.score(user)[0]
        mine = played.select(played.user_rows == user)
        history = {"user": ["x"] * len(mine), "item": mine.items.ids[mine.item_rows].tolist(), "weight": mine.weights}
        folded = model.fold_in(history).score()[0]
        np.testing.assert_allclose(folded, known, atol=0.02 * np.abs(known).max())
        plain = model.fold_in([mine.items.ids[mine.item_rows].tolist()]).score()[0]
        assert np.abs(plain - known).max() > np.abs(folded - known).max()
        model.save(tmp_path / "m.csrr")
        loaded = csrr.load(tmp_path / "m.csrr")
        assert np.array_equal(loaded.fold_in(history).score()[0], folded)
        ours, theirs = model.explain(user, 0), loaded.explain(user, 0)
        assert ours.amounts.tolist() == theirs.amounts.tolist()

    def test_one_dear_user_does_not_set_the_strength_for_all(self, log):
        plain, dear = CSRR().fit(log), CSRR().fit(log, user_costs={7: 10.0})
        share = (log.user_rows == 7).mean()
        assert dear.l1_ == pytest.approx(plain.l1_ * np.sqrt(1 + 99 * share), rel=1e-5)
        twice = CSRR().fit(log, user_costs=np.full(80, 2.0))
        assert twice.l1_ == pytest.approx(2 * plain.l1_, rel=1e-5)

    @pytest.mark.parametrize("costs", [{"miss_cost": 12, "false_alarm_cost": 1}, {"cost_ratio": 12.0}])
    def test_what_costs_more_to_miss_is_recommended_sooner(self, log, costs):
        train, held = csrr.split(log, ratio=0.5, seed=0)
        often = {}
        for cost in (1.0, 8.0):
            model = CSRR(**costs).fit(train, item_costs={5: cost})
            model.calibrate(held)
            often[cost] = (model.recommend(k=60, min_probability="cost").items == 5).sum()
        assert often[8.0] > often[1.0] + 5

    def test_costs_of_decisions_set_the_least_probability_of_each_cell(self, log, tmp_path):
        train, held = csrr.split(log, ratio=0.5, seed=0)
        model = CSRR(miss_cost=12, false_alarm_cost=1).fit(train, user_costs={7: 3.0}, item_costs={5: 2.0})
        plain = CSRR(miss_cost=12, false_alarm_cost=1).fit(train)
        # Clicks weigh the same.
        np.testing.assert_array_equal(model.user_factors_, plain.user_factors_)
        for each in (model, plain):
            each.calibrate(held)
        model.save(tmp_path / "m.csrr")
        for each in (model, csrr.load(tmp_path / "m.csrr")):
            found = each.recommend(k=60, min_probability="cost")
            for user, items, said in zip(found.users, found.items, found.probabilities, strict=True):
                all_said = plain.recommend([user], k=60).probabilities[0]
                all_items = plain.recommend([user], k=60).items[0]
                factors = np.where(all_items == 5, 2, 1) * (3 if user == 7 else 1)
                assert items[said > 0].tolist() == all_items[all_said >= 1 / (1 + 12 * factors)].tolist()
            # Someone new costs what everybody does.
            history = train.history(7).tolist()
            new = each.recommend_for(history, k=60, min_probability="cost")
            assert (new.items[0] != None).sum() < (found.items[7] != None).sum()  # noqa: E711

    def test_costs_of_decisions_that_go_too_far(self, log):
        with pytest.raises(ParameterError, match=r"item_costs: a factor of 10000 makes a miss cost 1\.2e\+05"):
            CSRR(miss_cost=12, false_alarm_cost=1).fit(log, item_costs={5: 1e4})

    def test_histories_without_weights_count_as_average_whoever_else_is_there(self, played):
        model = CSRR(event_weights="linear").fit(played)
        alone = model.fold_in({"user": ["a"], "item": [3], "weight": [1.0]}).score()[0]
        beside = model.fold_in({"user": ["a", "b"], "item": [3, 4], "weight": [1.0, 9.0]}).score()[0]
        np.testing.assert_allclose(alone, beside, atol=1e-3 * np.abs(alone).max())
        typical = model.fold_in({"user": ["a"], "item": [3], "weight": [float(played.weights.mean())]}).score()[0]
        np.testing.assert_allclose(model.fold_in([[3]]).score()[0], typical, rtol=1e-4, atol=1e-6)
        with pytest.raises(ParameterError, match="weight 1e\\+30 in a history makes a miss cost"):
            model.fold_in({"user": ["a"], "item": [3], "weight": [1e30]})

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"user_costs": {7: 0}}, "user_costs: 0 for 7 must be a finite number > 0"),
            ({"item_costs": {3: -2.0}}, "item_costs: -2 for 3"),
            ({"user_costs": np.full(80, np.nan)}, "user_costs: nan for 0"),
            ({"user_costs": [1.0, 2.0]}, r"user_costs has shape \(2,\), but there are 80 users"),
            ({"item_costs": {3: "much"}}, "item_costs must be a mapping from ids to numbers"),
            ({"user_costs": {7: 1e9}}, "the miss of item .* by user 7 would cost 2e\\+09 false alarms"),
        ],
    )
    def test_costs_that_break_the_objective(self, log, given, words):
        with pytest.raises(ParameterError, match=words):
            CSRR().fit(log, **given)

    def test_costs_of_somebody_unknown(self, log):
        with pytest.raises(csrr.UnknownIdError, match="999"):
            CSRR().fit(log, user_costs={999: 2.0})

    def test_weights_that_are_not_there_or_go_too_far(self, log, played):
        with pytest.raises(ParameterError, match="needs events with weights"):
            CSRR(event_weights="log").fit(log)
        with pytest.raises(ParameterError, match="event_weights='much' must be one of auto, ignore, cost, linear, log"):
            CSRR(event_weights="much").fit(played)
        far = played.weights.copy()
        far[0] = 1e8
        with pytest.raises(ParameterError, match='or event_weights="log"'):
            CSRR(event_weights="linear").fit(replace(played, weights=far))

    def test_the_literal_algorithm_has_one_cost(self, played):
        with pytest.raises(ParameterError, match='box="paper" has one cost for all clicks'):
            CSRR(box="paper", event_weights="log").fit(played)


class TestExpectedCost:
    @pytest.fixture
    def parts(self, log):
        train, rest = csrr.split(log, ratio=0.6, seed=0)
        return train, *csrr.split(rest, ratio=0.5, seed=0)

    def test_every_number_by_hand(self, parts):
        train, held, test = parts
        model = CSRR(miss_cost=16, false_alarm_cost=2).fit(train, item_costs={5: 3.0})
        model.calibrate(held)
        table = model.expected_cost(test, lengths=[4])
        seen, came = train.to_csr().toarray() > 0, test.to_csr().toarray() > 0
        said = np.where(seen, 0, model.probability(model.users_.ids))
        lost = np.where(np.arange(60) == 5, 48, 16)
        best = np.zeros_like(seen)
        np.put_along_axis(best, np.argsort(-np.where(seen, -np.inf, model.score(model.users_.ids)))[:, :4], True, 1)
        pays = ~seen & (said * lost > (1 - said) * 2)
        for row, shown in enumerate((np.zeros_like(seen), best, pays)):
            assert table["items"][row] == pytest.approx(shown.sum(1).mean())
            expected = np.where(shown, (1 - said) * 2, said * lost).sum(1)
            paid = np.where(shown, ~came * 2, came * lost).sum(1)
            for name, values in (("expected", expected), ("cost", paid)):
                assert table[name][row] == pytest.approx(values.mean(), rel=1e-5)
                half = 1.96 * values.std(ddof=1) / np.sqrt(80)
                assert table[f"{name}_high"][row] - table[name][row] == pytest.approx(half, rel=1e-4)
        assert table["expected"][2] == table["expected"].min()

    def test_any_calibrated_model_says_it_for_given_costs(self, parts):
        train, held, _ = parts
        model = csrr.EASE(reg=10).fit(train)
        with pytest.raises(ParameterError, match="call calibrate"):
            model.expected_cost(miss=5, false_alarm=1)
        model.calibrate(held)
        with pytest.raises(ParameterError, match="EASE has no costs; give miss and false_alarm"):
            model.expected_cost()
        table = model.expected_cost(miss=5, false_alarm=1)
        assert "cost" not in table.columns
        assert table["choice"].tolist() == ["nothing", *(f"the best {k}" for k in (1, 5, 10, 20)), "all that pay"]


def test_the_weight_is_chosen_by_what_decisions_cost(tmp_path):
    log = csrr.synthetic(700, 120, rank=5, events_per_user=14, seed=1).log
    model, plain = CSRR(miss_cost=20, false_alarm_cost=1).fit(log), CSRR().fit(log)
    judged = model.chosen_["cost"]
    assert np.isfinite(judged).sum() >= 8
    # Ranking is judged first, and as without costs.
    tried = len(plain.chosen_)
    np.testing.assert_array_equal(model.chosen_["ndcg"][:tried], plain.chosen_["ndcg"])
    assert model.costs_.weight in (1, 2, 5)
    assert "decisions cost" in model.chosen_.note
    assert model.decision_probability == pytest.approx(1 / 21)
    model.save(tmp_path / "model.csrr")
    assert str(csrr.load(tmp_path / "model.csrr").chosen_) == str(model.chosen_)


def test_a_cheaper_choice_must_be_confirmed_by_other_events(monkeypatch):
    log = csrr.synthetic(700, 120, rank=5, events_per_user=14, seed=1).log
    plain = CSRR().fit(log).chosen_.settings
    monkeypatch.setattr(Search, "lower_cost", lambda self, point: point._replace(strength=9.9))
    # Nothing is left at such a strength: elsewhere it costs more.
    assert CSRR(miss_cost=20, false_alarm_cost=1).fit(log).chosen_.settings == plain
