"""Probabilities of models: right on planted truth, kept in files, and what lists are cut by."""

import numpy as np
import pytest
from scipy import sparse

import csrr
from csrr import CSRR, WRMF, NotFittedError, ParameterError, PopRank
from csrr.data.errors import DataError
from csrr.data.log import Log
from csrr.ranking.calibration import CellGroups, GroupCurves
from csrr.ranking.topk import Cells


def as_csr(dense):
    return sparse.csr_array(dense.astype(np.float32))


def planted(seed, n=400, m=250, rank=5, density=0.15):
    """Return the chance of each choice, low-rank, shape (n, m), the choices, and the generator that drew them."""
    rng = np.random.default_rng(seed)
    users = rng.dirichlet(np.full(rank, 0.3), n) * rng.lognormal(0, 0.4, (n, 1))
    items = rng.dirichlet(np.full(rank, 0.3), m) * rng.lognormal(0, 0.6, (m, 1))
    chance = users @ items.T
    for _ in range(30):
        chance = np.minimum(chance * density / chance.mean(), 0.95)
    return rng.random((n, m)) < chance, rng


@pytest.mark.parametrize("kind", [CSRR, WRMF])
class TestPlantedTruth:
    def test_all_choices_are_shown(self, kind):
        chosen, rng = planted(0)
        part = rng.choice(3, chosen.shape, p=[0.6, 0.2, 0.2])
        train, valid, test = (chosen & (part == each) for each in range(3))
        model = kind(threads=1).fit(as_csr(train))
        model.calibrate(as_csr(valid))
        cells = Cells(model.score_rows, np.arange(len(chosen)), chosen.shape[1], as_csr(test), as_csr(train))
        told = model.reliability(as_csr(test))
        assert told.ece < 0.01
        assert told.rate.tolist() == pytest.approx(model.calibration_.check(cells).rate.tolist(), nan_ok=True)
        assert scores_as_probabilities(model, test, train).ece > 0.02

    def test_half_of_the_choices_are_shown(self, kind):
        chosen, rng = planted(1)
        shown = chosen & (rng.random(chosen.shape) < 0.5)
        train = shown & (rng.random(chosen.shape) < 0.7)
        model = kind(threads=1).fit(as_csr(train))
        cells = Cells(model.score_rows, np.arange(len(chosen)), chosen.shape[1], as_csr(chosen & ~train), as_csr(train))
        told = model.calibrate(as_csr(shown & ~train), observed_share=0.5).check(cells, observed_share=1)
        assert told.ece < 0.015
        unadjusted = model.calibrate(as_csr(shown & ~train)).check(cells)
        assert unadjusted.ece > 0.06
        left = chosen & ~shown
        cells = cells._replace(relevant=as_csr(left), seen=as_csr(shown))
        remaining = model.calibrate(as_csr(shown & ~train), observed_share=0.5).remaining()
        assert remaining.check(cells, observed_share=1).ece < 0.015


def scores_as_probabilities(model, positive, seen):
    """Return how well the scores themselves, cut to [0, 1], would do as probabilities."""
    scores = np.clip(model.score_rows(np.arange(len(positive))), 0, 1)
    return csrr.Reliability.of(scores[~seen], positive[~seen])


def rare_overrated(seed, n=600, m=240):
    """Return scores, equal for all items in their distribution, choices that rare items' scores overstate, and training
    events: many of popular items and of active users."""
    rng = np.random.default_rng(seed)
    popular, active = (np.arange(m) % 2).astype(bool), (np.arange(n) % 2).astype(bool)
    train = rng.random((n, m)) < np.where(popular, 0.2, 0.05) * np.where(active[:, None], 1.5, 0.5)
    scores = rng.random((n, m)).astype(np.float32)
    chance = 0.3 * scores * np.where(popular, 1.0, 0.3) * np.where(active[:, None], 1.0, 0.5)
    return scores, chance, train, rng


class Scored(PopRank):
    """A model of given scores."""

    given = np.empty((0, 0), np.float32)

    def score_rows(self, rows):
        return self.given[rows].copy()

    def score_pairs(self, user_rows, item_rows):
        return self.given[user_rows, item_rows]


@pytest.fixture(scope="module")
def case():
    scores, chance, train, rng = rare_overrated(0)
    model = Scored().fit(as_csr(train))
    model.given = scores
    valid, test = ((rng.random(chance.shape) < chance) & ~train for _ in range(2))
    return model, as_csr(valid), as_csr(test), chance


class TestGroups:
    def test_what_one_curve_says_of_rare_items_and_light_users_is_off_and_groups_correct_it(self, case):
        model, valid, test, chance = case
        unseen = model.seen_.toarray() == 0
        off, gaps = {}, {}
        for n_groups in (1, 4):
            model.calibrate(valid, n_groups=n_groups)
            found = model.reliability(test)
            off[n_groups] = [by.ece.max() for by in (found.by_popularity, found.by_activity)]
            gaps[n_groups] = np.abs(model.probability(range(600)) - chance)[unseen].mean()
        assert min(off[1]) > 0.02
        assert max(off[4]) < 0.01
        assert gaps[4] < 0.4 * gaps[1]
        rare = model.calibrate(valid) and model.reliability(test).by_popularity.table()
        assert rare["probability"][0] > 1.5 * rare["rate"][0]
        assert not rare["low"][0] <= rare["probability"][0] <= rare["high"][0]

    def test_probabilities_never_fall_with_the_score_in_a_group(self, case):
        model, valid, _, _ = case
        curves = model.calibrate(valid, n_groups=5).curves
        assert curves.groups.shape == (5, 5)
        assert (np.diff(curves.probabilities, axis=-1) >= 0).all()

    def test_lists_pairs_and_tables_of_probabilities_agree(self, case):
        model, valid, _, _ = case
        model.calibrate(valid, n_groups=4)
        whole = model.probability([3, 4])
        assert model.probability(3, [7, 8]).tolist() == whole[0, [7, 8]].tolist()
        assert model.probability([3, 4], 7).tolist() == whole[:, 7].tolist()
        recs = model.recommend([3, 4], 30)
        for place in range(2):
            rows = model.items_.rows(recs.items[place])
            np.testing.assert_array_equal(recs.probabilities[place], whole[place, rows].astype(np.float32))
        assert (np.diff(recs.probabilities, axis=1) > 0).any()

    def test_what_stays_of_a_list_has_no_gaps(self, case):
        model, valid, _, _ = case
        model.calibrate(valid, n_groups=4)
        whole = model.recommend([3, 4], 30)
        least = float(np.median(whole.probabilities)) + 1e-6
        cut = model.recommend([3, 4], 30, min_probability=least)
        for place in range(2):
            kept = whole.items[place][whole.probabilities[place] >= least].tolist()
            assert 0 < len(kept) < 30
            assert cut.items[place].tolist() == kept + [None] * (30 - len(kept))
            assert (cut.probabilities[place, : len(kept)] >= least).all()

    def test_new_people_are_as_active_as_their_histories_are_long(self, parts):
        model = WRMF(threads=1).fit(parts[0])
        calibration = model.calibrate(parts[1], n_groups=3)
        histories = [[1, 5], list(range(30))]
        recs = model.fold_in(histories).recommend(10)
        rows = np.stack([model.items_.rows(items) for items in recs.items])
        own = calibration.probability(recs.scores, np.array([[2], [30]]), rows).astype(np.float32)
        np.testing.assert_array_equal(recs.probabilities, own)
        assert len(np.unique(calibration.curves.groups.of_users([2, 30]))) == 2

    def test_a_group_of_few_positives_stays_near_the_common_curve(self):
        groups = CellGroups(np.array([1, 9]), np.array([5]), np.empty(0, np.int64))
        common = np.array([0.0, 0.1, 0.2])
        n_cells = np.array([[[0, 10, 10], [0, 100000, 100000]]])
        curves = GroupCurves.of(groups, n_cells, np.array([[[0, 0, 0], [0, 0, 40000]]]), common)
        np.testing.assert_allclose(curves.probabilities[0, 0], common * 100 / 103)
        np.testing.assert_allclose(curves.probabilities[0, 1], [0, 0, 0.4], atol=0.001)

    def test_files_keep_them_to_the_bit(self, parts, tmp_path):
        model = PopRank().fit(parts[0])
        kept = model.calibrate(parts[1], n_groups=3, observed_share=0.9).arrays()
        model.save(tmp_path / "m.csrr")
        again = csrr.load(tmp_path / "m.csrr")
        assert again.calibration_.arrays().keys() == kept.keys()
        for name, array in again.calibration_.arrays().items():
            np.testing.assert_array_equal(array, kept[name], strict=True)
        assert again.probability([1, 2]).tolist() == model.probability([1, 2]).tolist()

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("probabilities", lambda a: a[..., ::-1].copy()),
            ("n_cells", lambda a: a + 1),
            ("popularity_ends", lambda a: a[::-1].copy()),
        ],
    )
    def test_arrays_that_are_no_calibration(self, parts, name, change):
        arrays = PopRank().fit(parts[0]).calibrate(parts[1], n_groups=3).arrays()
        arrays[f"calibration.groups.{name}"] = change(arrays[f"calibration.groups.{name}"])
        with pytest.raises(DataError, match=r"is none|are none"):
            csrr.Calibration.from_arrays(arrays)

    def test_what_remains_and_the_share_reach_the_groups(self, case):
        model, valid, _, _ = case
        plain = model.calibrate(valid, n_groups=3)
        half = model.calibrate(valid, n_groups=3, observed_share=0.5)
        np.testing.assert_allclose(
            half.curves.probabilities, np.minimum(plain.curves.probabilities / half.label_rate, 1), rtol=1e-12
        )
        left = half.remaining()
        assert left.curves.n_cells.sum() == left.n_cells.sum()
        assert (left.curves.probabilities <= half.curves.probabilities).all()

    @pytest.mark.parametrize("bad", [0, -1, 2.5, 21, "all", True])
    def test_bad_numbers(self, parts, bad):
        with pytest.raises(ParameterError, match="n_groups="):
            PopRank().fit(parts[0]).calibrate(parts[1], n_groups=bad)


class TestReliabilityByGroup:
    def test_counts_are_those_of_single_cells(self, model, parts):
        found = model.reliability(parts[1])
        relevant, seen = parts[1].to_csr().toarray() > 0, model.seen_.toarray() > 0
        said = model.probability(range(len(seen)))
        for by, counts in ((found.by_popularity, seen.sum(0)), (found.by_activity, seen.sum(1)[:, None])):
            table = by.table()
            assert len(table) > 2
            for row in table.rows():
                last = np.inf if row["to"] is None else row["to"]
                mine = ~seen & (counts >= row["from"]) & (counts <= last)
                assert row["cells"] == mine.sum() > 0
                assert row["positives"] == relevant[mine].sum()
                assert row["probability"] == pytest.approx(said[mine].mean(), rel=1e-9)
                assert row["rate"] == pytest.approx(relevant[mine].mean(), rel=1e-9)
                assert row["ece"] == pytest.approx(csrr.Reliability.of(said[mine], relevant[mine]).ece, rel=1e-9)
            assert by.worst["ece"] == by.ece.max()
            assert by.to_frame().columns.tolist()[:2] == ["from", "to"]
            assert f"Reliability by {by.by}: worst ECE" in repr(by)

    def test_the_observed_share_is_that_of_the_set(self, parts):
        chosen, rng = planted(2)
        train = chosen & (rng.random(chosen.shape) < 0.5)
        shown = chosen & ~train & (rng.random(chosen.shape) < 0.5)
        model = WRMF(threads=1).fit(as_csr(train))
        share = (train | shown).sum() / chosen.sum()
        model.calibrate(as_csr(shown), observed_share=share)
        assert model.reliability(as_csr(chosen & ~train), observed_share=1).ece < 0.01
        assert model.reliability(as_csr(chosen & ~train)).ece > 0.015
        with pytest.raises(ParameterError, match="observed_share="):
            model.reliability(as_csr(shown), observed_share=0)


@pytest.fixture(scope="module")
def parts(log):
    return csrr.split(log, ratio=0.7, seed=0)


@pytest.fixture(scope="module")
def model(parts):
    fitted = CSRR(threads=1).fit(parts[0])
    fitted.calibrate(parts[1])
    return fitted


def test_calibrate_returns_what_it_keeps_and_a_new_fit_drops_it(parts):
    model = PopRank().fit(parts[0])
    assert model.calibration_ is None
    assert model.calibrate(parts[1]) is model.calibration_
    assert model.fit(parts[0]).calibration_ is None


def test_all_users_count_or_those_that_are_named(model, parts):
    n_unseen = len(model.users_) * len(model.items_) - len(parts[0])
    other = CSRR(threads=1).fit(parts[0])
    assert other.calibrate(parts[1]).n_cells.sum() == n_unseen
    some = other.calibrate(parts[1], users=[3, 5, 3])
    assert some.n_cells.sum() == 2 * len(model.items_) - model.seen_[[3, 5]].nnz
    assert some.n_positives.sum() == parts[1].to_csr()[[3, 5]].nnz


def test_unknown_ids_and_training_events_are_left_out(parts):
    train, rest = parts
    events = [(f"{u}", f"{i}") for u, i in zip(rest.user_rows, rest.item_rows, strict=True)]
    seen = [(f"{train.user_rows[0]}", f"{train.item_rows[0]}"), ("nobody", "1"), ("1", "nothing")]
    named = PopRank().fit({"user": train.user_rows.astype(str), "item": train.item_rows.astype(str)})
    known = [(u, i) for u, i in events if u in named.users_ and i in named.items_]
    users, items = zip(*(known + seen), strict=True)
    assert named.calibrate({"user": list(users), "item": list(items)}).n_positives.sum() == len(known)


def test_probabilities_are_those_of_the_scores(model):
    np.testing.assert_array_equal(model.probability(7), model.calibration_.probability(model.score(7)))
    assert model.probability(7).shape == (1, len(model.items_))
    pairs = model.probability([1, 2], [3, 4])
    np.testing.assert_array_equal(pairs, model.calibration_.probability(model.score([1, 2], [3, 4])))


def test_lists_tell_them(model, parts):
    recs = model.recommend([7, 8], 5)
    np.testing.assert_array_equal(recs.probabilities, model.calibration_.probability(recs.scores).astype(np.float32))
    assert [row["probability"] for row in recs[1].rows()] == recs.probabilities[1].tolist()
    assert recs.to_arrow().column_names == ["user", "item", "rank", "score", "probability", "title"]
    assert "probability" in repr(recs)
    assert CSRR(threads=1).fit(parts[0]).recommend([7, 8], 5).probabilities is None


def test_lists_have_the_probabilities_of_the_pairs_held_out_events_among_them():
    # Scores of lists and of all items are rounded in other ways.
    train, rest = csrr.split(csrr.synthetic(600, 300, events_per_user=30, seed=2).log, ratio=0.6)
    model = CSRR(cost_ratio=2.0, reg_low_rank=0.1, neighbors=20).fit(train)
    model.calibrate(csrr.split(rest, ratio=0.5)[0])
    recs = model.recommend(k=100)
    items = model.items_.rows(recs.items.ravel()).reshape(recs.items.shape)
    wanted = np.take_along_axis(model.probability(recs.users), items, axis=1)
    np.testing.assert_allclose(recs.probabilities, wanted, atol=0.02)


class TestCuts:
    def test_by_probability_and_by_score(self, model):
        whole = model.recommend(k=20)
        middle = float(np.median(whole.probabilities))
        cut = model.recommend(k=20, min_probability=middle)
        keep = model.calibration_.probability(whole.scores) >= middle
        assert 0 < keep.sum() < keep.size
        assert ((cut.items != None) == keep).all()  # noqa: E711
        assert (cut.items[keep] == whole.items[keep]).all()
        assert (cut.probabilities[~keep] == 0).all()
        bound = float(np.median(whole.scores))
        assert ((model.recommend(k=20, min_score=bound).scores > -np.inf) == (whole.scores >= bound)).all()

    def test_at_its_ends(self, model):
        assert (model.recommend(k=5, min_probability=0).items == model.recommend(k=5).items).all()
        highest = float(model.calibration_.probabilities[-1])
        kept = model.recommend(k=5, min_probability=highest)
        assert (kept.scores > -np.inf).any()
        assert (kept.probabilities[kept.scores > -np.inf] == np.float32(highest)).all()

    def test_recommending_nothing(self, model):
        recs = model.recommend([1, 2], 3, min_score=1e9)
        assert recs.items.tolist() == [[None] * 3] * 2
        assert list(recs.rows()) == []

    def test_of_new_people(self, model):
        people = model.fold_in([[1, 5, 9], [2]])
        whole = people.recommend(10)
        np.testing.assert_array_equal(
            whole.probabilities, model.calibration_.probability(whole.scores).astype(np.float32)
        )
        bound = float(np.median(whole.scores))
        assert ((people.recommend(10, min_score=bound).scores > -np.inf) == (whole.scores >= bound)).all()
        alone = model.recommend_for([1, 5, 9], 10, min_probability=0.2)
        assert ((alone.scores[0] > -np.inf) == (model.calibration_.probability(whole.scores[0]) >= 0.2)).all()

    def test_by_the_costs_of_the_model(self, parts):
        class Priced(PopRank):
            decision_probability = 0.2

        model = Priced().fit(parts[0])
        with pytest.raises(ParameterError, match="call calibrate"):
            model.recommend(k=5, min_probability="cost")
        model.calibrate(parts[1])
        by_cost = model.recommend(k=20, min_probability="cost")
        assert by_cost.items.tolist() == model.recommend(k=20, min_probability=0.2).items.tolist()
        assert 0 < (by_cost.scores > -np.inf).sum() < by_cost.scores.size


class TestBadInput:
    @pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan, "most", True])
    def test_probabilities(self, model, bad):
        with pytest.raises(ParameterError, match=r"min_probability=.* must be a number >= 0 and <= 1"):
            model.recommend(1, min_probability=bad)

    def test_scores(self, model):
        with pytest.raises(ParameterError, match="min_score=nan"):
            model.recommend(1, min_score=np.nan)

    def test_without_costs(self, parts):
        model = PopRank().fit(parts[0])
        model.calibrate(parts[1])
        with pytest.raises(ParameterError, match="min_probability='cost' needs costs, and this PopRank has none"):
            model.recommend(1, min_probability="cost")

    def test_before_calibrate(self, parts):
        model = PopRank().fit(parts[0])
        asked = [lambda: model.recommend(1, min_probability=0.5), lambda: model.probability(1)]
        for ask in (*asked, lambda: model.reliability(parts[1])):
            with pytest.raises(ParameterError, match="this PopRank has no probabilities yet; call calibrate"):
                ask()

    def test_before_fit(self, parts):
        with pytest.raises(NotFittedError):
            PopRank().calibrate(parts[1])
        with pytest.raises(NotFittedError):
            PopRank().probability(1)
        with pytest.raises(NotFittedError):
            PopRank().reliability(parts[1])

    @pytest.mark.parametrize("share", [0, -1, 1.5, np.nan, "auto"])
    def test_shares(self, parts, share):
        with pytest.raises(ParameterError, match="observed_share="):
            PopRank().fit(parts[0]).calibrate(parts[1], observed_share=share)

    def test_no_positives(self, parts):
        model = PopRank().fit(parts[0])
        with pytest.raises(ParameterError, match=r"calibration needs positives.*none of the"):
            model.calibrate(parts[0])
        with pytest.raises(ParameterError, match="calibration needs positives"):
            model.calibrate({"user": ["x"], "item": ["y"]})
        assert model.calibration_ is None


@pytest.mark.parametrize("kind", [CSRR, PopRank])
def test_a_file_keeps_it_to_the_bit(parts, tmp_path, kind):
    model = kind().fit(parts[0])
    model.save(tmp_path / "without.csrr")
    assert csrr.load(tmp_path / "without.csrr").calibration_ is None
    calibration = model.calibrate(parts[1], observed_share=0.9)
    model.save(tmp_path / "with.csrr")
    again = csrr.load(tmp_path / "with.csrr")
    for name, array in calibration.arrays().items():
        np.testing.assert_array_equal(again.calibration_.arrays()[name], array, strict=True)
    assert again.recommend(1, 9, min_probability=0.1).items.tolist() == (
        model.recommend(1, 9, min_probability=0.1).items.tolist()
    )


def test_a_log_of_other_ids_is_matched_by_id(named):
    train, rest = csrr.split(named, ratio=0.7, seed=1)
    model = PopRank().fit(train)
    shuffled = Log.from_table({"user": rest.users.ids[rest.user_rows], "item": rest.items.ids[rest.item_rows]})
    assert shuffled.items != model.items_ or shuffled.users != model.users_
    assert model.calibrate(shuffled).n_positives.tolist() == model.calibrate(rest).n_positives.tolist()
