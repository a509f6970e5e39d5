import numpy as np
import pytest
from scipy import sparse

import csrr
from csrr.data.errors import DataError, UnknownIdError
from csrr.data.log import as_log
from csrr.data.synthetic import synthetic
from csrr.models.base import Recommender
from csrr.models.estimator import NotFittedError
from csrr.models.popularity import PopRank
from csrr.models.recommend import rank_items
from tests.reference.metrics import best_items


class Factors(Recommender):
    """Random factors of a given width, whatever the data."""

    has_factors = True

    def __init__(self, *, rank=3, seed=0):
        self.rank = rank
        self.seed = seed

    def fit(self, data):
        log = as_log(data)
        rng = np.random.default_rng(self.seed)
        self.user_factors_ = rng.standard_normal((log.n_users, self.rank), dtype=np.float32)
        self.item_factors_ = rng.standard_normal((log.n_items, self.rank), dtype=np.float32)
        self.remember(log)
        return self


SMALL = {"user": [7, 7, 9, 9, 9, 11], "item": ["a", "b", "a", "c", "d", "a"]}


@pytest.fixture(scope="module")
def log():
    return synthetic(80, 60, rank=4, events_per_user=10).log


@pytest.fixture(scope="module", params=[PopRank, Factors])
def model(request, log):
    return request.param().fit(log)


def seen_items(model, user):
    row = model.users_.row(user)
    return set(model.items_.ids[model.seen_.indices[model.seen_.indptr[row] : model.seen_.indptr[row + 1]]])


class TestContract:
    def test_lists_are_the_best_unseen_items(self, model):
        recs = model.recommend(k=7)
        assert recs.items.shape == recs.scores.shape == recs.titles.shape == (80, 7)
        for user, items in zip(recs.users, recs.items, strict=True):
            scores = model.score(user)[0]
            assert items.tolist() == best_items(scores, 7, seen_items(model, user))

    def test_seen_items_come_back_when_asked_for(self, model):
        recs = model.recommend(5, k=60, exclude_seen=False)
        assert sorted(recs.items[0]) == list(range(60))
        assert recs.items.dtype == np.int64

    def test_one_user_or_several(self, model):
        one, several = model.recommend(5, k=4), model.recommend([9, 5], k=4)
        assert one.users.tolist() == [5]
        assert several.users.tolist() == [9, 5]
        assert one.items[0].tolist() == several.items[1].tolist()
        assert model.recommend(np.int64(5), k=4).items.tolist() == one.items.tolist()
        assert len(model.recommend([])) == 0

    def test_k_beyond_the_items_gives_all_that_are_left(self, model):
        recs = model.recommend([0, 1], k=1000)
        assert recs.k == 60
        for user, items in zip(recs.users, recs.items, strict=True):
            left = [item for item in items if item is not None]
            assert set(left) == set(range(60)) - seen_items(model, user)
            assert items.tolist() == left + [None] * (60 - len(left))
        assert len(recs.to_frame()) == (recs.scores > -np.inf).sum()

    @pytest.mark.parametrize("candidates", [None, [], [1, 2, 3, 30, 31], 3])
    @pytest.mark.parametrize("exclude", [None, [], [3, 31, 40], 2])
    @pytest.mark.parametrize("exclude_seen", [True, False])
    def test_candidates_and_exclude(self, model, candidates, exclude, exclude_seen):
        recs = model.recommend(k=4, candidates=candidates, exclude=exclude, exclude_seen=exclude_seen)
        allowed = set(range(60)) if candidates is None else set(np.atleast_1d(candidates).tolist())
        allowed -= set() if exclude is None else set(np.atleast_1d(exclude).tolist())
        assert recs.k == min(4, len(allowed))
        for user, items in zip(recs.users, recs.items, strict=True):
            left = allowed - seen_items(model, user) if exclude_seen else allowed
            found = [item for item in items if item is not None]
            assert len(found) == len(set(found)) == min(4, len(left))
            assert set(found) <= left

    def test_threads_do_not_change_the_lists(self, model):
        one, two = model.recommend(k=9, threads=1), model.recommend(k=9, threads=2)
        np.testing.assert_array_equal(one.items, two.items)
        np.testing.assert_array_equal(one.scores, two.scores)

    def test_scores_of_pairs_agree_with_the_block(self, model):
        users, items = np.array([3, 3, 70, 0]), np.array([4, 5, 59, 4])
        block = model.score(users)
        assert block.shape == (4, 60)
        assert block.dtype == np.float32
        np.testing.assert_allclose(model.score(users, items), block[np.arange(4), items], rtol=1e-5)
        np.testing.assert_allclose(model.score(3, items), block[0, items], rtol=1e-5)
        np.testing.assert_allclose(model.score(users, 4), block[:, 4], rtol=1e-5)
        assert model.score(3, 4).shape == (1,)

    def test_many_pairs_are_scored_in_parts(self, model, monkeypatch):
        monkeypatch.setattr("csrr.models.scorer.PAIRS", 100)
        monkeypatch.setattr("csrr.models.scorer.USERS", 7)
        users, items = np.repeat(np.arange(80), 60), np.tile(np.arange(60), 80)
        found = model.score(users, items).reshape(80, 60)
        np.testing.assert_allclose(found, model.score(np.arange(80)), rtol=1e-4, atol=1e-5)

    def test_the_caller_may_overwrite_a_block(self, model):
        before = model.recommend(3).items.tolist()
        model.score(3)[:] = 0
        assert model.recommend(3).items.tolist() == before

    @pytest.mark.parametrize("k", [0, -1, 2.5, True, "3"])
    def test_bad_k(self, model, k):
        with pytest.raises(ValueError, match=r"k=.* must be a whole number >= 1"):
            model.recommend(3, k=k)

    def test_unknown_ids(self, model):
        with pytest.raises(UnknownIdError, match="unknown user id: 999"):
            model.recommend(999)
        with pytest.raises(UnknownIdError, match="unknown item id: 999"):
            model.recommend(3, candidates=[999])
        with pytest.raises(UnknownIdError, match="unknown item ids"):
            model.score(3, ["a", "b"])

    def test_unequal_pairs(self, model):
        with pytest.raises(ValueError, match="as many users as items, got 2 and 3"):
            model.score([1, 2], [1, 2, 3])
        with pytest.raises(ValueError, match="as many users as items, got 1 and 3"):
            model.score([1], [1, 2, 3])

    def test_not_fitted(self, model):
        fresh = type(model)()
        for ask in (fresh.recommend, lambda: fresh.score(1), lambda: rank_items(fresh, np.array([0]), 1)):
            with pytest.raises(NotFittedError, match=r"is not fitted yet; call fit\(data\) first"):
                ask()


def test_parameters():
    model = Factors(rank=5)
    assert model.get_params() == {"rank": 5, "seed": 0}
    assert model.set_params(seed=4) is model
    assert repr(model) == "Factors(rank=5, seed=4)"
    with pytest.raises(ValueError, match="Factors has no parameter 'ranks'; did you mean 'rank'"):
        model.set_params(seed=9, ranks=3)
    assert model.seed == 4
    assert repr(Factors().fit(SMALL)) == "Factors(), fitted to 3 users x 4 items"
    assert PopRank().get_params() == {}


def test_popularity_counts_users_and_breaks_ties_by_item_row():
    model = PopRank().fit(SMALL)
    assert model.popularity_.tolist() == [3, 1, 1, 1]
    recs = model.recommend([11, 7], k=3)
    assert recs.items.tolist() == [["b", "c", "d"], ["c", "d", None]]
    assert recs.scores.tolist() == [[1, 1, 1], [1, 1, -np.inf]]


def test_popularity_counts_a_user_once_whatever_the_weight():
    heavy = {"user": [1, 1, 2, 3], "item": [5, 5, 6, 6], "weight": [9.0, 9.0, 1.0, 1.0]}
    assert PopRank().fit(heavy).popularity_.tolist() == [1, 2]


def test_popularity_on_a_matrix_without_some_events():
    model = PopRank().fit(sparse.csr_array(np.array([[1, 0, 0], [0, 0, 0]], np.float32)))
    with pytest.warns(csrr.NoHistoryWarning):
        assert model.recommend(1).items.tolist() == [[0, 1, 2]]


def test_bad_data():
    with pytest.raises(DataError):
        PopRank().fit(3)


def test_nan_scores_are_refused(log):
    model = Factors().fit(log)
    model.item_factors_[7, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.recommend(3)


class TestNeighbours:
    @pytest.fixture
    def model(self, log):
        return Factors(rank=3).fit(log)

    def test_cosine_of_the_factors(self, model):
        for ask, factors in (
            (model.similar_items, model.item_factors_),
            (model.similar_users, model.user_factors_),
        ):
            unit = factors / np.linalg.norm(factors, axis=1, keepdims=True)
            cosines = unit @ unit[8]
            near = ask(8, k=5)
            assert near.ids.tolist() == best_items(cosines, 5, {8})
            np.testing.assert_allclose(near.scores, cosines[near.ids], rtol=1e-5)

    def test_titles_are_those_of_the_items(self, model, log):
        near = model.similar_items(8, k=3)
        assert near.titles.tolist() == log.titles[near.ids].tolist()
        assert model.similar_users(8).titles is None

    def test_zero_factors_score_zero_in_the_order_of_popularity(self, model, log):
        model.item_factors_[8] = 0
        near = model.similar_items(8, k=3)
        order = np.argsort(-log.item_counts(), kind="stable")
        assert near.ids.tolist() == order[order != 8][:3].tolist()
        assert near.scores.tolist() == [0, 0, 0]
        assert model.similar_items(0, k=100).scores[model.similar_items(0, k=100).ids == 8] == 0

    def test_the_item_itself_is_left_out(self, model):
        near = model.similar_items(8, k=1000)
        assert sorted(near.ids) == [item for item in range(60) if item != 8]

    def test_bad_questions(self, model):
        with pytest.raises(UnknownIdError, match="unknown item id: 'x'"):
            model.similar_items("x")
        with pytest.raises(ValueError, match="k=0"):
            model.similar_items(8, k=0)
        with pytest.raises(NotFittedError):
            Factors().similar_items(8)

    @pytest.mark.parametrize(
        "kind",
        [lambda: Factors(rank=3), lambda: csrr.EASE(10), lambda: csrr.ItemKNN(5), lambda: csrr.CSRR(cost_ratio=2.0)],
        ids=["factors", "EASE", "ItemKNN", "CSRR"],
    )
    @pytest.mark.parametrize("what", ["items", "users"])
    def test_several_at_once_are_as_one_by_one(self, kind, what, log):
        model = kind().fit(log)
        ask = getattr(model, f"similar_{what}")
        for options in ({}, {"candidates": [1, 2, 8, 30, 31, 32], "exclude": [31]}):
            lists = ask([8, 3, 40], k=4, **options)
            assert lists.of.tolist() == [8, 3, 40]
            for one, near in zip([8, 3, 40], lists, strict=True):
                alone = ask(one, k=4, **options)
                assert (alone.of, near.of) == (one, one)
                assert near.ids.tolist() == alone.ids.tolist()
                assert near.scores.tolist() == pytest.approx(alone.scores.tolist(), rel=1e-5)
                assert one not in near.ids
        assert {i for i in lists.ids.ravel() if i is not None} <= {1, 2, 8, 30, 32}
        first = [row["id"] for row in lists.to_list() if row["of"] == 8]
        assert first == lists[0].ids.tolist()
        assert [row["rank"] for row in lists.to_list()][: len(first)] == list(range(1, len(first) + 1))

    def test_conditions_on_items(self, model, log):
        model.set_items({"item": range(60), "genre": ["Indie", "RPG", "Racing"] * 20})
        near = model.similar_items([8, 9], k=60, where={"genre": "RPG"})
        assert sorted(near.ids[1].tolist()) == list(range(1, 60, 3))
        assert len(model.similar_items(7, k=60, where={"genre": "RPG"})) == 19
        with pytest.raises(csrr.ParameterError, match="where= asks for columns of an item table"):
            Factors().fit(log).similar_items(8, where={"genre": "RPG"})

    def test_users_of_item_models_are_alike_by_their_histories(self, log):
        near = csrr.ItemKNN(5).fit(log).similar_users(8, k=100)
        X = log.to_csr().toarray()
        cosines = X @ X[8] / np.linalg.norm(X, axis=1).clip(1) / np.linalg.norm(X[8])
        assert near.ids.tolist() == [u for u in best_items(cosines, 79, {8}) if cosines[u] > 0]
        np.testing.assert_allclose(near.scores, cosines[near.ids], rtol=1e-5)
        assert [kind.can("similar_users") for kind in (csrr.ItemKNN, csrr.PopRank)] == [True, False]
        with pytest.raises(NotImplementedError, match="PopRank has no factors"):
            PopRank().fit(log).similar_users(8)

    def test_unknown_ids_and_lists_of_ones_own(self, model):
        with pytest.warns(csrr.UnknownIdWarning, match="1 of 3 in the items asked for, 1 of 2 in exclude"):
            near = model.similar_items([8, 999, 3], k=3, exclude=[5, 777], unknown="ignore")
        assert [len(each) for each in near] == [3, 0, 3]
        assert near.ids[1].tolist() == [None] * 3
        with pytest.raises(csrr.ParameterError, match="candidates: give a list of item ids, the same for all"):
            model.similar_items(8, candidates={8: [1, 2]})
        with pytest.raises(TypeError, match=r"not a pair of ids and scores\. Take result\.ids"):
            _ids, _scores = model.similar_items([8, 3])


@pytest.mark.parametrize("model", [csrr.EASE(10), csrr.ItemKNN(), csrr.WRMF(3), csrr.PopRank()], ids=repr)
def test_one_user_goes_with_several_items_and_one_item_with_several_users(log, model):
    every = model.fit(log).score([3, 5])
    assert model.score(3, [5, 6, 7]) == pytest.approx(every[0, 5:8], rel=1e-5)
    assert model.score([3, 5], 7) == pytest.approx(every[:, 7], rel=1e-5)
