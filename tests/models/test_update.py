"""A model that is updated is the one that a fit to all events gives."""

import threading

import numpy as np
import pytest

import csrr
from csrr import DataError, Log, ParameterError
from csrr.registry import MODELS

DAY = 86_400


@pytest.fixture(scope="module")
def whole():
    """300 users x 120 items with weights and times."""
    log = csrr.synthetic(300, 120, rank=4, events_per_user=16, seed=3).log
    rng = np.random.default_rng(0)
    columns = {"user": log.users.ids[log.user_rows], "item": log.items.ids[log.item_rows]}
    times, weights = rng.integers(0, 100 * DAY, len(log)), rng.integers(1, 9, len(log))
    return Log.from_table(columns | {"time": times, "weight": weights})


@pytest.fixture(scope="module")
def parts(whole):
    """Old events, and new ones: some of everybody's, all of the last users and items, and some that are there."""
    rng = np.random.default_rng(1)
    is_new = (rng.random(len(whole)) < 0.05) | (whole.user_rows >= 290) | (whole.item_rows >= 115)
    return tuple(Log.from_table(whole.select(each).to_arrow()) for each in (~is_new, is_new))


def lists_alike(a, b, k=10):
    """The share of the k best items that two models have in common."""
    lists = zip(a.recommend(k=k).items, b.recommend(k=k).items, strict=True)
    return np.mean([len(np.intersect1d(x, y)) / k for x, y in lists])


@pytest.mark.parametrize("tol", [1e-2, 1e-4])
@pytest.mark.parametrize("params", [{}, {"reg_sparse": 0.6}, {"loss": "II", "neighbors": 0}], ids=str)
def test_the_optimum_is_that_of_all_events(whole, parts, params, tol):
    old, new = parts
    assert (old.n_users, old.n_items) == (290, 115)
    model = csrr.CSRR(tol=tol, **params).fit(old)
    settings = model.chosen_.settings
    model.update(new)
    full = csrr.CSRR(tol=tol, **params)
    full.fixed_settings = settings
    full.fit(whole)
    assert model.l1_ == full.l1_
    ours, theirs = model.certificate_, full.certificate_
    assert ours.gap <= tol
    assert theirs.gap <= tol
    # Each is above the other's bound.
    assert ours.primal >= theirs.dual
    assert theirs.primal >= ours.dual
    assert abs(ours.primal - theirs.primal) <= tol * theirs.primal
    a, b = (each.score_rows(np.arange(whole.n_users)) for each in (model, full))
    assert np.abs(a - b).max() <= 3 * tol**0.5 * np.abs(b).max()
    assert lists_alike(model, full) > (0.9 if tol == 1e-2 else 0.99)


def test_chosen_numbers_give_it_too(whole, parts):
    model = csrr.CSRR(tol=1e-4).fit(parts[0]).update(parts[1])
    full = csrr.CSRR(tol=1e-4, **model.settled_params()).fit(whole)
    assert abs(model.certificate_.primal / full.certificate_.primal - 1) <= 1e-4
    assert lists_alike(model, full) > 0.99


def test_what_was_chosen_stays_and_it_says_how_long_ago(whole, parts, tmp_path):
    model = csrr.CSRR().fit(parts[0])
    chosen = model.chosen_
    assert (chosen.n_events, chosen.growth, chosen.growth_note) == (len(parts[0]), 0, "")
    model.update(parts[1])
    assert model.chosen_.settings == chosen.settings
    assert model.chosen_.growth == pytest.approx(len(whole) / len(parts[0]) - 1)
    assert f"had {len(parts[0]):,} events; it has grown by 1" in str(model.chosen_)
    model.save(tmp_path / "m.csrr")
    assert csrr.load(tmp_path / "m.csrr").chosen_.growth == model.chosen_.growth
    assert len(model.chosen_) == len(chosen) > 0
    model.update(parts[1], choose=True)
    assert (model.chosen_.n_events, model.chosen_.growth) == (len(whole), 0)


def test_a_choice_anew_is_that_of_a_fit(whole, parts):
    updated, fitted = csrr.CSRR().fit(parts[0]).update(parts[1], choose=True), csrr.CSRR().fit(whole)
    np.testing.assert_array_equal(updated.score(0), fitted.score(0))


def test_parameters_that_were_changed_since_count(parts):
    model = csrr.CSRR().fit(parts[0]).set_params(neighbors=3, reg_sparse=0.7).update(parts[1])
    assert (model.chosen_.settings.neighbors, model.l2_ / model.costs_.ratio) == (3, pytest.approx(0.7))
    assert np.diff(model.neighbors_.tocsc().indptr).max() == 3


def test_it_begins_where_the_model_is(parts):
    model = csrr.CSRR(tol=1e-3, cost_ratio=2.0).fit(parts[0])
    cold = model.certificate_.iterations
    model.update({"user": [3], "item": [7]})
    assert model.certificate_.iterations < cold
    assert model.certificate_.gap <= 1e-3


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_new_users_and_items_and_all_events(name, whole, parts):
    model = MODELS[name]().fit(parts[0])
    before = model.recommend(k=3)
    assert model.update(parts[1]) is model
    assert (model.users_, model.items_) == (whole.users, whole.items)
    np.testing.assert_array_equal(model.seen_.toarray(), whole.to_csr().toarray())
    lists = model.recommend(k=3)
    assert lists.items.shape == (300, 3)
    assert np.isfinite(lists.scores).all()
    assert before.items.shape == (290, 3)


@pytest.mark.parametrize("kind", [csrr.EASE, csrr.ItemKNN, csrr.PopRank])
def test_closed_forms_are_those_of_all_events(kind, whole, parts):
    params = {"reg": 20} if kind is csrr.EASE else {}
    np.testing.assert_array_equal(
        kind(**params).fit(parts[0]).update(parts[1]).score(0), kind(**params).fit(whole).score(0)
    )


@pytest.mark.parametrize("kind", [csrr.EASE, csrr.WRMF])
def test_a_chosen_strength_keeps_its_multiple_of_the_rule(kind, whole, parts):
    model = kind().fit(parts[0])
    multiple = model.reg_ / model.start_value("reg", parts[0])
    model.update(parts[1])
    assert model.reg_ / model.start_value("reg", whole) == pytest.approx(multiple, rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "params"), [(csrr.WRMF, {"reg": 5}), (csrr.CSRRe, {"reg_low_rank": "noise", "neighbors": 0})]
)
def test_factors_are_as_good_as_those_of_a_fit(kind, params, whole, parts):
    params |= {"rank": 8}
    model, full = kind(**params).fit(parts[0]).update(parts[1]), kind(**params).fit(whole)
    assert model.history_[-1].objective <= 1.01 * full.history_[-1].objective
    assert model.history_[0].objective <= full.history_[0].objective


def test_bpr_goes_on(whole, parts):
    seen = []
    model = csrr.BPRMF(rank=8, epochs=60).fit(parts[0]).update(parts[1], callback=seen.append)
    full = csrr.BPRMF(rank=8, epochs=60).fit(whole)
    assert [each.number for each in seen] == list(range(31, 61))
    assert model.history_[-1] > full.history_[-1] - 0.05


@pytest.mark.parametrize("name", ["CSRR", "CSRRe", "WRMF", "BPRMF", "MCShift"])
def test_the_number_of_threads_changes_no_bit(name, parts, monkeypatch):
    monkeypatch.setattr("csrr._base.threads.available_cores", lambda: 2)
    one, two = (MODELS[name](threads=threads).fit(parts[0]).update(parts[1]) for threads in (1, 2))
    np.testing.assert_array_equal(one.score(0), two.score(0))
    np.testing.assert_array_equal(one.user_factors_, two.user_factors_)


def test_a_loaded_model_is_updated_as_one_that_was_not_saved(parts, tmp_path):
    model = csrr.CSRR(event_weights="log", half_life="30d").fit(parts[0])
    model.save(tmp_path / "m.csrr")
    loaded = csrr.load(tmp_path / "m.csrr").update(parts[1])
    np.testing.assert_array_equal(loaded.score(0), model.update(parts[1]).score(0))


# Weights, times and costs


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (csrr.CSRR, {"event_weights": "log"}),
        (csrr.CSRR, {"event_weights": "linear", "half_life": "20d"}),
        (csrr.CSRR, {"half_life": "20d"}),
        (csrr.WRMF, {"event_weights": "linear", "reg": 5, "tol": 1e-6}),
        (csrr.WRMF, {"half_life": "20d", "reg": 5, "tol": 1e-6}),
    ],
)
def test_weights_and_times_are_those_of_all_events(kind, params, whole, parts):
    if kind is csrr.CSRR:
        params = params | {"tol": 1e-4, "reg_low_rank": "noise", "neighbors": 5}
    model, full = kind(**params).fit(parts[0]).update(parts[1]), kind(**params).fit(whole)
    for name in ("seen_weights_", "seen_times_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(full, name))
    if kind is csrr.CSRR:
        np.testing.assert_array_equal(model.fitted_.clicks.values, full.fitted_.clicks.values)
        assert model.certificate_.primal == pytest.approx(full.certificate_.primal, rel=1e-4)
    else:
        assert model.history_[-1].objective <= 1.005 * full.history_[-1].objective


def test_weights_of_a_model_that_ignores_them_are_not_kept(parts):
    model = csrr.CSRR(reg_low_rank=0.2, neighbors=0).fit(parts[0])
    assert model.seen_weights_ is None
    # Nor needed.
    model.update({"user": [3], "item": [7]})


def test_times_are_kept_and_what_is_popular_of_late_is_that_of_all_events(parts, whole, tmp_path):
    model = csrr.PopRank().fit(parts[0])
    model.save(tmp_path / "m.csrr")
    for each in (model, csrr.load(tmp_path / "m.csrr")):
        each.update(parts[1])
        np.testing.assert_array_equal(each.seen_times_, whole.times)
        np.testing.assert_array_equal(each.recent_popularity, csrr.PopRank().fit(whole).recent_popularity)
    # They are for all events or none.
    model.update({"user": [3], "item": [7]})
    assert (model.seen_times_, model.recent_popularity) == (None, None)


@pytest.mark.parametrize("kind", [csrr.CSRR, csrr.EASE, csrr.WRMF, csrr.BPRMF, csrr.ItemKNN, csrr.PopRank])
def test_what_is_known_of_the_items_stays(kind):
    log = csrr.synthetic(40, 32, events_per_user=8).log
    titles = [f"T{item}" for item in range(32)]
    model = kind().fit(log).set_items({"item": range(32), "title": titles, "genre": ["a", "b"] * 16})
    model.update({"user": [3, 99], "item": [7, 500]})
    assert model.item_table_.items == model.items_
    assert set(model.recommend(3, k=3, where={"genre": "a"}, columns=["genre"]).columns["genre"].ravel()) == {"a"}
    assert dict(zip(model.items_.ids.tolist(), model.titles_, strict=True))[7] == "T7"
    assert model.fit(log).item_table_ is None


def test_times_of_any_size_come_back(tmp_path):
    for times in ([1, 2**31], [1, 2**31 - 1], [-1, -(2**36)], [0.5, 1.5]):
        csrr.PopRank().fit({"user": [1, 2], "item": [1, 2], "time": times}).save(tmp_path / "m.csrr")
        assert csrr.load(tmp_path / "m.csrr").seen_times_.tolist() == times


def test_weights_and_times_that_are_needed_and_missing(parts, whole):
    new = {"user": [3], "item": [7]}
    with pytest.raises(DataError, match="weighs events by their weights, and the new ones have none"):
        csrr.CSRR(event_weights="log", reg_low_rank=0.2, neighbors=0).fit(parts[0]).update(new)
    with pytest.raises(DataError, match="weighs events by their times, and the new ones have none"):
        csrr.CSRR(half_life=30, reg_low_rank=0.2, neighbors=0).fit(parts[0]).update(new)
    unweighted = csrr.CSRR(reg_low_rank=0.2, neighbors=0).fit(parts[0]).set_params(event_weights="log")
    with pytest.raises(DataError, match=r"those of its training events were not kept .* fit it to the whole log"):
        unweighted.update(parts[1])


@pytest.mark.parametrize("event_weights", ["ignore", "linear"])
def test_costs_of_users_and_items_stay(whole, parts, event_weights):
    users, items = {3: 2.0, 100: 0.5}, {7: 3.0}
    params = {"event_weights": event_weights, "reg_low_rank": "noise", "neighbors": 0, "tol": 1e-4}
    model = csrr.CSRR(**params).fit(parts[0], user_costs=users, item_costs=items).update(parts[1])
    full = csrr.CSRR(**params).fit(whole, user_costs=users, item_costs=items)
    np.testing.assert_array_equal(model.fitted_.clicks.values, full.fitted_.clicks.values)
    model.update({"user": [3], "item": [7], "weight": [1]}, user_costs={299: 4.0})
    mine = model.fitted_.clicks.select_row(model.seen_.indptr, 299)
    assert (mine > model.fitted_.clicks.select_row(model.seen_.indptr, 3).min()).all()


def test_costs_of_users_are_saved(parts, tmp_path):
    users, items = {3: 2.0, 100: 0.5}, {7: 3.0}
    model = csrr.CSRR(reg_low_rank="noise", neighbors=0).fit(parts[0], user_costs=users, item_costs=items)
    model.save(tmp_path / "m.csrr")
    expected = model.update(parts[1]).fitted_.clicks.values
    loaded = csrr.load(tmp_path / "m.csrr").update(parts[1])
    np.testing.assert_array_equal(loaded.fitted_.clicks.values, expected)


def test_events_are_weighed_as_the_parameters_say_now(parts, whole):
    model = csrr.CSRR(event_weights="log", half_life="20d", reg_low_rank="noise", neighbors=0, tol=1e-4).fit(parts[0])
    changes = {"event_weights": "ignore", "half_life": None}
    plain = model.set_params(**changes).update(parts[1])
    full = csrr.CSRR(reg_low_rank="noise", neighbors=0, tol=1e-4).fit(whole)
    assert plain.fitted_.clicks.values is None
    assert plain.certificate_.primal == pytest.approx(full.certificate_.primal, rel=1e-4)


# What goes wrong


def test_ids_are_of_the_types_that_the_model_has(parts):
    model = csrr.PopRank().fit(parts[0])
    with pytest.raises(DataError, match="the user ids of the new events are strings"):
        model.update({"user": ["3"], "item": [7]})
    with pytest.raises(csrr.NotFittedError):
        csrr.CSRR().update(parts[1])


def test_an_update_that_is_interrupted_leaves_the_model_as_it_was(parts):
    model = csrr.CSRR().fit(parts[0])
    before = model.score(0)

    def stop(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.update(parts[1], callback=stop)
    assert model.users_ == parts[0].users
    np.testing.assert_array_equal(model.score(0), before)
    with pytest.raises(ParameterError):
        model.set_params(tol=2).update(parts[1])
    np.testing.assert_array_equal(model.score(0), before)


def test_the_paper_s_own_algorithms_begin_anew(whole, parts):
    for make in (
        lambda: csrr.CSRR(box="paper", max_iter=20),
        lambda: csrr.CSRRe(factors="nonnegative", rank=4, max_iter=30),
    ):
        updated, full = make().fit(parts[0]).update(parts[1]), make().fit(whole)
        np.testing.assert_array_equal(updated.score(0), full.score(0))


def test_a_model_of_rank_zero_is_updated(parts):
    model = csrr.CSRR(reg_low_rank=1.5, neighbors=0).fit(parts[0])
    assert model.rank_ == 0
    assert model.set_params(reg_low_rank=0.2).update(parts[1]).rank_ > 0


def test_a_calibration_is_dropped(parts):
    model = csrr.PopRank().fit(parts[0])
    known = np.isin(parts[1].users.ids[parts[1].user_rows], model.users_.ids)
    model.calibrate(parts[1].select(known & (parts[1].item_rows < 100)))
    assert model.update(parts[1]).calibration_ is None


def test_a_model_of_ones_own_is_fitted_to_all(parts, whole):
    class Last(csrr.Recommender):
        def fit(self, data):
            log = self.read(data)
            self.remember(log)
            self.counts_ = log.item_counts().astype(np.float32)
            return self

        def score_histories(self, seen, rows):
            return np.tile(self.counts_, (len(rows), 1))

    np.testing.assert_array_equal(Last().fit(parts[0]).update(parts[1]).counts_, whole.item_counts())


class Slow(csrr.PopRank):
    """A model that waits where a test wants it to: in the middle of a fit, or before it scores."""

    waits_in = ""

    def _wait(self, place):
        if self.waits_in == place:
            self.reached.set()
            assert self.go_on.wait(60)

    def remember(self, log):
        super().remember(log)
        self._wait("fit")

    def score_rows(self, rows):
        self._wait("score")
        return super().score_rows(rows)


@pytest.mark.parametrize("place", ["fit", "score"])
def test_another_thread_sees_the_model_before_or_after_an_update(parts, place):
    old, new = parts
    model, expected = Slow().fit(old), csrr.PopRank().fit(old).recommend(k=5)
    after = csrr.PopRank().fit(old).update(new).recommend(k=5)
    model.reached, model.go_on, model.waits_in = threading.Event(), threading.Event(), place
    found = []
    work = (lambda: model.update(new)) if place == "fit" else (lambda: found.append(model.recommend(k=5)))
    thread = threading.Thread(target=work)
    thread.start()
    assert model.reached.wait(60)
    if place == "fit":
        found.append(model.recommend(k=5))
    else:
        model.waits_in = ""
        model.update(new)
    model.go_on.set()
    thread.join()
    assert_same_lists(found[0], expected)
    model.waits_in = ""
    assert_same_lists(model.recommend(k=5), after)


@pytest.mark.parametrize("kind", [csrr.CSRR(reg_low_rank=0.3, neighbors=3), csrr.WRMF(3, reg=1.0), csrr.EASE(5.0)])
def test_answers_during_fits_are_whole(parts, kind):
    logs = parts
    models = [type(kind)(**kind.get_params()).fit(log) for log in logs]
    expected = [model.recommend(k=3) for model in models]
    model, done = type(kind)(**kind.get_params()).fit(logs[0]), threading.Event()
    found, wrong = [], []

    def ask():
        while not done.is_set() or not found:
            try:
                found.append(model.recommend(k=3))
            except Exception as error:
                wrong.append(error)
                return

    thread = threading.Thread(target=ask)
    thread.start()
    for turn in (1, 0, 1, 0):
        model.fit(logs[turn])
    done.set()
    thread.join()
    assert wrong == []
    for one in found:
        assert_same_lists(one, expected[0 if len(one.users) == len(expected[0].users) else 1])


def test_a_fit_that_fails_leaves_the_model_as_it_was(parts):
    model = Slow().fit(parts[0])
    before = model.recommend(k=5)
    model.reached, model.go_on, model.waits_in = threading.Event(), None, "fit"
    with pytest.raises(AttributeError):
        model.update(parts[1])
    assert_same_lists(model.recommend(k=5), before)


def assert_same_lists(found, expected):
    np.testing.assert_array_equal(found.users, expected.users)
    np.testing.assert_array_equal(found.items, expected.items)
    np.testing.assert_array_equal(found.scores, expected.scores)


def list_in_order(model):
    log = model.training_log()
    return [(int(log.user_rows[each]), log.items.ids[log.item_rows[each]]) for each in log.find_order()]


def test_a_model_that_uses_the_order_warns_of_times_of_loading(monkeypatch):
    rows = [(user, (user + 7 * k) % 40, user) for user in range(60) for k in range(8)]
    loaded = csrr.read(dict(zip(("user", "item", "time"), zip(*rows, strict=True), strict=True)))
    csrr.PopRank().fit(loaded)
    monkeypatch.setattr(csrr.PopRank, "uses_order", True)
    with pytest.warns(csrr.DataWarning, match="at one time"):
        csrr.PopRank().fit(loaded)


@pytest.mark.parametrize("timed", [False, True])
def test_a_model_that_uses_the_order_keeps_it(timed, tmp_path, monkeypatch):
    events = [(1, "c"), (1, "a"), (2, "b"), (1, "b"), (2, "a"), (1, "c")]
    tables = [
        {"user": [u for u, _ in rows], "item": [i for _, i in rows]}
        | ({"time": [first, *[9] * (len(rows) - 1)]} if timed else {})
        for first, rows in ((1, events[:3]), (9, events[3:]))
    ]
    old, new = (csrr.read(each, ordered=not timed) for each in tables)
    assert csrr.PopRank().fit(old).seen_ages_ is None
    monkeypatch.setattr(csrr.PopRank, "uses_order", True)
    model = csrr.PopRank().fit(old)
    assert list_in_order(model) == [(0, "c"), (0, "a"), (1, "b")]
    model.save(tmp_path / "m.csrr")
    for each in (model, csrr.load(tmp_path / "m.csrr")):
        each.update(new)
        assert list_in_order(each) == [(0, "a"), (0, "b"), (0, "c"), (1, "b"), (1, "a")]
        with pytest.raises(DataError, match="learns from the order of events, and the new ones have none"):
            each.update({"user": [1], "item": ["a"]})
