import json
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from scipy import sparse

import csrr
from csrr.models import base
from csrr.parameters import ParameterError

READERS = {
    "parquet": lambda path: parquet.read_table(path).to_pylist(),
    "csv": lambda path: csv.read_csv(path).to_pylist(),
    "jsonl": lambda path: [json.loads(line) for line in path.read_text().splitlines()],
    "arrow": lambda path: pa.ipc.open_file(path).read_all().to_pylist(),
}


@pytest.fixture(scope="module")
def model(log):
    return csrr.WRMF(4, max_iter=3).fit(log)


@pytest.fixture
def small_batches(monkeypatch):
    """About seven users of five items in a batch."""
    monkeypatch.setattr(base, "BATCH_ROWS", 35)


def expected_rows(model, *args, **options):
    return model.recommend(*args, **options).to_list()


@pytest.mark.parametrize("suffix", READERS)
def test_a_file_of_batches_holds_the_lists_of_all(model, tmp_path, small_batches, suffix):
    path, told = tmp_path / f"recs.{suffix}", []
    written = model.recommend_to(path, k=5, callback=told.append)
    rows = READERS[suffix](path)
    assert written == (str(path), 80, 400, 5, 0)
    assert told == [*range(7, 80, 7), 80]
    expected = expected_rows(model, k=5)
    assert [(row["user"], row["item"], row["rank"], row["title"]) for row in rows] == [
        (row["user"], row["item"], row["rank"], row["title"]) for row in expected
    ]
    assert [row["score"] for row in rows] == pytest.approx([row["score"] for row in expected], abs=1e-5)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", READERS)
def test_ids_of_text_and_what_recommend_takes(named, tmp_path, small_batches, suffix):
    model = csrr.PopRank().fit(named)
    users, only = named.users.ids[[70, 3, 3]].tolist(), named.items.ids[:9].tolist()
    model.recommend_to(tmp_path / f"recs.{suffix}", users, 5, candidates=only, exclude_seen=False)
    rows = READERS[suffix](tmp_path / f"recs.{suffix}")
    assert rows == expected_rows(model, users, 5, candidates=only, exclude_seen=False)
    assert [row["user"] for row in rows[::5]] == users


def test_types_hold_in_batches_where_nothing_is_left(model, tmp_path, small_batches):
    low = float(np.sort(model.recommend(k=1).scores.ravel())[-3])
    model.recommend_to(tmp_path / "recs.parquet", k=5, min_score=low)
    table = parquet.read_table(tmp_path / "recs.parquet")
    assert table.schema.names == ["user", "item", "rank", "score", "title"]
    assert table.schema.types == [pa.int64(), pa.int64(), pa.int64(), pa.float32(), pa.string()]
    assert table.to_pylist() == expected_rows(model, k=5, min_score=low)
    assert 3 <= len(table) < 80


def test_probabilities_are_a_column(log, tmp_path):
    train, heldout = csrr.split(log)
    model = csrr.WRMF(4, max_iter=3).fit(train)
    model.calibrate(heldout)
    model.recommend_to(tmp_path / "recs.parquet", k=3)
    assert parquet.read_table(tmp_path / "recs.parquet").to_pylist() == expected_rows(model, k=3)


def test_nobody_gives_an_empty_table(model, tmp_path):
    assert model.recommend_to(tmp_path / "recs.parquet", users=[]).n_users == 0
    assert parquet.read_table(tmp_path / "recs.parquet").schema.names[:2] == ["user", "item"]


@pytest.mark.parametrize("suffix", READERS)
def test_an_interruption_leaves_the_file_as_it_was(model, tmp_path, small_batches, suffix):
    path = tmp_path / f"recs.{suffix}"
    path.write_bytes(b"before")

    def stop(n_users):
        if n_users > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.recommend_to(path, k=5, callback=stop)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_is_said_before_anything_is_computed(model, tmp_path):
    with pytest.raises(ParameterError, match=r"recs.xlsx: the name must end in .parquet, .csv, .jsonl, .arrow"):
        model.recommend_to(tmp_path / "recs.xlsx")
    with pytest.raises(csrr.UnknownIdError, match="unknown user id: 999"):
        model.recommend_to(tmp_path / "recs.csv", users=[1, 999])
    with pytest.raises(TypeError, match="sorted"):
        model.recommend_to(tmp_path / "recs.csv", sorted=True)
    with pytest.raises(ParameterError, match="batch_users=0"):
        model.recommend_batches(batch_users=0)
    with pytest.raises(csrr.NotFittedError):
        csrr.PopRank().recommend_to(tmp_path / "recs.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_spreadsheet_runs_no_formula(tmp_path):
    model = csrr.PopRank().fit({"user": ["=1+1", "b"], "item": ["@x", "y"]})
    model.recommend_to(tmp_path / "recs.csv", spreadsheet=True)
    model.recommend_to(tmp_path / "recs.parquet", spreadsheet=True)
    assert [row["user"] for row in READERS["csv"](tmp_path / "recs.csv")] == ["'=1+1", "b"]
    assert [row["user"] for row in READERS["parquet"](tmp_path / "recs.parquet")] == ["=1+1", "b"]


def test_batches_are_those_of_recommend(model):
    expected = model.recommend([5, 9, 7], 4, exclude=[3]).items.tolist()
    for users in ([5, 9, 7], np.array([5, 9, 7]), pd.Series([5, 9, 7], index=[3, 4, 5]), pa.array([5, 9, 7])):
        batches = list(model.recommend_batches(users, 4, batch_users=2, exclude=[3]))
        assert [len(recs) for recs in batches] == [2, 1]
        assert [items for recs in batches for items in recs.items.tolist()] == expected


def test_memory_does_not_grow_with_the_users(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "BATCH_ROWS", 500)

    def peak(n_users):
        model = csrr.PopRank().fit(csrr.synthetic(n_users, 50, rank=2, events_per_user=3).log)
        model.recommend_to(tmp_path / "recs.parquet", users=[0, 1], k=5)
        tracemalloc.start()
        model.recommend_to(tmp_path / "recs.parquet", k=5, exclude_seen=False)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    # How many events each user has is 8 bytes; a list of five items would be more than 100.
    assert (peak(8500) - peak(500)) / 8000 < 20


def test_a_matrix_with_a_row_for_each_user_goes_in_parts(log):
    class Recording(csrr.PopRank):
        def recommend(self, users, k, **options):
            told.append((users.tolist(), options))
            return super().recommend(users, k)

    told, model = [], Recording().fit(log)
    mine = sparse.random_array((5, 60), density=0.2, rng=0)
    list(
        model.recommend_batches(
            np.array([9, 3, 5, 7, 1]), 4, batch_users=2, exclude=mine, other=[1], every=log.to_csr()
        )
    )
    assert [users for users, _ in told] == [[9, 3], [5, 7], [1]]
    assert sparse.vstack([options["exclude"] for _, options in told]).toarray().tolist() == mine.toarray().tolist()
    assert all(options["other"] == [1] and options["every"].shape == (80, 60) for _, options in told)


def test_who_got_what_is_popular_is_said_once_and_in_a_column(tmp_path, small_batches):
    clicks = csrr.synthetic(30, 40, rank=3, events_per_user=8).log.to_csr().tolil()
    clicks[[2, 29]] = 0
    model = csrr.WRMF(3, max_iter=2).fit(csrr.Log.from_matrix(clicks.tocsr()))
    with pytest.warns(csrr.NoHistoryWarning, match="^2 of 30 users have no history") as told:
        written = model.recommend_to(tmp_path / "recs.parquet", k=5)
    assert (len(told), written.n_fallback) == (1, 2)
    table = parquet.read_table(tmp_path / "recs.parquet").to_pylist()
    assert {row["user"] for row in table if row["why"] == "popular"} == {2, 29}
    with pytest.warns(csrr.NoHistoryWarning):
        assert [row["item"] for row in table] == [row["item"] for row in expected_rows(model, k=5)]
    with pytest.warns(csrr.NoHistoryWarning):
        model.recommend_to(tmp_path / "recs.csv", [5, 999], 2, unknown="ignore")
    assert [row["why"] for row in READERS["csv"](tmp_path / "recs.csv")] == ["", "", "popular", "popular"]


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "arrow"])
def test_columns_of_the_item_table_are_written_as_they_are_shown(tmp_path, ending):
    log = csrr.synthetic(40, 32, events_per_user=8).log
    items = {
        "item": range(30),
        "genre": ["a|b", "c", None] * 10,
        "price": np.arange(30) / 4,
        "stock": [True, False] * 15,
    }
    model = csrr.PopRank().fit(log).set_items(items | {"year": range(1990, 2020)})
    columns = ["genre", "price", "stock", "year"]
    model.recommend_to(tmp_path / f"lists.{ending}", k=5, columns=columns)
    found = READERS[ending](tmp_path / f"lists.{ending}")
    shown = model.recommend(None, k=5, columns=columns).to_arrow().to_pylist()
    assert [list(row) for row in found] == [list(row) for row in shown]
    for name in columns:
        # CSV has no None: an empty text is read for one.
        assert [row[name] or None for row in found] == [row[name] or None for row in shown]
