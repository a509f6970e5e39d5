import numpy as np
import pytest

import csrr
from csrr.interop import from_lenskit, to_lenskit
from csrr.parameters import ParameterError
from csrr.ranking.metrics import METRICS

pytest.importorskip("lenskit")
from lenskit import batch, operations, topn_pipeline
from lenskit.basic import PopScorer
from lenskit.data import (
    ItemList,
    ItemListCollection,
    RecQuery,
    UserIDKey,
    from_interactions_df,
)
from lenskit.knn import ItemKNNScorer
from lenskit.metrics import NDCG, Precision, Recall, RunAnalysis

pytestmark = pytest.mark.filterwarnings("default")


def as_table(log):
    return log.to_frame()[["user", "item"]].rename(columns={"user": "user_id", "item": "item_id"})


@pytest.fixture(scope="module")
def data(parts):
    return from_interactions_df(as_table(parts[0]))


@pytest.fixture(autouse=True)
def their_ndcg(monkeypatch):
    """NDCG with LensKit's discount: ranks 1 and 2 count alike, rank r counts 1/log2(r)."""

    def measure_ndcg(hits, n_relevant):
        gains = 1 / np.maximum(np.log2(np.arange(1, hits.shape[1] + 1)), 1)
        return hits @ gains / np.cumsum(gains)[np.minimum(n_relevant, hits.shape[1]) - 1]

    monkeypatch.setitem(METRICS, "their_ndcg", measure_ndcg)


def measure(lists, test):
    """Return the means of LensKit's own metrics."""
    analysis = RunAnalysis()
    for metric in (Precision(5), Recall(5), NDCG(5)):
        analysis.add_metric(metric)
    truth = ItemListCollection.from_df(as_table(test), UserIDKey)
    return analysis.measure(lists, truth).list_summary()["mean"].to_dict()


def test_their_pipeline_is_evaluated_as_ours_is(parts, data):
    train, test = parts
    pipeline = topn_pipeline(PopScorer(score="count"), n=5)
    pipeline.train(data)
    theirs = from_lenskit(pipeline, data)
    assert theirs.training_log().to_frame().equals(train.to_frame()[["user", "item"]])
    ours = csrr.PopRank().fit(train)
    assert np.array_equal(theirs.score_rows(np.arange(60)), ours.score_rows(np.arange(60)))
    pipeline = topn_pipeline(ItemKNNScorer(max_nbrs=20, feedback="implicit"), n=5)
    pipeline.train(data)
    found = csrr.evaluate(from_lenskit(pipeline, train), train, test, at=5)
    lists = batch.recommend(pipeline, test.users.ids[np.unique(test.user_rows)].tolist(), n=5, n_jobs=1)
    told = measure(lists, test)
    assert found["recall@5"] == pytest.approx(told["Recall@5"], abs=0.01)


def test_our_lists_are_measured_by_their_metrics(parts):
    train, test = parts
    model = csrr.EASE(10).fit(train)
    ours = csrr.evaluate(model, train, test, at=5, metrics=["precision", "recall", "their_ndcg"])
    told = measure(to_lenskit(model.recommend(ours.users, k=5)), test)
    assert told["Recall@5"] == pytest.approx(ours["recall@5"])
    assert told["Precision@5"] == pytest.approx(ours["precision@5"])
    assert told["NDCG@5"] == pytest.approx(ours["their_ndcg@5"])


def test_lists_that_are_short_or_empty_keep_their_users(parts):
    model = csrr.PopRank().fit(parts[0])
    lists = to_lenskit(model.recommend(k=3, candidates=parts[0].items.ids[:3]))
    assert len(lists) == 60
    assert {len(items) for _, items in lists} <= {0, 1, 2, 3}


def test_our_model_is_a_scorer_of_their_pipelines(parts, data):
    train, test = parts
    pipeline = topn_pipeline(to_lenskit(csrr.EASE(10.0)), n=5)
    pipeline.train(data)
    ours = csrr.EASE(10.0).fit(train)
    users = test.users.ids[np.unique(test.user_rows)].tolist()
    lists = batch.recommend(pipeline, users, n=5, n_jobs=1)
    for user in users:
        assert lists.lookup(user_id=user).ids().tolist() == ours.recommend(user, 5).items[0].tolist()
    found = csrr.evaluate(ours, train, test, at=5, metrics=["recall", "their_ndcg"])
    told = measure(lists, test)
    assert (told["Recall@5"], told["NDCG@5"]) == pytest.approx((found["recall@5"], found["their_ndcg@5"]))


def test_people_and_items_that_are_not_known(parts, data):
    pipeline = topn_pipeline(to_lenskit(csrr.EASE(10.0)), n=5)
    pipeline.train(data)
    ours = csrr.EASE(10.0).fit(parts[0])
    scored = operations.score(pipeline, "u03", [100, 999, 107])
    assert np.isnan(scored.scores()).tolist() == [False, True, False]
    assert scored.scores()[[0, 2]] == pytest.approx(ours.score("u03", [100, 107]))
    nobody = operations.score(pipeline, "nobody", [100, 107])
    assert np.isnan(nobody.scores()).all()
    new = RecQuery(user_id="nobody", history_items=ItemList(item_ids=[114, 121, 999]))
    expected = ours.fold_in([[114, 121]]).score()[0][:2]
    assert operations.score(pipeline, new, [100, 107]).scores() == pytest.approx(expected)


def test_what_is_neither_is_refused():
    with pytest.raises(ParameterError, match="to_lenskit takes recommendations or a model, not a int"):
        to_lenskit(3)
