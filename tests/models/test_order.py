"""CSRR(order=...) beside histories written out, on planted order, and with everything else that a model does."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import csrr
from csrr import CSRR, DataError, ParameterError
from csrr._base.threads import TimeUpError, use_threads
from csrr.models.order import OrderSettings, Session
from csrr.models.order_search import Ahead, cut_ahead

GIVEN = {"order": "next", "decay": [0.4, 0.8], "neighbors": 6, "reg_neighbors": 1.0, "history_scaling": 0.2}
GIVEN |= {"rare_scaling": 0.1, "reg_low_rank": 0.1}


def plant(n_users=400, n_items=60, n_events=14, seed=0, share=0.8):
    """Histories in which an item is mostly followed by the one that a permutation says, as a table in order."""
    rng = np.random.default_rng(seed)
    after = rng.permutation(n_items)
    users, items = [], []
    for user in range(n_users):
        mine = [int(rng.integers(n_items))]
        while len(mine) < n_events:
            following = int(after[mine[-1]])
            if following in mine or rng.random() > share:
                following = int(rng.choice(np.setdiff1d(np.arange(n_items), mine)))
            mine.append(following)
        users += [user] * n_events
        items += mine
    return {"user": np.array(users), "item": np.array(items)}, after


def read(table, last=0):
    """The log of a table in order, without the last events of each user, and these, (n_users, last)."""
    items = table["item"].reshape(len(np.unique(table["user"])), -1)
    kept = items[:, : items.shape[1] - last]
    return csrr.read(
        {"user": np.repeat(np.arange(len(kept)), kept.shape[1]), "item": kept.ravel()}, ordered=True
    ), items


@pytest.fixture(scope="module")
def planted():
    return read(plant()[0], last=1)


@pytest.fixture(scope="module")
def model(planted):
    return CSRR(**GIVEN).fit(planted[0])


def measure_hits(model, items, k=5):
    """The share of users whose last item is among the k best."""
    return np.mean([item in row for item, row in zip(items[:, -1], model.recommend(k=k).items, strict=True)])


def write_out_scores(model, history):
    """The scores after a history, newest last, by the formula and the fitted parts."""
    faded, m = model.fitted_.faded, len(model.items_)
    x = np.zeros((len(faded.decays), m))
    for item in history:
        x *= np.array(faded.decays)[:, None]
        x[:, item] += 1
    z = (x @ faded.left).ravel()
    return z @ faded.right.T + x.ravel() @ faded.weights.toarray()


def test_scores_are_those_of_the_history_written_out(model, planted):
    for user in (0, 7):
        expected = write_out_scores(model, planted[1][user, :-1])
        np.testing.assert_allclose(model.score(user)[0], expected, rtol=1e-4, atol=1e-6)
        pairs = model.score([user] * 60, np.arange(60))
        np.testing.assert_allclose(pairs, expected, rtol=1e-4, atol=1e-6)
        backwards = write_out_scores(model, planted[1][user, :-1][::-1])
        assert np.abs(backwards - expected).max() > 0.01


def test_folding_in_a_history_gives_the_lists_of_its_user(model, planted):
    history = planted[1][3, :-1].tolist()
    assert planted[0].history(3).tolist() == history
    assert model.recommend_for(history, k=8).items[0].tolist() == model.recommend(3, k=8).items[0].tolist()
    assert model.recommend_for(history[::-1], k=8).items[0].tolist() != model.recommend(3, k=8).items[0].tolist()
    people = model.fold_in(planted[0])
    np.testing.assert_allclose(people.score(), model.score(np.arange(400)), rtol=1e-4, atol=1e-6)


def test_planted_order_is_found_where_no_order_finds_nothing():
    table, after = plant()
    log, items = read(table, last=1)
    model = CSRR(order="next").fit(log)
    assert measure_hits(model, items, k=1) > 0.7
    assert measure_hits(CSRR().fit(log), items, k=1) < 0.5
    by_next = [model.similar_items(i, k=1, by="next").ids[0] for i in range(60)]
    assert np.mean(np.array(by_next) == after) > 0.9
    assert model.chosen_.order.kind == "next"
    assert len(model.chosen_) > 20
    assert model.chosen_.taken is not None
    assert "last event of 400 users" in model.chosen_.note


def test_auto_takes_order_where_it_is_planted_and_leaves_it_where_it_is_not():
    table, _ = plant()
    assert CSRR(order="auto").fit(read(table)[0]).chosen_.order.kind == "next"
    groups = csrr.synthetic(300, 60, events_per_user=14, seed=3).log
    rng = np.random.default_rng(0)
    shuffled = csrr.read({"user": groups.user_rows, "item": groups.item_rows, "time": rng.permutation(len(groups))})
    unordered = CSRR(order="auto").fit(shuffled)
    assert unordered.chosen_.order.kind == "ignore"
    history = unordered.items_.ids[unordered.seen_[[2]].indices].tolist()
    assert unordered.recommend_for(history, k=5).items.shape == (1, 5)
    # Without an order there is none to choose, and new histories need none.
    plain = CSRR(order="auto").fit(groups)
    assert plain.chosen_.order.kind == "ignore"
    assert plain.fold_in(groups).score().shape == (300, 60)
    # A fit to other data begins anew.
    assert plain.fit(read(table)[0]).chosen_.order.kind == "next"
    assert plain.uses_order


def test_the_search_never_sees_an_event_after_the_one_it_predicts(planted):
    log = planted[0]
    kept, heldout, has_several = cut_ahead(log, 0)
    ahead = Ahead.of(kept, heldout, has_several=has_several)
    ages = log.find_ages()
    assert not has_several
    assert len(ahead.rows) == 400
    assert len(kept) == len(log) - 400
    newest = log.item_rows[ages == 0]
    assert ahead.heldout.indices.tolist() == newest[ahead.rows].tolist()
    assert ahead.ages.max() == ages.max() - 1


@pytest.mark.parametrize("way", ["share", "last", "time"])
def test_where_several_events_are_to_be_predicted_the_search_holds_out_several(way):
    table, _ = plant(500)
    table["time"] = 1_000_000_000 + np.tile(np.arange(14), 500)
    log = csrr.read(table)
    if way == "share":
        train, test = csrr.split(log, by="last", ratio=0.8)
        assert (train.cut, len(test)) == ("share", 500 * 3)
        kept, held, has_several = cut_ahead(train, 0)
    else:
        kept, held, has_several = cut_ahead(log, 0, way)
    assert has_several
    assert np.count_nonzero(held.user_counts()) == 500
    seen, held = kept.to_csr(), held.to_csr()
    assert not seen.multiply(held).nnz
    times = {(u, i): t for u, i, t in zip(table["user"], table["item"], table["time"], strict=True)}
    for user in (0, 17, 400):
        last, first = (
            edge(times[user, log.items.ids[row]] for row in part[[user]].indices)
            for edge, part in ((max, seen), (min, held))
        )
        assert last < first


def test_random_events_do_not_tell_what_comes_next(planted):
    with pytest.raises(ParameterError, match="hold_out='random' must be 'last' or 'time'"):
        CSRR(order="next", hold_out="random").fit(planted[0])


def test_a_horizon_looks_further_ahead_than_the_next_event():
    # Two steps on is what a permutation says; the step in between is noise.
    rng, n_items = np.random.default_rng(5), 40
    after = rng.permutation(n_items)
    users, items = [], []
    for user in range(600):
        mine = [int(rng.integers(n_items)), int(rng.integers(n_items))]
        while len(mine) < 12:
            mine.append(int(after[mine[-2]]) if rng.random() < 0.7 else int(rng.integers(n_items)))
        users += [user] * 12
        items += mine
    log = csrr.read({"user": users, "item": items}, ordered=True)
    train, test = csrr.split(log, by="last", ratio=0.7)
    searched = CSRR(order="next", decay=0.5, history_scaling=0.0, rare_scaling=0.0).fit(train)
    assert searched.chosen_.order.horizon > 0
    assert "horizon" in searched.chosen_.columns
    assert re.search(r"chosen on the last \d+ events of \d+ users", searched.chosen_.note)
    near = CSRR(**searched.settled_params() | {"horizon": 0.0, "order": "next", "decay": 0.5}).fit(train)
    both = [csrr.evaluate(model, train, test, at=5)["ndcg@5"] for model in (searched, near)]
    assert both[0] > 1.02 * both[1]
    # One event is to be predicted: nothing beyond it counts.
    last, _ = csrr.split(log, by="last")
    assert CSRR(order="next", decay=0.5).fit(last).chosen_.order.horizon == 0


def test_recent_histories_have_the_neighbors_of_a_model_without_order(tmp_path):
    log, items = read(plant()[0], last=1)
    plain = {"cost_ratio": 1.0, "reg_sparse": 1.0, "reg_low_rank": 0.1, "neighbors": 10, "reg_neighbors": 1.0}
    plain |= {"tol": 1e-5, "dtype": "float32"}
    recent, ignore = (
        CSRR(order="recent", decay=0.999999, **plain).fit(log),
        CSRR(**plain, neighbor_scaling=0.3).fit(log),
    )
    # A history that hardly fades is a history without order.
    forgetful = CSRR(order="recent", decay=0.999999, neighbor_scaling=0.3, **plain).fit(log)
    np.testing.assert_allclose(forgetful.score([0, 1]), ignore.score([0, 1]), rtol=2e-3, atol=2e-3)
    assert recent.chosen_.order.kind == "recent"
    recent.save(tmp_path / "recent.csrr")
    assert np.array_equal(csrr.load(tmp_path / "recent.csrr").score([0, 1]), recent.score([0, 1]))
    assert measure_hits(CSRR(order="recent", decay=0.5, **plain).fit(log), items) > measure_hits(ignore, items)


def test_an_explanation_has_each_event_with_its_age_and_its_part(model, planted):
    history = planted[1][5, :-1]
    item = next(i for i in range(60) if i not in history)
    why = model.explain(5, item)
    assert why.amounts.sum() == pytest.approx(model.score(5, item)[0], rel=1e-4)
    places = {item: len(history) - 1 - place for place, item in enumerate(history.tolist())}
    assert dict(zip(why.items.tolist(), why.ages.tolist(), strict=True)) == places
    # Without its newest event the score is lower by that event's part, but for what then has become newer.
    alone = write_out_scores(model, [history[-1]])[item]
    assert why.amounts[why.ages.tolist().index(0)] == pytest.approx(alone, rel=1e-3, abs=1e-6)
    assert why.table().columns.keys() >= {"item", "amount", "neighbors", "age"}


def test_a_saved_model_gives_the_same(model, tmp_path):
    model.save(tmp_path / "next.csrr")
    loaded = csrr.load(tmp_path / "next.csrr")
    np.testing.assert_array_equal(loaded.recommend(k=7).items, model.recommend(k=7).items)
    lists = [each.recommend_for([5, 9, 3], k=5).items.tolist() for each in (loaded, model)]
    assert lists[0] == lists[1]
    assert loaded.chosen_.order == model.chosen_.order
    loaded.update(csrr.read({"user": [0, 0], "item": [1, 2]}, ordered=True))
    assert loaded.is_fitted


def test_an_update_with_tomorrows_events_equals_a_fit_to_all(planted):
    log, items = planted
    whole = read({"user": np.repeat(np.arange(400), 14), "item": items.ravel()})[0]
    tomorrow = csrr.read({"user": np.arange(400), "item": items[:, -1]}, ordered=True)
    updated = CSRR(**GIVEN).fit(log).update(tomorrow)
    fitted = CSRR(**GIVEN).fit(whole)
    np.testing.assert_array_equal(updated.seen_ages_, fitted.seen_ages_)
    np.testing.assert_allclose(updated.score([1, 2]), fitted.score([1, 2]), rtol=0.02, atol=2e-3)
    # What was chosen stays.
    auto = CSRR(order="next").fit(log)
    before = auto.chosen_.order
    assert auto.update(tomorrow).chosen_.order == before
    with pytest.raises(DataError, match="ordered=True"):
        updated.update({"user": [0], "item": [3]})


def test_an_update_after_order_was_set_to_ignore_ignores_it(planted):
    log, _ = planted
    model = CSRR(order="next", decay=0.5, reg_low_rank=0.3, neighbors=3).fit(log)
    model.set_params(order="ignore", decay="auto").update(log)
    assert not model.reads_order
    assert model.chosen_.order.kind == "ignore"
    assert np.isfinite(model.score_rows(np.arange(3))).all()


def test_histories_have_no_places_where_auto_came_to_no_order():
    log = csrr.Log.from_table(
        {"user": [0, 1, 2] * 6, "item": [*range(9)] * 2, "time": range(18), "weight": [1, 2, 3] * 6}
    )
    given = {"event_weights": "linear", "reg_low_rank": 0.3, "neighbors": 0}
    auto, none = (CSRR(order=order, **given).fit(log) for order in ("auto", "ignore"))
    assert (auto.chosen_.order.kind, auto.reads_order) == ("ignore", False)
    folded = [model.fold_in([[1, 2, 3]]).score() for model in (auto, none)]
    np.testing.assert_array_equal(*folded)


def test_settled_params_refit_to_the_same_without_a_search(planted):
    model = CSRR(order="auto").fit(planted[0])
    again = CSRR(**model.settled_params()).fit(planted[0])
    assert again.chosen_.order == model.chosen_.order
    assert not len(again.chosen_)
    np.testing.assert_allclose(again.score([0]), model.score([0]), rtol=1e-3, atol=1e-4)


def test_rules_candidates_calibration_suspects_and_new_users_work(planted, tmp_path):
    log, items = planted
    model = CSRR(**GIVEN).fit(log)
    heldout = {"user": np.arange(400), "item": items[:, -1]}
    assert model.calibrate(heldout).threshold(5, 1) > 0
    assert model.recommend([0], k=3, candidates=[1, 2, 3, 4]).items.shape == (1, 3)
    assert model.recommend([0], k=60, exclude_seen=False).items.shape == (1, 60)
    assert len(model.suspects()) == len(log)
    assert sum(len(batch) for batch in model.recommend_batches(k=3, batch_users=64)) == 400
    with pytest.warns(csrr.NoHistoryWarning):
        assert model.fold_in([[]]).recommend(k=3).fallback.all()
    new = model.fold_in_items({"user": [0, 1], "item": [99, 99]})
    assert new.recommend(0, k=3).items.shape == (1, 3)
    assert model.specific_preferences(0).amounts.shape[0] >= 0
    assert csrr.evaluate(model, log, heldout, at=(5,))["recall@5"] > 0.6


def test_a_session_is_the_same_as_folding_in_from_scratch(model, planted, monkeypatch):
    monkeypatch.setattr("csrr.models.order._LEAST_SCALE", 1e-3)
    rng, session, history = np.random.default_rng(1), model.session(history=[7, 9]), [7, 9]
    for item in rng.integers(0, 60, 30).tolist():
        session.add(item)
        history.append(item)
        np.testing.assert_allclose(session.score(), model.fold_in([history]).score()[0], rtol=1e-4, atol=1e-6)
        assert session.recommend(k=4).items.tolist() == model.recommend_for(history, k=4).items.tolist()
    assert session.history[-1] == item
    assert len(session) == len(set(history))
    known = model.session(8)
    np.testing.assert_allclose(known.score(), model.score(8)[0], rtol=1e-4, atol=1e-6)
    assert known.history.tolist() == planted[1][8, :-1].tolist()
    with pytest.raises(csrr.UnknownIdError, match="99"):
        known.add(99)
    with pytest.raises(ParameterError, match="not both"):
        model.session(8, history=[1])
    with pytest.raises(ParameterError, match=r"user must be one id; .* session\(history="):
        model.session([1, 2])
    with pytest.raises(ParameterError, match="needs its order: give a list"):
        model.session(history={1, 2})
    with pytest.raises(ParameterError, match="order"):
        CSRR(reg_low_rank=0.1, neighbors=3).fit(planted[0]).session(8)
    assert len(model.session()) == 0


def test_a_result_does_not_depend_on_threads(planted):
    one, two = (CSRR(order="next", threads=n).fit(planted[0]) for n in (1, 2))
    np.testing.assert_array_equal(one.score([0, 9]), two.score([0, 9]))
    assert one.chosen_.order == two.chosen_.order


def test_recent_histories_say_that_no_time_was_left_for_neighbors(planted, monkeypatch):
    def run_out(*given):
        raise TimeUpError

    monkeypatch.setattr("csrr.models.fitted_problem.Neighborhood.of", run_out)
    model = CSRR(order="recent", decay=0.6, reg_low_rank=0.1).fit(planted[0])
    assert model.neighbors_.nnz == 0
    assert "left no time for neighbors" in model.chosen_.note


def test_a_search_that_is_cut_short_keeps_the_kind_of_order_that_was_asked_for(planted, monkeypatch):
    def run_out(*given):
        raise TimeUpError

    # Once the search without order has made its trials.
    monkeypatch.setattr("csrr.models.order_search.fade_scores", run_out)
    model = CSRR(order="recent", decay=0.6).fit(planted[0])
    assert model.chosen_.order == OrderSettings("recent", (0.6,))


def test_short_of_time_the_rule_is_taken(planted):
    model = CSRR(order="next", time_limit=1e-6).fit(planted[0])
    assert model.chosen_.order.decays == (0.8,)
    assert "time limit" in model.chosen_.note


def test_common_taste_alone_follows_the_order_too(planted):
    log, items = planted
    model = CSRR(order="next", neighbors=0).fit(log)
    assert model.neighbors_.nnz == 0
    assert measure_hits(model, items) > 0.3
    history = items[4, :-1].tolist()
    np.testing.assert_allclose(model.session(history=history).score(), model.score(4)[0], rtol=1e-4, atol=1e-6)


def test_a_small_log_has_the_rule(planted):
    log = csrr.read({"user": [1, 1, 1, 2, 2], "item": ["a", "b", "c", "a", "b"]}, ordered=True)
    model = CSRR(order="next").fit(log)
    assert "fewer than 150 users" in model.chosen_.note
    assert model.recommend_for(["a"], k=1).items[0, 0] == "b"


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"decay": 1.0}, "decay=1.0 must be a number > 0 and < 1"),
        ({"decay": 0}, "decay=0 must"),
        ({"decay": [0.5, 0.5]}, "different"),
        ({"decay": [0.1, 0.2, 0.3, 0.4]}, "up to 3"),
        ({"decay": []}, "decay=.. must"),
        ({"order": "last"}, "order='last' must be one of"),
        ({"order": "next", "box": "paper"}, "box"),
        ({"rare_scaling": -1}, "rare_scaling=-1"),
        ({"horizon": 1}, "horizon=1 must"),
        ({"horizon": -0.5}, "horizon=-0.5 must"),
    ],
)
def test_wrong_parameters_are_refused(planted, params, says):
    with pytest.raises(ParameterError, match=says):
        CSRR(**{"order": "next", **params}).fit(planted[0])


def test_data_without_an_order_are_refused_with_what_to_do(planted):
    table, _ = plant(20)
    with pytest.raises(DataError, match="ordered=True"):
        CSRR(order="next").fit(table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", csrr.DataWarning)
        constant = csrr.read(table | {"time": np.full(len(table["user"]), 1_000_000_000)})
    for kind in (CSRR(order="next"), csrr.MarkovChain(), csrr.VSKNN()):
        with pytest.raises(DataError, match="same time"):
            kind.fit(constant)


def test_times_of_when_rows_were_loaded_are_doubted():
    table, _ = plant(200)
    loaded = csrr.read(table | {"time": 1_000_000_000 + 1000 * table["user"]})
    for model in (CSRR(**GIVEN), CSRR(order="auto"), csrr.MarkovChain()):
        with pytest.warns(csrr.DataWarning, match="at one time") as told:
            model.fit(loaded)
        assert [each.filename for each in told] == [__file__]


def test_wrong_histories_are_refused(model):
    with pytest.raises(csrr.UnknownIdError, match="77"):
        model.recommend_for([3, 77])
    with pytest.warns(csrr.UnknownIdWarning):
        known = model.recommend_for([3, 77], k=4, unknown="ignore")
    assert known.items.tolist() == model.recommend_for([3], k=4).items.tolist()
    assert model.recommend_for([3], k=1000).items[0, 58:].tolist()[1:] == [None]
    with pytest.raises(ParameterError, match="by="):
        model.similar_items(3, by="before")
    with pytest.raises(ParameterError, match="order"):
        CSRR(reg_low_rank=0.1, neighbors=3).fit(plant(20)[0]).similar_items(3, by="next")


def test_scores_have_the_same_bits_for_any_number_of_threads_of_blas(model):
    rng, n, rank = np.random.default_rng(0), 10_001, 128
    left, *right = rng.standard_normal((3, n, rank)).astype(np.float32)
    faded = replace(
        model.fitted_.faded, left=left, right=np.hstack(right), weights=sparse.csr_array((2 * n, n), dtype=np.float32)
    )
    found = []
    for blas in (1, 2):
        with use_threads(2, blas=blas):
            session = Session(model, faded, sparse.csr_array(([1.0, 2.0], ([0, 0], [5, 7])), shape=(1, n)))
            found.append((faded.score_after(np.arange(64)), session.score()))
    assert all((one == other).all() for one, other in zip(*found, strict=True))
