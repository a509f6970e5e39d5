"""What "auto" comes to: chosen on held-out training events, reproducibly, never against what is given."""

from dataclasses import replace

import numpy as np
import pytest

import csrr
from csrr import CSRR, CSRRe, ParameterError
from csrr._base.threads import TimeUpError
from csrr.data.log import Log
from csrr.data.synthetic import synthetic
from csrr.models import auto, held_out
from csrr.models.build_problem import RULE
from csrr.models.fitted_problem import Neighborhood
from csrr.models.held_out import LEAST_USERS, hold_out
from csrr.models.search import Search


@pytest.fixture(scope="module")
def tastes():
    """700 users x 120 items, five tastes."""
    return synthetic(700, 120, rank=5, events_per_user=14, seed=1).log


@pytest.fixture(scope="module")
def pairs():
    """900 users x 600 items that go in pairs and follow no common taste: who has one mostly has the other."""
    rng = np.random.default_rng(0)
    users, items = [], []
    for user in range(900):
        for first in rng.choice(300, 6, replace=False):
            mine = [2 * first, 2 * first + 1] if rng.random() < 0.8 else [2 * first + int(rng.integers(2))]
            users += [user] * len(mine)
            items += mine
    return csrr.read({"user": users, "item": items})


@pytest.fixture(scope="module")
def fitted(tastes):
    return CSRR().fit(tastes)


def events(log):
    return set(zip(log.user_rows.tolist(), log.item_rows.tolist(), strict=True))


class TestHoldingOut:
    def test_a_tenth_of_the_training_events_and_nothing_else(self, tastes):
        part, asked, *_ = hold_out(tastes, seed=0)
        assert events(part) | events(asked) == events(tastes)
        assert not events(part) & events(asked)
        assert 0.08 < len(asked) / len(tastes) < 0.12
        assert part.users == asked.users == tastes.users

    def test_who_has_two_events_spares_none(self):
        log = csrr.read({"user": np.repeat(np.arange(3000), 2), "item": np.arange(6000) % 50})
        assert hold_out(log, seed=0) is None

    def test_short_histories_lose_a_tenth_on_average(self):
        rng = np.random.default_rng(1)
        rows = [(user, item) for user in range(3000) for item in rng.choice(60, 4, replace=False)]
        log = csrr.read({"user": [u for u, _ in rows], "item": [i for _, i in rows]})
        part, asked, *_ = hold_out(log, seed=0)
        assert len(log) - len(part) == pytest.approx(0.1 * len(log), rel=0.15)
        assert asked.user_counts().max() == 1

    def test_seeded(self, tastes):
        assert events(hold_out(tastes, 0)[1]) == events(hold_out(tastes, 0)[1]) != events(hold_out(tastes, 1)[1])

    def test_of_many_users_some_are_asked(self, tastes, monkeypatch):
        monkeypatch.setattr(held_out, "MOST_USERS", 200)
        part, asked, *_ = hold_out(tastes, seed=0)
        assert np.count_nonzero(asked.user_counts()) == 200
        # The others lose their events all the same.
        assert len(part) < 0.92 * len(tastes)

    def test_a_leak_is_caught(self, tastes, monkeypatch):
        def leaking(log, seed, way):
            return hold_out(log, seed, way)._replace(fitted=log)

        monkeypatch.setattr(auto, "hold_out", leaking)
        with pytest.raises(AssertionError, match="among those that are fitted"):
            CSRR().fit(tastes)

    def test_the_choice_depends_on_the_training_events_alone(self, tastes, fitted):
        # The same events of another log, with other events left out: nothing else reaches the fit.
        train, _ = csrr.split(tastes, ratio=0.8, seed=0)
        again = csrr.read({"user": train.user_rows, "item": train.item_rows})
        assert again.n_items == train.n_items
        one, other = CSRR().fit(train), CSRR().fit(again)
        np.testing.assert_array_equal(one.chosen_["ndcg"], other.chosen_["ndcg"])
        np.testing.assert_array_equal(one.item_factors_, other.item_factors_)
        assert len(one.chosen_) != len(fitted.chosen_) or not np.array_equal(
            one.chosen_["ndcg"], fitted.chosen_["ndcg"]
        )


class TestTheChoice:
    def test_the_settings_are_among_what_was_tried(self, fitted):
        settings, table = fitted.chosen_.settings, fitted.chosen_
        assert len(table) >= 6
        same = np.ones(len(table), bool)
        for name, value in settings._asdict().items():
            same &= table[name] == value
        assert same.sum() == 1
        best = table["ndcg"].max()
        assert table["ndcg"][same][0] >= best - 2 * table["error"][same][0]
        assert fitted.seen_.nnz == len(synthetic(700, 120, rank=5, events_per_user=14, seed=1).log)
        assert "held-out events" in fitted.chosen_.note

    def test_its_print_marks_what_was_taken_and_says_why_not_the_best_row(self):
        chosen = CSRR().fit(synthetic(400, 100, events_per_user=15, seed=7).log).chosen_
        best, taken = int(chosen["ndcg"].argmax()), chosen.taken
        assert best != taken
        lines = repr(chosen).splitlines()
        assert [row for row, line in enumerate(lines[1 : len(chosen) + 1]) if line.startswith("*")] == [taken]
        more = chosen["ndcg"][best] - chosen["ndcg"][taken]
        assert f"(row {best + 1} has {chosen['ndcg'][best]:.4f}, {more:.4f} more, but that is within 2 " in lines[-1]

    def test_where_the_best_row_was_taken_nothing_is_explained(self, fitted):
        is_best = fitted.chosen_["ndcg"].argmax() == fitted.chosen_.taken
        assert is_best == ("more, but" not in fitted.chosen_.note)

    def test_it_is_what_the_fit_took(self, fitted, tastes):
        settings = fitted.chosen_.settings
        noise = CSRR(reg_low_rank="noise", cost_ratio=settings.cost_ratio, neighbors=0).strength(tastes) / 0.5
        assert fitted.l1_ == pytest.approx(settings.strength * noise, rel=1e-5)
        assert fitted.costs_.ratio == settings.cost_ratio
        assert (np.diff(fitted.neighbors_.tocsc().indptr) <= settings.neighbors).all()
        assert (fitted.l2_ is None) == (settings.reg_sparse >= 1)

    @pytest.mark.parametrize("kind", [CSRR, CSRRe])
    def test_reproducible_whatever_the_threads(self, kind, tastes, monkeypatch):
        monkeypatch.setattr("csrr._base.threads.available_cores", lambda: 2)
        one, two = (kind(threads=threads).fit(tastes) for threads in (1, 2))
        for name in one.chosen_.columns:
            np.testing.assert_array_equal(one.chosen_[name], two.chosen_[name])
        np.testing.assert_array_equal(one.user_factors_, two.user_factors_)
        np.testing.assert_array_equal(one.neighbors_.toarray(), two.neighbors_.toarray())

    def test_neighbours_where_things_go_in_pairs(self, pairs):
        train, test = csrr.split(pairs, ratio=0.8, seed=0)
        # Three hundred pairs are more than eight directions can tell.
        model, without = CSRR(max_rank=8).fit(train), CSRR(max_rank=8, neighbors=0).fit(train)
        assert model.chosen_.settings.neighbors > 0
        found = [csrr.evaluate(each, train, test, at=10)["ndcg@10"] for each in (model, without)]
        assert found[0] > 2 * found[1]

    def test_nothing_given_is_overruled_or_searched(self, tastes):
        given = {"neighbors": 7, "reg_neighbors": 2.0, "cost_ratio": 3.0, "reg_sparse": 0.7, "max_rank": 9}
        model = CSRR(**given).fit(tastes)
        for name, value in given.items():
            assert getattr(model.chosen_.settings, name) == pytest.approx(value)
        for name in ("neighbors", "reg_neighbors", "max_rank"):
            assert set(model.chosen_[name].tolist()) == {given[name]}
        assert len(set(model.chosen_["strength"].tolist())) > 1
        assert model.rank_ <= 9
        assert model.costs_.ratio == 3
        assert model.l2_ == pytest.approx(0.7 * 3)

    def test_a_given_strength_leaves_the_neighbours_open(self, tastes):
        model = CSRR(reg_low_rank=0.2).fit(tastes)
        whole = CSRR(reg_low_rank=1.0, neighbors=0).strength(tastes)
        assert model.l1_ == pytest.approx(0.2 * whole, rel=1e-5)
        assert len(set(model.chosen_["strength"].tolist())) == 1
        assert len(set(model.chosen_["neighbors"].tolist())) > 1
        assert model.l2_ == pytest.approx(0.85 * 2)

    def test_with_everything_given_there_is_nothing_to_choose(self, tastes, monkeypatch):
        monkeypatch.setattr(auto, "hold_out", None)
        model = CSRR(reg_low_rank=0.2, neighbors=0).fit(tastes)
        assert len(model.chosen_) == 0
        assert "nothing was left" in str(model.chosen_)
        assert len(CSRR(reg_low_rank="noise", neighbors=5, reg_neighbors=1).fit(tastes).chosen_) == 0

    @pytest.mark.parametrize("ratio", [None, 2.0])
    def test_the_settled_parameters_give_the_model_again(self, pairs, ratio):
        fitted = CSRR(cost_ratio=ratio).fit(pairs)
        again = CSRR(**fitted.get_params() | fitted.settled_params()).fit(pairs)
        assert len(again.chosen_) == 0
        assert fitted.neighbors_.nnz
        # It begins where the settings say, not where the search ended: no tolerance is needed.
        np.testing.assert_array_equal(again.score(np.arange(50)), fitted.score(np.arange(50)))

    def test_costs_of_events_are_in_it(self, tastes):
        weights = np.random.default_rng(0).uniform(1, 9, len(tastes)).astype(np.float32)
        log = Log(tastes.users, tastes.items, tastes.user_rows, tastes.item_rows, weights=weights)
        model = CSRR(event_weights="log").fit(log, user_costs={3: 2.0})
        assert len(model.chosen_) > 3

    def test_a_time_limit_ends_it_early(self, tastes, fitted, monkeypatch):
        try_points, calls = Search._try, []

        def try_once(self, points):
            if calls:
                raise TimeUpError
            calls.append(points)
            try_points(self, points)

        monkeypatch.setattr(Search, "_try", try_once)
        cut = CSRR(time_limit=1000).fit(tastes).chosen_
        assert 0 < len(cut) < len(fitted.chosen_)
        assert f"the time limit ended the search after {len(cut)} tries" in cut.note

    def test_no_time_at_all_leaves_the_rule_and_says_so(self, tastes):
        model = CSRR(time_limit=1e-6).fit(tastes)
        assert len(model.chosen_) == 0
        assert "by rule: the time limit left no time for a search" in model.chosen_.note
        assert model.certificate_.status == "timeout"
        assert np.isfinite(model.score_rows(np.arange(5))).all()

    def test_neighbours_that_there_is_no_time_for_are_left_out_aloud(self, tastes, fitted, monkeypatch):
        def too_late(*_):
            raise TimeUpError

        monkeypatch.setattr(Neighborhood, "of", too_late)
        assert fitted.chosen_.settings.neighbors
        model = CSRR(time_limit=1000).fit(tastes)
        assert model.neighbors_.nnz == 0
        assert "the time limit left no time for neighbors" in model.chosen_.note
        assert model.settled_params()["neighbors"] == 0
        monkeypatch.undo()
        # A number is never overruled.
        given = CSRR(reg_low_rank=0.1, neighbors=3, time_limit=1e-6).fit(tastes)
        assert given.neighbors_.nnz > 0

    def test_it_is_kept_in_a_file(self, fitted, tmp_path):
        fitted.save(tmp_path / "model.csrr")
        loaded = csrr.load(tmp_path / "model.csrr")
        assert str(loaded.chosen_) == str(fitted.chosen_)
        assert loaded.chosen_.to_frame().equals(fitted.chosen_.to_frame())


class TestSmallLogs:
    def test_they_go_by_rule_and_say_so(self, log):
        model, by_rule = CSRR().fit(log), CSRR(reg_low_rank="noise", neighbors=0, max_rank=1000).fit(log)
        assert model.chosen_.settings == RULE
        assert f"({LEAST_USERS} are needed for a search)" in model.chosen_.note
        assert "no neighbors" in model.chosen_.note
        assert "4 neighbors" in CSRR(neighbors=4).fit(log).chosen_.note
        np.testing.assert_array_equal(model.user_factors_, by_rule.user_factors_)
        np.testing.assert_array_equal(model.specific_.toarray(), by_rule.specific_.toarray())

    def test_one_user_or_item(self):
        for shape in ((1, 7), (7, 1), (1, 1)):
            assert CSRR().fit(np.ones(shape, np.float32)).chosen_.settings == RULE


@pytest.fixture(scope="module")
def timed(tastes):
    """The same log with times in any order."""
    return replace(tastes, times=np.random.default_rng(0).permutation(len(tastes)).astype(np.float64))


class TestTheWayOfHoldingOut:
    def test_last_takes_each_users_latest(self, timed):
        part, asked, *_ = hold_out(timed, 0, "last")
        for row in range(0, 700, 50):
            mine, theirs = (log.times[log.user_rows == row] for log in (part, asked))
            assert len(theirs) == 0 or mine.max() < theirs.min()
        assert 0.08 < len(asked) / len(timed) < 0.12

    def test_time_takes_the_last_of_all(self, timed):
        part, asked, *_ = hold_out(timed, 0, "time")
        assert part.times.max() < asked.times.min()
        assert len(part) == pytest.approx(0.9 * len(timed), abs=2)

    @pytest.mark.parametrize("way", ["last", "time"])
    def test_views_that_came_after_a_held_out_purchase_are_in_neither_part(self, timed, way):
        kinds = np.random.default_rng(1).choice(["view", "buy"], len(timed))
        columns = {"user": timed.user_rows, "item": timed.item_rows, "time": timed.times, "event": kinds}
        log = csrr.read(columns, event="event", weights={"view": 1, "buy": 3}, target="buy")
        part, asked, *_ = hold_out(log, 0, way)
        rows = np.unique(asked.user_rows)
        assert len(rows) > 100
        assert asked.is_target.all()
        for row in rows:
            mine, theirs = (each.times[each.user_rows == row] for each in (part, asked))
            assert mine.max() < theirs.min()

    @pytest.mark.parametrize(("how", "way"), [({"last": 2}, "last"), ({"time_quantile": 0.8}, "time"), ({}, "random")])
    def test_auto_follows_the_split_of_the_log(self, timed, how, way):
        train, test = csrr.split(timed, seed=0, **how)
        assert train.cut == {"random": None, "last": "share", "time": "time"}[way]
        assert test.cut is None
        assert events(hold_out(train, 0)[1]) == events(hold_out(train, 0, way)[1])
        # It is the model's to say otherwise.
        model = CSRR(hold_out="random", neighbors=0, max_rank=5).fit(train)
        same = CSRR(neighbors=0, max_rank=5).fit(replace(train, cut=None))
        np.testing.assert_array_equal(model.chosen_["ndcg"], same.chosen_["ndcg"])

    def test_where_the_end_has_too_few_users_twice_the_share_is_taken(self, timed):
        times = np.random.default_rng(0).random(len(timed))
        times[timed.user_rows >= 120] *= 0.9
        log = replace(timed, times=times, cut="time")
        assert hold_out(log, 0, "time", 0.015) is None
        part, asked, way = hold_out(log, 0, share=0.015)
        assert way == "time"
        assert part.times.max() < asked.times.min()
        assert len(part) == pytest.approx(0.97 * len(log), abs=2)

    def test_a_cut_that_leaves_too_few_is_not_followed(self, timed):
        # All events of one moment are the last.
        few = replace(timed, times=(timed.user_rows < 20).astype(np.float64), cut="time")
        assert hold_out(few, 0, "time") is None
        assert events(hold_out(few, 0)[1]) == events(hold_out(few, 0, "random")[1])

    def test_it_needs_times(self, tastes):
        with pytest.raises(ParameterError, match="hold_out='time' needs events with times"):
            CSRR(hold_out="time").fit(tastes)
