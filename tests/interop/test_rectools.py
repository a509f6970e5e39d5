import numpy as np
import pytest

import csrr
from csrr.interop import from_rectools, to_rectools
from csrr.parameters import ParameterError

pytest.importorskip("rectools")
from rectools import Columns
from rectools.dataset import Dataset
from rectools.metrics import MAP, NDCG, Precision, Recall, calc_metrics
from rectools.model_selection import LastNSplitter, cross_validate
from rectools.models import EASEModel, PopularModel


def as_table(log):
    frame = log.to_frame()[["user", "item"]].rename(columns={"user": Columns.User, "item": Columns.Item})
    return frame.assign(weight=1.0, datetime=np.arange(len(frame)).astype("datetime64[s]"))


@pytest.fixture(scope="module")
def dataset(parts):
    return Dataset.construct(as_table(parts[0]))


@pytest.mark.parametrize(
    ("kind", "ties"), [(PopularModel, 0.05), (lambda: EASEModel(10, recommend_use_gpu_ranking=False), 1e-6)]
)
def test_their_model_is_evaluated_by_its_own_lists(parts, dataset, kind, ties):
    train, test = parts
    fitted = kind().fit(dataset)
    theirs = from_rectools(fitted, dataset)
    assert theirs.training_log().to_frame().equals(train.to_frame()[["user", "item"]])
    assert repr(theirs) == f"RecTools {type(fitted).__name__}, fitted to 60 users x 40 items"
    found = csrr.evaluate(theirs, train, test, at=5, metrics=["recall", "auc"])
    table = fitted.recommend(found.users, dataset, k=5, filter_viewed=True)
    # Equal scores may be in another order.
    assert theirs.recommend(found.users, 5).scores.ravel() == pytest.approx(table[Columns.Score].to_numpy(), rel=1e-5)
    told = calc_metrics({"recall": Recall(5)}, table, as_table(test))
    assert found["recall@5"] == pytest.approx(told["recall"], abs=ties)
    assert 0.4 < found["auc"] < 1


def test_our_lists_are_measured_by_their_metrics(parts):
    train, test = parts
    model = csrr.EASE(10).fit(train)
    table = to_rectools(model.recommend(k=10))
    assert list(table.columns) == Columns.Recommendations
    metrics = {"precision": Precision(5), "recall": Recall(5), "ndcg": NDCG(5), "map": MAP(5)}
    theirs = calc_metrics(metrics, table, as_table(test))
    ours = csrr.evaluate(model, train, test, at=5, metrics=["precision", "recall", "ndcg", "map"])
    assert theirs["precision"] == pytest.approx(ours["precision@5"])
    assert theirs["recall"] == pytest.approx(ours["recall@5"])


def test_our_model_is_fitted_and_asked_by_them(parts, dataset):
    model = to_rectools(csrr.EASE(10)).fit(dataset)
    ours = csrr.EASE(10).fit(parts[0])
    users = parts[0].users.ids[:9]
    for viewed in (True, False):
        table = model.recommend(users, dataset, k=5, filter_viewed=viewed)
        assert table[Columns.Item].tolist() == ours.recommend(users, 5, exclude_seen=viewed).items.ravel().tolist()
    few = parts[0].items.ids[[3, 30, 20]]
    table = model.recommend(users, dataset, k=5, filter_viewed=False, items_to_recommend=few)
    expected = ours.recommend(users, 5, candidates=few, exclude_seen=False).items
    assert table[Columns.Item].tolist() == expected.ravel().tolist()
    near = model.recommend_to_items(few, dataset, k=3)
    assert near[Columns.Item].tolist() == [i for item in few for i in ours.similar_items(item, 3).ids.tolist()]
    near = model.recommend_to_items(few[:1], dataset, k=3, items_to_recommend=few)
    assert set(near[Columns.Item]) <= set(few[1:])


def test_our_models_go_through_their_cross_validation(dataset):
    found = cross_validate(
        dataset,
        LastNSplitter(1, n_splits=2),
        {"recall": Recall(5)},
        {"ease": to_rectools(csrr.EASE(10)), "popular": to_rectools(csrr.PopRank())},
        k=5,
        filter_viewed=True,
    )
    assert {row["model"] for row in found["metrics"]} == {"ease", "popular"}
    assert all(0 <= row["recall"] <= 1 for row in found["metrics"])


def test_what_is_neither_is_refused():
    with pytest.raises(ParameterError, match="to_rectools takes recommendations or a model, not a int"):
        to_rectools(3)
