"""EASE: the textbook formula, the optimum it stands for, and what the inherited answers owe to its weights."""

import os

import numpy as np
import pytest

import csrr
from csrr import EASE, ParameterError
from csrr.models import ease
from csrr.models.recommend import rank_items
from tests.reference.metrics import best_items


@pytest.fixture(scope="module")
def model(log):
    return EASE(reg=7.0).fit(log)


def textbook(clicks, reg):
    """B = I - P / diag(P), P = (X'X + reg*I)^-1, (m, m)."""
    X = clicks.astype(np.float64)
    P = np.linalg.inv(X.T @ X + reg * np.eye(X.shape[1]))
    return np.eye(X.shape[1]) - P / np.diag(P)


class TestTheSolution:
    @pytest.mark.parametrize("reg", [0.5, 7.0, 300.0])
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_it_is_the_textbook_formula(self, log, clicks, reg, dtype):
        weights = EASE(reg, dtype=dtype).fit(log).weights_
        assert weights.dtype == np.float32
        assert weights.flags.c_contiguous
        np.testing.assert_allclose(weights, textbook(clicks, reg), atol=1e-6 if dtype == "float64" else 1e-4)

    def test_the_gradient_vanishes_off_the_diagonal_which_is_zero(self, model, clicks):
        B = model.weights_.astype(np.float64)
        gradient = clicks.T @ (clicks @ B - clicks) + model.reg_ * B
        off = gradient[~np.eye(60, dtype=bool)]
        scale = np.abs(clicks.T @ clicks).max()
        assert np.abs(off).max() < 1e-5 * scale
        assert not B.diagonal().any()
        # On the diagonal it does not: there the constraint holds B down.
        assert np.abs(gradient.diagonal()).min() > 1e-2 * scale

    def test_items_without_events_have_no_weight(self, clicks):
        wider = np.hstack([clicks, np.zeros((80, 2), clicks.dtype)])
        weights = EASE(7.0).fit(wider).weights_
        assert not weights[60:].any()
        assert not weights[:, 60:].any()
        np.testing.assert_allclose(weights[:60, :60], EASE(7.0).fit(clicks).weights_, atol=1e-7)

    def test_the_number_of_threads_moves_rounding_errors_only(self, log):
        one, two = (EASE(threads=n).fit(log).weights_ for n in (1, 2))
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-7)


@pytest.fixture(scope="module")
def parts():
    """Training and test events for which the rule is far too weak, 400 users x 200 items."""
    return csrr.split(csrr.synthetic(400, 200, rank=4, events_per_user=8, seed=1).log, ratio=0.8, seed=0)


class TestTheDefaultStrength:
    def test_of_a_small_log_it_is_the_rule(self, log, clicks):
        counts = clicks.sum(axis=0).astype(np.float64)
        assert EASE().fit(log).reg_ == ease.guess_reg(log.to_csr())
        assert EASE().fit(log).reg_ == pytest.approx(5 * np.sqrt((counts**2).sum() / 80))

    def test_users_without_events_count_for_nothing(self, clicks):
        more = np.vstack([clicks, np.zeros((40, 60), clicks.dtype)])
        assert EASE().fit(more).reg_ == pytest.approx(EASE().fit(clicks).reg_)

    def test_of_a_larger_one_it_ranks_new_events_better_than_the_rule(self, parts):
        train, test = parts
        auto, rule = EASE().fit(train), EASE(ease.guess_reg(train.to_csr())).fit(train)
        steps = np.log(auto.reg_ / rule.reg_) / np.log(ease.STEP)
        assert steps == pytest.approx(round(steps))
        ours, theirs = (csrr.evaluate(model, train, test, at=20)["ndcg@20"] for model in (auto, rule))
        assert ours > 1.05 * theirs

    def test_the_model_is_that_of_all_events_with_the_strength_chosen(self, parts):
        train, _ = parts
        model = EASE(threads=1).fit(train)
        np.testing.assert_array_equal(model.seen_.toarray(), train.to_csr().toarray())
        np.testing.assert_array_equal(model.weights_, EASE(model.reg_, threads=1).fit(train).weights_)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_it_is_the_same_again_and_for_any_number_of_threads(self, parts, dtype):
        one, again, two = (EASE(threads=n, dtype=dtype).fit(parts[0]) for n in (1, 1, 2))
        np.testing.assert_array_equal(one.weights_, again.weights_)
        assert one.reg_ == two.reg_

    def test_a_number_is_not_searched(self, parts, monkeypatch):
        monkeypatch.setattr(ease, "find_best_multiple", lambda *_, **__: pytest.fail("a number was searched"))
        assert EASE(7.0).fit(parts[0]).reg_ == 7.0


class TestAnswers:
    def test_scores_are_clicks_times_weights(self, model, clicks):
        np.testing.assert_allclose(model.score(range(80)), clicks @ model.weights_, rtol=1e-4, atol=1e-6)

    def test_scores_of_pairs_are_those_of_the_block(self, model):
        users, items = np.repeat(np.arange(80), 60), np.tile(np.arange(60), 80)
        found = model.score(users, items).reshape(80, 60)
        np.testing.assert_allclose(found, model.score(range(80)), rtol=1e-4, atol=1e-6)

    def test_a_training_history_folded_in_is_the_user(self, model, clicks):
        folded = model.fold_in([np.flatnonzero(row).tolist() for row in clicks])
        np.testing.assert_array_equal(folded.score(), model.score(range(80)))
        np.testing.assert_array_equal(folded.recommend(6).items, model.recommend(k=6).items)

    def test_an_explanation_is_the_weights_and_sums_to_the_score(self, model, clicks):
        why = model.explain(5, 17)
        assert sorted(why.items) == np.flatnonzero(clicks[5]).tolist()
        np.testing.assert_allclose(why.amounts, model.weights_[why.items, 17], rtol=1e-5, atol=1e-7)
        assert why.amounts.sum() == pytest.approx(model.score(5, 17)[0], rel=1e-5, abs=1e-6)

    def test_similar_items_have_the_largest_weights(self, model, log):
        near = model.similar_items(8, k=5)
        assert near.ids.tolist() == best_items(model.weights_[:, 8], 5, {8})
        np.testing.assert_array_equal(near.scores, model.weights_[near.ids, 8])
        assert near.titles.tolist() == log.titles[near.ids].tolist()
        assert 8 not in model.similar_items(8, k=1000).ids

    def test_rows_that_are_not_there(self, model):
        with pytest.raises(IndexError):
            rank_items(model, np.array([80]), 3)


def test_a_saved_model_keeps_weights_and_strength(model, tmp_path):
    model.save(tmp_path / "m.csrr")
    again = csrr.load(tmp_path / "m.csrr")
    np.testing.assert_array_equal(again.weights_, model.weights_)
    assert again.reg_ == 7.0
    assert again.explain(5, 17).contributions == model.explain(5, 17).contributions


class TestWhatIsRefused:
    @pytest.mark.parametrize("reg", [0, -1.0, float("nan"), float("inf"), True, None, "much", 1e300, 10**400])
    def test_reg(self, log, reg):
        with pytest.raises(ParameterError, match=r"^reg="):
            EASE(reg).fit(log)

    @pytest.mark.parametrize(("name", "value"), [("dtype", "float16"), ("threads", -1), ("threads", 1.5)])
    def test_others(self, log, name, value):
        with pytest.raises(ParameterError, match=f"^{name}="):
            EASE(**{name: value}).fit(log)

    def test_no_events(self, log):
        with pytest.raises(ParameterError, match="the log has no events"):
            EASE().fit(log.select(np.zeros(len(log), bool)))

    def test_a_strength_lost_in_rounding_and_the_model_stays(self, log, clicks):
        model = EASE(7.0).fit(log)
        before = model.weights_
        twice = np.hstack([clicks, clicks])
        with pytest.raises(ParameterError, match=r'reg=1e-30 is too small.*dtype="float64"'):
            model.set_params(reg=1e-30, dtype="float32").fit(twice)
        assert model.weights_ is before
        assert len(model.items_) == 60

    def test_more_items_than_memory(self, log, monkeypatch):
        monkeypatch.setattr(ease, "_measure_available_memory", lambda: 12 * 60**2 - 1)
        with pytest.raises(ParameterError, match=r"EASE needs .* GB for 60 items, and .* GB are available; leave out"):
            EASE().fit(log)
        EASE(dtype="float32").fit(log)
        monkeypatch.setattr(ease, "_measure_available_memory", lambda: None)
        EASE().fit(log)

    def test_it_is_refused_before_anything_is_computed(self, log, monkeypatch):
        monkeypatch.setattr(ease, "_measure_available_memory", lambda: 1)
        monkeypatch.setattr(ease, "_compute_gram", lambda *_: pytest.fail("the counts were made"))
        monkeypatch.setattr(ease, "find_best_multiple", lambda *_, **__: pytest.fail("events were held out"))
        with pytest.raises(ParameterError, match="EASE needs"):
            EASE().fit(log)


def test_the_memory_that_is_told_is_plausible():
    there = ease._measure_available_memory()
    assert there is None or 2**20 < there <= 2**50


@pytest.mark.skipif("CSRR_DATA_DIR" not in os.environ, reason="CSRR_DATA_DIR is not set")
def test_on_movielens_100k_it_doubles_popularity_and_the_default_strength_is_near_the_best():
    train, test = csrr.split(csrr.read("ml-100k.zip", min_rating=3), ratio=0.8, seed=0)

    def ndcg(model):
        return csrr.evaluate(model.fit(train), train, test, at=10)["ndcg@10"]

    ours = ndcg(EASE(threads=1))
    assert ours > 2 * ndcg(csrr.PopRank())
    assert ours > 0.98 * max(ndcg(EASE(reg, threads=1)) for reg in (100.0, 300.0, 1000.0))


def test_a_fit_tells_its_steps(log):
    steps = []
    csrr.EASE(reg=10).fit(log, callback=steps.append)
    done = ["pairs counted", "factorized", "inverted", "weights ready"]
    assert [step.done for step in steps] == done
    assert {step.reg for step in steps} == {10}
    assert sorted(step.seconds for step in steps) == [step.seconds for step in steps]
    model, steps = csrr.EASE(), []
    model.fit(csrr.synthetic(400, 40, events_per_user=12).log, callback=steps.append, verbose=True)
    n_fits, rest = divmod(len(steps), 4)
    assert n_fits >= 4
    assert rest == 0
    assert (len({step.reg for step in steps}), steps[-1].reg) == (n_fits, model.reg_)
    steps.clear()
    model.update({"user": [3], "item": [7]}, callback=steps.append)
    assert [step.done for step in steps] == done
