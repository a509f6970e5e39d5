"""Items and users known by what they are."""

import numpy as np
import pytest
from scipy import sparse

import csrr
from csrr.models.describe import Trial, match_scale
from csrr.models.features import Renumbering
from tests.models.test_engines import ENGINES

GIVEN = {"cost_ratio": 2.0, "reg_low_rank": 0.1, "neighbors": 10}


@pytest.fixture(scope="module")
def made():
    """A log in which items of the same two tags are chosen by the same people, and its tags."""
    rng = np.random.default_rng(0)
    kinds = np.arange(160) % 16
    tags = {int(i): [f"kind {kinds[i]}", f"half {kinds[i] % 2}"] for i in range(160)}
    users, items = [], []
    for user in range(300):
        liked = rng.choice(16, 3, replace=False)
        mine = np.flatnonzero(np.isin(kinds, liked))
        chosen = np.unique(np.concatenate([rng.choice(mine, 10, replace=False), rng.integers(160, size=3)]))
        chosen = rng.permutation(chosen)
        users += [user] * len(chosen)
        items += chosen.tolist()
    log = csrr.read({"user": users, "item": items}, ordered=True)
    cold = np.arange(160) % 5 == 0
    return log, tags, cold, log.select(~cold[log.item_rows]), log.select(cold[log.item_rows])


@pytest.fixture(scope="module")
def model(made):
    return csrr.CSRR(**GIVEN).fit(made[3], items=made[1])


def test_hidden_items_are_found_by_their_features(made, model):
    log, _, cold, train, test = made
    plain = csrr.CSRR(**GIVEN).fit(train)
    found, without = (csrr.evaluate(each, train, test, at=10, metrics=["ndcg"])["ndcg@10"] for each in (model, plain))
    assert without < 0.05
    assert found > 0.3
    # At scores that can be compared: they are in about as many lists as by a model that knows them.
    whole = csrr.CSRR(**GIVEN).fit(log)
    known, estimated = (
        np.isin(m.recommend(k=10, exclude_seen=log).items, np.flatnonzero(cold)) for m in (whole, model)
    )
    assert 0.6 < estimated.mean() / known.mean() < 1.6


@pytest.mark.parametrize("order", ["next", "recent"])
def test_hidden_items_are_found_with_order(made, order):
    _, tags, _, train, test = made
    fitted = csrr.CSRR(**GIVEN, order=order, decay=0.9, history_scaling=0.0, rare_scaling=0.0).fit(train, items=tags)
    assert csrr.evaluate(fitted, train, test, at=10, metrics=["ndcg"])["ndcg@10"] > 0.2
    assert np.isfinite(fitted.session(3).recommend(5).scores).all()


def test_without_tables_nothing_changes(made):
    _, tags, _, train, _ = made
    once, again = csrr.CSRR(**GIVEN).fit(train), csrr.CSRR(**GIVEN).fit(train, items=tags).fit(train)
    assert np.array_equal(once.score_rows(np.arange(300)), again.score_rows(np.arange(300)))
    assert again.features_ is None


def test_items_with_events_keep_their_scores(made, model):
    train, cold = made[3], made[2]
    plain = csrr.CSRR(**GIVEN).fit(train)
    if model.features_.strengths.prior == 0:
        scores = model.score_rows(np.arange(300))[:, ~cold]
        np.testing.assert_allclose(scores, plain.score_rows(np.arange(300))[:, ~cold], atol=1e-6)


def test_a_file_has_features(model, tmp_path):
    model.save(tmp_path / "model.csrr")
    loaded = csrr.load(tmp_path / "model.csrr")
    rows = np.arange(300)
    assert np.array_equal(loaded.score_rows(rows), model.score_rows(rows))
    one = {500: ["kind 3", "half 1"]}
    assert np.array_equal(
        loaded.add_items(one).score_rows(rows), csrr.load(tmp_path / "model.csrr").add_items(one).score_rows(rows)
    )
    assert loaded.fold_in([[1, 2]]).score().shape == (1, 161)


def test_new_items_are_added_without_a_refit(made, tmp_path, model):
    model.save(tmp_path / "model.csrr")
    fitted = csrr.load(tmp_path / "model.csrr")
    before = fitted.score_rows(np.arange(300))
    fitted.add_items({-3: made[1][0], 500: made[1][5]})
    after = fitted.score_rows(np.arange(300))
    assert fitted.items_.ids[[0, -1]].tolist() == [-3, 500]
    np.testing.assert_allclose(after[:, 1:-1], before, atol=1e-6)
    # Items 0 and 5 were hidden, so what is like them has their scores.
    np.testing.assert_allclose(after[:, [0, -1]], before[:, [0, 5]], rtol=1e-4, atol=1e-7)
    assert fitted.recommend(7, k=161, exclude_seen=False).items.shape == (1, 161)
    assert fitted.explain(7, 500).amounts.sum() == pytest.approx(fitted.score(7, 500)[0], rel=1e-3)
    assert len(fitted.similar_items(500, k=3)) == 3
    assert fitted.fold_in([[500]]).score().std() > 0
    # Told again, a new item is what it is told to be.
    fitted.add_items({500: made[1][10]})
    np.testing.assert_allclose(fitted.score_rows(np.arange(300))[:, -1], before[:, 10], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("mmap", [False, True])
def test_a_loaded_model_is_told_the_whole_table_again(made, tmp_path, model, mmap):
    model.save(tmp_path / "model.csrr")
    loaded = csrr.load(tmp_path / "model.csrr", mmap=mmap)
    before = loaded.score_rows(np.arange(300))
    np.testing.assert_allclose(loaded.add_items(made[1]).score_rows(np.arange(300)), before, atol=1e-6)


def test_new_items_without_a_known_value_are_named(made, tmp_path, model):
    model.save(tmp_path / "model.csrr")
    loaded = csrr.load(tmp_path / "model.csrr")
    with pytest.warns(csrr.DataWarning, match="1 of 2 items have no value that the model knows.*: 901;"):
        loaded.add_items({900: ["kind 1"], 901: ["unheard of"]})
    assert np.isfinite(loaded.score_rows(np.arange(300))).all()


def test_a_stream_of_new_items_leaves_the_model_as_it_is(made, tmp_path, model):
    stream = [{500 + item: made[1][5 * item % 160] for item in range(first, first + 4)} for first in (0, 4)]
    found = [model.fold_in_features(batch).score([3, 4]) for batch in stream]
    model.save(tmp_path / "model.csrr")
    added = csrr.load(tmp_path / "model.csrr").add_items(stream[0] | stream[1])
    np.testing.assert_allclose(np.hstack(found), [added.score(user, range(500, 508)) for user in (3, 4)], atol=1e-6)
    assert model.fold_in_features(stream[0]).recommend([3], k=160).items.shape == (1, 160)
    with pytest.raises(csrr.ParameterError, match="is known"):
        model.fold_in_features({7: ["kind 1"]})


def test_what_items_share_explains_a_list(made, model):
    found = model.explain(7, 0)
    item = found.items[0]
    assert set(found.shared[0].split(", ")) - {""} <= {f"attribute {tag}" for tag in made[1][item]}
    assert "shared" in found.table().columns
    assert csrr.CSRR(**GIVEN).fit(made[3]).explain(7, 1).shared is None


def test_an_update_keeps_features(made, tmp_path, model):
    model.save(tmp_path / "model.csrr")
    fitted = csrr.load(tmp_path / "model.csrr")
    fitted.update({"user": [3, 4, 5], "item": [0, 0, 5]}, items={700: made[1][10]})
    assert len(fitted.items_) == 161
    assert fitted.features_.strengths == model.features_.strengths
    assert fitted.score(8, 700) == pytest.approx(fitted.score(8, 10), rel=1e-4)
    log = fitted.training_log()
    fresh = csrr.CSRR(**GIVEN).fit(log, items=made[1] | {700: made[1][10]})
    warm = fitted.items_.find(np.flatnonzero(~made[2]), "item")
    np.testing.assert_allclose(fresh.score(8)[:, warm], fitted.score(8)[:, warm], atol=0.03)


def test_people_without_history_are_known_by_their_features():
    rng = np.random.default_rng(1)
    halves = np.arange(900) % 2
    users = np.repeat(np.arange(900), 8)
    items = np.concatenate([rng.choice(np.arange(half, 60, 2), 8, replace=False) for half in halves])
    log = csrr.read({"user": users, "item": items})
    train = log.select(log.user_rows < 800)
    table = {"user": range(1000), "group": [f"g{i % 2}" for i in range(1000)], "junk": ["x"] * 1000}
    fitted = csrr.CSRR(**GIVEN).fit(train, users=table)
    recs = fitted.recommend(list(range(850, 950)), k=5)
    assert not recs.fallback.any()
    assert (recs.items.astype(int) % 2 == (np.arange(850, 950) % 2)[:, None]).mean() > 0.95
    fitted.add_users({"user": [2001], "group": ["g1"]})
    assert (fitted.recommend(2001, k=5).items.astype(int) % 2 == 1).all()


def test_users_features_that_say_nothing_are_off(made):
    log = made[0]
    table = {"user": range(320), "group": [f"g{i % 3}" for i in range(320)]}
    fitted = csrr.CSRR(**GIVEN).fit(log, users=table)
    if fitted.user_features_.strengths.factor == 0:
        with pytest.warns(csrr.NoHistoryWarning):
            assert fitted.recommend(310, k=3).fallback.all()


def test_rows_move_to_where_their_ids_are():
    moved = Renumbering.of(csrr.IdMap([1, 3, 5]), csrr.IdMap([0, 1, 5]), "item")
    assert moved.old.tolist() == [-1, 0, 2]
    matrix = np.array([[1, 2, 3], [0, 4, 5]], np.float32)
    assert moved.place_columns(sparse.csr_array(matrix)).toarray().tolist() == [[0, 1, 3], [0, 0, 5]]
    stacked = sparse.csr_array(np.vstack([matrix.T, 10 * matrix.T]))
    assert moved.place_rows(stacked, 2).toarray().tolist() == [[0, 0], [1, 0], [3, 5], [0, 0], [10, 0], [30, 50]]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda m, t: csrr.CSRR(**GIVEN).fit(t, items={900: ["a"], 901: ["a"], 902: ["b"]}),
            csrr.DataError,
            "none of the items",
        ),
        (lambda m, t: csrr.CSRR(**GIVEN).fit(t).add_items({1: ["a"]}), csrr.ParameterError, "fit it with items="),
        (lambda m, t: csrr.CSRR(**GIVEN).fit(t).update(t, items={1: ["a"]}), csrr.ParameterError, "fit it with items="),
        (lambda m, t: m.add_items({"item": [1], "color": ["red"]}), csrr.DataError, "none of the columns"),
        (lambda m, t: m.add_items({"x1": ["kind 1"]}), csrr.DataError, "ids"),
        (lambda m, t: csrr.WRMF(4).fit(t, items={1: ["a"]}), TypeError, "items"),
    ],
)
def test_what_cannot_be_is_refused(made, model, call, error, says):
    with pytest.raises(error, match=says):
        call(model, made[3])


def test_other_fits_with_features_work(made, tmp_path):
    log, tags, cold, train, _ = made
    weights = np.random.default_rng(0).integers(1, 5, len(train)).astype(np.float32)
    import dataclasses

    weighed = dataclasses.replace(train, weights=weights)
    costs = np.where(np.arange(log.n_items) % 2, 2.0, 1.0)
    for fitted in (
        csrr.CSRRe(rank=8, neighbors=5).fit(train, items=tags),
        csrr.CSRRe(rank=8, factors="nonnegative", neighbors=0, reg_low_rank=0.1).fit(train, items=tags),
        csrr.MCShift().fit(train, items=tags),
        csrr.CSRR(**GIVEN, event_weights="log").fit(weighed, items=tags),
        csrr.CSRR(reg_low_rank=0.1, neighbors=5, miss_cost=5.0, false_alarm_cost=1.0).fit(
            train, items=tags, item_costs=dict(enumerate(costs.tolist()))
        ),
        csrr.CSRR(**GIVEN, denoise=1.0).fit(train, items=tags),
    ):
        assert np.isfinite(fitted.score_rows(np.arange(300))).all()
        assert fitted.score_rows(np.arange(300))[:, cold].std() > 0
        fitted.save(tmp_path / "model.csrr")
        assert len(csrr.load(tmp_path / "model.csrr").add_items({900: tags[0]}).items_) == 161


@pytest.mark.parametrize("make_engine", ENGINES.values(), ids=ENGINES)
def test_engines_give_the_same_items(made, tmp_path, make_engine):
    _, tags, _, train, _ = made
    here, there = (csrr.CSRR(**GIVEN, engine=each).fit(train, items=tags) for each in ("threads", make_engine()))
    rows = np.arange(300)
    np.testing.assert_allclose(there.score_rows(rows), here.score_rows(rows), atol=1e-4)
    there.save(tmp_path / "model.csrr")
    for each in (there, csrr.load(tmp_path / "model.csrr")):
        each.add_items({900: tags[0]})
        np.testing.assert_allclose(each.score_rows(rows)[:, :-1], here.score_rows(rows), atol=1e-4)
        assert each.fold_in([[0, 900]]).score().std() > 0


@pytest.mark.parametrize("order", ["next", "recent"])
def test_new_items_are_used_with_order(made, tmp_path, order):
    _, tags, _, train, _ = made
    fitted = csrr.CSRR(**GIVEN, order=order, decay=0.9, history_scaling=0.0, rare_scaling=0.0).fit(train, items=tags)
    fitted.add_items({900: tags[0]})
    session = fitted.session(history=[5, 900])
    session.add(10)
    assert not {5, 900, 10} & set(session.recommend(5).items.ravel().tolist())
    one = fitted.fold_in_features({901: tags[0]}).score([3])[0, 0]
    assert one == pytest.approx(fitted.score(3, 900)[0], rel=1e-3)
    fitted.update(csrr.read({"user": [1, 2], "item": [900, 5]}, ordered=True), items={905: tags[2]})
    fitted.save(tmp_path / "model.csrr")
    loaded = csrr.load(tmp_path / "model.csrr").add_items({906: tags[2]})
    assert loaded.score(3, 906) == pytest.approx(fitted.score(3, 905), rel=1e-3)


def test_a_model_with_features_is_calibrated_filtered_and_judged(made):
    _, _, _, train, test = made
    table = {"item": range(160), "kind": [f"kind {i % 16}" for i in range(160)], "price": [i % 7 for i in range(160)]}
    fitted = csrr.CSRR(**GIVEN).fit(train, items=table)
    fitted.calibrate(test, n_groups=2)
    assert 0 < fitted.probability(3, 0)[0] < 1
    fitted.add_items({"item": [900], "kind": ["kind 3"], "price": [2]})
    assert 0 < fitted.probability(3, 900)[0] < 1
    recs = fitted.recommend([3, 5], k=12, where={"kind": "kind 3"}, columns=["kind", "price"])
    assert set(recs.items[recs.items != None].tolist()) <= {*range(3, 160, 16), 900}  # noqa: E711
    assert 900 in recs.items
    suspects = fitted.suspects()
    assert len(suspects) == len(train)


def test_a_file_whose_features_do_not_fit_is_refused(model, tmp_path):
    from csrr.models.store import read, write

    model.save(tmp_path / "model.csrr")
    header, arrays = read(tmp_path / "model.csrr")
    header.pop("arrays", None)
    for name, broken in (
        ("features.map", arrays["features.map"][:, :-1]),
        ("features.places", np.ascontiguousarray(arrays["features.places"][::-1] + np.arange(18))),
        ("features.idf", -arrays["features.idf"]),
    ):
        write(tmp_path / "bad.csrr", header, arrays | {name: np.ascontiguousarray(broken)})
        with pytest.raises(csrr.ModelFileError):
            csrr.load(tmp_path / "bad.csrr")


@pytest.mark.parametrize("n_items", [36, 60])
def test_new_items_of_a_small_catalog_have_places_in_lists(n_items):
    rng = np.random.default_rng(0)
    n_each = min(5, n_items // 4)
    items = np.concatenate([rng.choice(np.arange(u % 3, n_items, 3), n_each, replace=False) for u in range(200)])
    log = csrr.read({"user": np.repeat(np.arange(200), n_each), "item": items})
    tags = {i: [f"kind {i % 3}", f"junk {i % 2}"] for i in range(n_items)}
    is_new = np.arange(n_items) % 4 == 3
    known, told = (csrr.CSRR(**GIVEN).fit(each, items=tags) for each in (log, log.select(~is_new[log.item_rows])))
    shares = [is_new[each.recommend(k=5, exclude_seen=log).items.astype(int)].mean() for each in (known, told)]
    assert 0.5 < shares[1] / shares[0] < 2


def test_hidden_items_get_the_places_that_the_model_gives_them():
    rng = np.random.default_rng(0)
    n, n_hidden, length = 50, 40, 8
    others = -np.sort(-rng.gamma(2.0, size=(n, length)).astype(np.float32), axis=1)
    known, estimated = rng.gamma(1.0, size=(2, n, n_hidden)).astype(np.float32)
    wanted = sparse.csr_array(rng.random((n, n_hidden)) < 0.1)
    trial = Trial(known, None, wanted, np.arange(n_hidden), known.copy, lambda: others)

    def count_places(scores):
        open_ones = np.where(wanted.toarray(), -np.inf, scores)
        lists = np.argsort(-np.hstack([others, open_ones]), axis=1)[:, :length]
        return int((lists >= length).sum())

    scale = match_scale(estimated, trial)
    assert count_places(known) == count_places(estimated * np.nextafter(np.float32(scale), np.float32(9)))
    assert count_places(estimated) != count_places(known)
