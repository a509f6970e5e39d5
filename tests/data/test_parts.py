"""A folder of Parquet files is the log of all their rows."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import csrr
from csrr.data import spread


def write_parts(table, folder, parts=3):
    for place in range(parts):
        a, b = (len(table) * each // parts for each in (place, place + 1))
        parquet.write_table(table.slice(a, b - a), folder / f"part-{place}.parquet", row_group_size=90)


@pytest.mark.parametrize("kind", ["texts", "numbers"])
def test_parts_make_the_log_of_all(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(spread, "PART_ROWS", 100)
    monkeypatch.setattr(spread, "BLOCK_ROWS", 150)
    rng = np.random.default_rng(0)
    user, item, rating = rng.integers(-50, 50, 1000), rng.integers(0, 40, 1000), rng.integers(1, 6, 1000)
    if kind == "texts":
        user, item = ([f"{name} {each}" for each in ids] for name, ids in (("ü", user), ("film", item)))
    # Few times, so that rows break ties.
    table = pa.table({"user": user, "movie": item, "rating": rating, "time": rng.integers(0, 9, 1000)})
    write_parts(table, tmp_path)
    log = csrr.read(tmp_path, min_rating=3)
    assert log == csrr.read(table, min_rating=3)
    np.testing.assert_array_equal(log.find_order(), csrr.read(table, min_rating=3).find_order())
    assert log.columns.n_repeats == csrr.read(table, min_rating=3).columns.n_repeats > 0


def test_parts_that_do_not_go_together(tmp_path, monkeypatch):
    write_parts(pa.table({"user": [1, 2, 3], "item": [1, 2, 3]}), tmp_path)
    parquet.write_table(pa.table({"user": ["a"], "item": [1]}), tmp_path / "part-9.parquet")
    with pytest.raises(csrr.DataError, match="columns of different types"):
        csrr.read(tmp_path)
    monkeypatch.setattr(spread, "PART_ROWS", 1)
    with pytest.raises(csrr.DataError, match="user ids are int64 in some files and large_string in others"):
        csrr.read(tmp_path)
    with pytest.raises(csrr.ParameterError, match="weight= is for one file"):
        csrr.read(tmp_path, weight="day")
    (tmp_path / "part-9.parquet").unlink()
    parquet.write_table(pa.table({"user": [1], "other": [1]}), tmp_path / "part-8.parquet")
    with pytest.raises(csrr.DataError, match="no column 'item', which other files have"):
        csrr.read(tmp_path)
    (tmp_path / "part-8.parquet").write_bytes(b"no")
    with pytest.raises(csrr.DataError, match="not a Parquet file"):
        csrr.read(tmp_path)
