"""Means, intervals and tests of the reproduction's page, made again from what every user's list held."""

import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow import compute, parquet

from csrr.evaluation.statistics import compare_paired, compute_mean_interval, correct_holm
from csrr_paper.summary_types import Summary
from tests.paper.sample import read_lists_table

RESULTS = Path(__file__).parents[2] / "docs" / "results"
DATA, AT_LEAST, SPLITS = "ml-100k", 3.0, range(5)


@pytest.fixture(scope="module")
def lists():
    """The lists on MovieLens-100K, by system and split."""
    table = parquet.read_table(RESULTS / "lists.parquet", filters=[("data", "=", DATA), ("at_least", "=", AT_LEAST)])
    return {(system, split): found for (_, _, split, system), found in read_lists_table(table).items()}


@pytest.fixture(scope="module")
def table():
    """The comparison on MovieLens-100K, as it was summed up."""
    summary = Summary.from_json(json.loads((RESULTS / "summary.json").read_text()))
    (found,) = [each for each in summary.comparison if (each.data, each.protocol) == (DATA, "numbers")]
    return found


def average(lists, system, metric):
    """Return each user's mean over the splits in which they have test items, by user."""
    values = {}
    for split in SPLITS:
        found = lists[system, split].measure()
        for user, value in zip(found["users"].tolist(), found[metric].tolist(), strict=True):
            values.setdefault(user, []).append(value)
    return {user: np.mean(each) for user, each in values.items()}


def test_every_result_has_its_lists():
    rows = parquet.read_table(RESULTS / "rows.parquet", columns=["data", "at_least", "split", "system"])
    kept = parquet.read_table(RESULTS / "lists.parquet", columns=["data", "at_least", "split", "system"])
    assert rows.num_rows == kept.num_rows == 810
    assert {tuple(row.values()) for row in rows.to_pylist()} == {tuple(row.values()) for row in kept.to_pylist()}


def test_means_of_every_split_are_those_of_the_lists(lists):
    rows = parquet.read_table(RESULTS / "rows.parquet")
    ours = rows.filter((compute.field("data") == DATA) & (compute.field("at_least") == AT_LEAST)).to_pylist()
    assert len(ours) > 200
    for row in ours:
        found = lists[row["system"], row["split"]].measure()
        for metric in ("precision@5", "recall@10", "ndcg@10", "list_ndcg@15"):
            assert found[metric].mean() == pytest.approx(row[metric], abs=1e-12)


@pytest.mark.parametrize("system", ["PopRank", "WRMF", "CSRR-I", "CSRR()"])
@pytest.mark.parametrize(("column", "metric"), [("R@5", "recall@5"), ("NDCG@5", "list_ndcg@5")])
def test_intervals_are_those_over_users(lists, table, system, column, metric):
    cell = table.get_row(system).cells[column]
    low, high = compute_mean_interval(np.array(list(average(lists, system, metric).values())))
    assert cell.high - cell.low == pytest.approx(high - low, rel=1e-9)
    assert cell.low < cell.mean < cell.high


def test_paired_tests_are_those_over_users(lists, table):
    told = [test for test in table.tests if (test.a, test.metric) == ("CSRR-I", "NDCG@5")]
    assert len(told) == 6
    own = average(lists, "CSRR-I", "list_ndcg@5")
    found = []
    for test in told:
        other = average(lists, test.b, "list_ndcg@5")
        both = sorted(own.keys() & other.keys())
        found.append(compare_paired(np.array([own[u] for u in both]), np.array([other[u] for u in both])))
    corrected = correct_holm([each.t_p for each in found])
    for test, again, p in zip(told, found, corrected, strict=True):
        assert test.difference == pytest.approx(again.difference, rel=1e-9)
        assert test.p_t == pytest.approx(float(p), rel=1e-6, abs=1e-300)
        assert (test.better, test.worse, test.n_users) == (again.better, again.worse, again.n)
