"""What was printed hangs together: the numbers were copied right, and F is what the page says it is."""

import pytest

from csrr_paper.printed import (
    COLUMNS,
    DATA,
    PRINTED,
    PRINTED_ABLATION,
    PRINTED_SYSTEMS,
    PROTOCOLS,
    WITHOUT_V,
    name_metric,
)

ROWS = [(data, system) for data, rows in PRINTED.items() for system in rows]


@pytest.mark.parametrize(("data", "system"), ROWS)
@pytest.mark.parametrize("k", [5, 10])
def test_printed_f_is_the_harmonic_mean_of_printed_p_and_r(data, system, k):
    row = PRINTED[data][system]
    p, r = row[f"P@{k}"], row[f"R@{k}"]
    assert row[f"F@{k}"] == pytest.approx(2 * p * r / (p + r), rel=0.012)


def test_recall_rises_and_precision_falls_with_the_length():
    for data, system in ROWS:
        row = PRINTED[data][system]
        assert row["R@10"] > row["R@5"]
        assert row["P@10"] < row["P@5"]


def test_every_system_is_there_where_the_paper_has_it():
    assert set(PRINTED["ml-100k"]) == set(PRINTED["ml-1m"]) == set(PRINTED_SYSTEMS)
    assert set(PRINTED_SYSTEMS) - set(PRINTED["eachmovie"]) == {"CSRR-I", "CSRR-II"}
    assert PRINTED["ml-1m"]["CSRR-I"]["NDCG@15"] == 0.6716
    assert PRINTED["eachmovie"]["PopRank"]["R@5"] == 0.178


@pytest.mark.parametrize("data", PRINTED_ABLATION)
def test_the_ablation_repeats_the_big_table(data):
    whole = PRINTED[data]["CSRR-I"]
    assert PRINTED_ABLATION[data]["CSRR-I"] == {
        column: whole[column] for column in ("F@5", "F@15", "NDCG@5", "NDCG@15")
    }
    assert all(PRINTED_ABLATION[data][WITHOUT_V][c] < whole[c] for c in PRINTED_ABLATION[data][WITHOUT_V])


def test_columns_become_metrics():
    assert [name_metric(column, PROTOCOLS["numbers"]) for column in COLUMNS[::3]] == [
        *("recall@5", "precision@10", "f1_of_means@15", "list_ndcg@15")
    ]
    assert name_metric("NDCG@10", PROTOCOLS["text"]) == "ndcg@10"


def test_every_protocol_says_which_ratings_count():
    assert all(set(data.at_least) == set(PROTOCOLS) for data in DATA.values())
