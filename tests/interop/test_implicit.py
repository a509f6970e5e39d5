import numpy as np
import pytest
from scipy import sparse

import csrr
from csrr.interop import from_implicit, from_scores
from csrr.parameters import ParameterError

METRICS = ["precision", "recall", "ndcg", "map", "auc"]


def test_scores_of_anything_are_evaluated_as_a_model_is(parts):
    ease = csrr.EASE(10).fit(parts[0])
    asked = []

    def score(users):
        asked.extend(users.tolist())
        return ease.score(users).astype(np.float64)

    outside = from_scores(score, parts[0], name="theirs")
    ours, theirs = (csrr.evaluate(model, *parts, metrics=METRICS) for model in (ease, outside))
    assert theirs.means == pytest.approx(ours.means)
    assert set(asked) == set(ours.users.tolist())
    assert csrr.compare({"ours": ours, "theirs": theirs}).rows[0].paired.equal == 1
    assert outside.recommend("u03", 5).items.tolist() == ease.recommend("u03", 5).items.tolist()
    assert repr(outside) == "theirs, fitted to 60 users x 40 items"
    assert "<p>theirs, fitted to 60 users x 40 items</p>" in outside._repr_html_()


def test_what_has_no_score_is_in_no_list(parts):
    def score(users):
        scores = np.full((len(users), 40), np.nan)
        scores[:, 3] = 1
        return scores

    recs = from_scores(score, parts[0]).recommend(k=2, exclude_seen=False)
    assert recs.items.tolist() == [[121, None]] * 60


def test_items_without_a_score_come_last_in_what_is_measured_over_all_items(parts):
    train, test = parts
    scores = np.random.default_rng(0).random((60, 40))
    scores[:, ::3] = np.nan
    place = {user: row for row, user in enumerate(train.users.ids.tolist())}
    model = from_scores(lambda users: scores[[place[user] for user in users.tolist()]], train)
    found = csrr.evaluate(model, train, test, at=5, metrics=["auc", "recall"])
    seen, relevant = train.to_csr().toarray() > 0, test.to_csr().toarray() > 0
    for user, auc in zip(found.users.tolist(), found.per_user["auc"], strict=True):
        row = place[user]
        mine = np.nan_to_num(scores[row], nan=-1.0)
        good, bad = mine[relevant[row]], mine[~relevant[row] & ~seen[row]]
        by_hand = ((good[:, None] > bad) + 0.5 * (good[:, None] == bad)).mean()
        assert auc == pytest.approx(by_hand)


def test_what_cannot_be_done_is_said(parts, tmp_path):
    model = from_scores(lambda users: np.zeros((len(users), 3)), parts[0], name="three columns")
    with pytest.raises(ParameterError, match=r"three columns: scores of shape \(1, 3\) for 1 users and 40 items"):
        model.recommend("u03")
    with pytest.raises(NotImplementedError, match="fitted by the library"):
        model.fit(parts[0])
    with pytest.raises(NotImplementedError, match="saved by the library"):
        model.save(tmp_path / "m.csrr")


@pytest.mark.filterwarnings("ignore")  # implicit warns of BLAS's threads, and of matrices that it makes itself
class TestImplicit:
    @pytest.fixture(params=["als", "bpr", "logistic", "cosine", "bm25"])
    def theirs(self, request, parts):
        pytest.importorskip("implicit")
        from implicit.als import AlternatingLeastSquares
        from implicit.bpr import BayesianPersonalizedRanking
        from implicit.lmf import LogisticMatrixFactorization
        from implicit.nearest_neighbours import BM25Recommender, CosineRecommender

        few = {"factors": 4, "iterations": 5, "random_state": 0, "num_threads": 1}
        model = {
            "als": lambda: AlternatingLeastSquares(**few),
            "bpr": lambda: BayesianPersonalizedRanking(**few),
            "logistic": lambda: LogisticMatrixFactorization(**few),
            "cosine": lambda: CosineRecommender(K=5),
            "bm25": lambda: BM25Recommender(K=5),
        }[request.param]()
        model.fit(sparse.csr_matrix(parts[0].to_csr()), show_progress=False)
        return model

    def test_lists_are_those_of_the_library(self, theirs, parts):
        ours = from_implicit(theirs, parts[0])
        clicks = sparse.csr_matrix(parts[0].to_csr())
        rows = np.arange(60)
        ids, scores = theirs.recommend(rows, clicks, N=5, filter_already_liked_items=True)
        recs = ours.recommend(k=5)
        known = np.isfinite(recs.scores)
        assert known.sum() > 200
        # Equal scores may be in another order.
        assert recs.scores[known] == pytest.approx(scores[known], rel=1e-4, abs=1e-6)
        mine = [[None if i is None else parts[0].items.row(i, "item") for i in items] for items in recs.items.tolist()]
        pairs = [pair for both in zip(mine, ids.tolist(), strict=True) for pair in zip(*both, strict=True)]
        assert np.mean([a == b for a, b in pairs if a is not None]) > 0.95
        found = csrr.evaluate(ours, *parts, at=5, metrics=METRICS)
        assert 0 < found["ndcg@5"] < 1

    def test_another_log_is_refused(self, theirs, parts):
        other = csrr.synthetic(50, 32, events_per_user=5).log
        with pytest.raises(csrr.DataError, match=r"40 items, train has 50 and 32; fit it to train.to_csr\(\)"):
            from_implicit(theirs, other)

    def test_what_is_no_model_is_refused(self, parts):
        with pytest.raises(ParameterError, match="takes a fitted model of implicit, not a dict"):
            from_implicit({}, parts[0])
