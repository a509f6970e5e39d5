import json

import numpy as np
import pytest

import csrr
from csrr.evaluation.compare import compare
from csrr.evaluation.evaluate import Evaluation
from csrr.evaluation.statistics import compare_paired, correct_holm


@pytest.fixture(scope="module")
def evaluations():
    train, test = csrr.split(csrr.synthetic(120, 60, rank=4, events_per_user=9).log, ratio=0.7, seed=1)
    models = {"popular": csrr.PopRank(), "ease": csrr.EASE(), "knn": csrr.ItemKNN()}
    metrics = ("ndcg", "recall", "coverage", "cost")
    return {n: csrr.evaluate(m.fit(train), train, test, at=(5, 10), metrics=metrics) for n, m in models.items()}


def made(users, **values):
    per_user = {name: np.asarray(of_users, float) for name, of_users in values.items()}
    means = {name: of_users.mean() for name, of_users in per_user.items()}
    return Evaluation((10,), np.asarray(users), per_user, means, 0)


def test_every_pair_or_all_against_one(evaluations):
    found = compare(evaluations)
    assert [(row.model, row.against) for row in found.rows] == [
        ("popular", "ease"),
        ("popular", "knn"),
        ("ease", "knn"),
    ]
    against = compare(evaluations, "recall@5", baseline="ease")
    assert [(row.model, row.against) for row in against.rows] == [("popular", "ease"), ("knn", "ease")]
    values = {name: each.per_user["recall@5"] for name, each in evaluations.items()}
    tests = [compare_paired(values[name], values["ease"]) for name in ("popular", "knn")]
    assert [row.paired for row in against.rows] == tests
    assert [row.t_p_holm for row in against.rows] == correct_holm([test.t_p for test in tests]).tolist()
    assert [row.wilcoxon_p_holm for row in against.rows] == correct_holm([test.wilcoxon_p for test in tests]).tolist()


def test_less_cost_is_better(evaluations):
    row = compare({name: evaluations[name] for name in ("ease", "popular")}, "cost").rows[0]
    costs = [evaluations[name].per_user["cost"] for name in ("ease", "popular")]
    assert row.paired.difference < 0
    assert row.paired.better == (costs[0] < costs[1]).mean() > 0.5


def test_users_are_matched_by_id():
    first = made(["x", "y", "z"], **{"ndcg@10": [1, 0, 0.5]})
    second = made(["z", "x", "y"], **{"ndcg@10": [0.5, 1, 0]})
    assert compare({"a": first, "b": second}).rows[0].paired.equal == 1


def test_what_cannot_be_compared(evaluations):
    one, other = made(["x", "y"], **{"ndcg@10": [1, 0]}), made(["x", "z"], **{"ndcg@10": [1, 0]})
    with pytest.raises(csrr.DataError, match=r"a and b are evaluated on different users \(2 and 2\)"):
        compare({"a": one, "b": other})
    with pytest.raises(csrr.ParameterError, match="at least two evaluations"):
        compare({"a": one})
    with pytest.raises(csrr.ParameterError, match="baseline='c' is no evaluation; there are popular, ease"):
        compare(evaluations, baseline="c")
    for metric in ("ndcg@7", "coverage@5", "f1_of_means@5"):
        with pytest.raises(
            csrr.ParameterError, match=f"metric='{metric}': popular has no such value per user; it has ndcg"
        ):
            compare(evaluations, metric)


def test_tables_and_summary(evaluations):
    found = compare(evaluations, baseline="popular")
    frame = found.to_frame()
    assert frame["model"].tolist() == ["ease", "knn"]
    assert frame["t_p_holm"].tolist() == [row.t_p_holm for row in found.rows]
    summary = json.loads(json.dumps(found.summary()))
    assert summary["metric"] == "ndcg@10"
    assert summary["rows"] == frame.to_dict("records") == found.to_arrow().to_pylist()
    lines = repr(found).splitlines()
    n = evaluations["ease"].n_users
    assert lines[0].startswith(f"Comparison: ndcg@10, mean difference over {n} users")
    row = found.rows[0].paired
    assert lines[2].split()[:5] == [
        "ease",
        "popular",
        f"{row.difference:+.4f}",
        "±",
        f"{row.high - row.difference:.4f}",
    ]
