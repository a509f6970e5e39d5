from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import csrr
from csrr.data.columns import parse_time, scale_to_seconds

pytestmark = pytest.mark.usefixtures("empty_data_dir")

SECONDS = [1_599_999_600, 1_600_000_000]  # 2020-09-13 12:20:00 and 12:26:40 UTC
STAMPS = [datetime.fromtimestamp(each, UTC) for each in SECONDS]
BERLIN = timezone(timedelta(hours=2))
NAIVE = [each.replace(tzinfo=None) for each in STAMPS]

SAME = {
    "seconds": SECONDS,
    "seconds as floats": [float(each) for each in SECONDS],
    "milliseconds": [each * 10**3 for each in SECONDS],
    "milliseconds as floats": [each * 1e3 for each in SECONDS],
    "microseconds": [each * 10**6 for each in SECONDS],
    "nanoseconds": [each * 10**9 for each in SECONDS],
    "nanoseconds of numpy": np.array(SECONDS) * 10**9,
    "unsigned": np.array(SECONDS, np.uint64) * np.uint64(10**9),
    "ISO": ["2020-09-13T12:20:00", "2020-09-13 12:26:40"],
    "ISO in UTC": ["2020-09-13T12:20:00Z", "2020-09-13T12:26:40Z"],
    "ISO with blanks": [" 2020-09-13T12:20:00Z", "2020-09-13T12:26:40Z "],
    "ISO with zones": ["2020-09-13T14:20:00+02:00", "2020-09-13T12:26:40Z"],
    "texts of milliseconds": [f"{each}000" for each in SECONDS],
    "texts of seconds and ISO": [str(SECONDS[0]), "2020-09-13T12:26:40Z"],
    "datetimes": NAIVE,
    "datetimes with a zone": [each.astimezone(BERLIN) for each in STAMPS],
    "datetime64": np.array(NAIVE, "datetime64[ns]"),
    "a list of datetime64": [np.datetime64(each) for each in NAIVE],
    "datetime64 in minutes and seconds": [np.datetime64("2020-09-13T12:20"), np.datetime64("2020-09-13T12:26:40")],
    "pandas": pd.Series(NAIVE),
    "pandas with a zone": pd.Series(STAMPS).dt.tz_convert("Europe/Berlin"),
    "polars": pl.Series(NAIVE),
    "arrow": pa.array(NAIVE, pa.timestamp("ms")),
    "arrow with a zone": pa.array(STAMPS, pa.timestamp("ns", "Europe/Berlin")),
}


@pytest.mark.parametrize("kind", SAME)
def test_all_times_end_on_one_axis(kind):
    log = csrr.read({"user": [1, 2], "item": [1, 1], "time": SAME[kind]})
    assert log.times.tolist() == SECONDS
    train, test = csrr.split(log, at="2020-09-13 12:25")
    assert (train.times.tolist(), test.times.tolist()) == (SECONDS[:1], SECONDS[1:])
    assert csrr.read(log.to_arrow()) == log


@pytest.mark.parametrize("kind", ["seconds", "milliseconds", "nanoseconds", "ISO", "ISO with zones"])
def test_times_in_text_files(write, kind):
    lines = "".join(f"{place},1,{time}\n" for place, time in enumerate(SAME[kind]))
    assert csrr.read(write("e.csv", f"user,item,timestamp\n{lines}")).times.tolist() == SECONDS


@pytest.mark.parametrize(
    "dates",
    [
        [date(2020, 9, 13), date(2020, 9, 14)],
        ["2020-09-13", "2020-09-14"],
        ["20200913", "20200914"],
        [20200913, 20200914],
        [20200913.0, 20200914.0],
        [date(2020, 9, 13), datetime(2020, 9, 14)],
        np.array(["2020-09-13", "2020-09-14"], "datetime64[D]"),
        [np.datetime64("2020-09-13"), np.datetime64("2020-09-14")],
        np.array(["2020-09-13T00", "2020-09-14T00"], "datetime64[h]"),
        pa.array([date(2020, 9, 13), date(2020, 9, 14)], pa.date64()),
    ],
)
def test_dates(dates):
    log = csrr.read({"user": [1, 2], "item": [1, 1], "date": dates})
    assert log.times.tolist() == [1_599_955_200, 1_600_041_600]


def test_a_date_among_datetimes_takes_no_time_of_day_away():
    log = csrr.read({"user": [1, 2], "item": [1, 1], "date": [date(2020, 9, 13), NAIVE[1]]})
    assert log.times.tolist() == [1_599_955_200, SECONDS[1]]


@given(st.dates(date(1900, 1, 1), date(2100, 12, 31)))
def test_numbers_that_are_dates(day):
    number = day.year * 10_000 + day.month * 100 + day.day
    assert parse_time(number) == parse_time(day)
    for other in (day.year * 10_000 + day.month * 100, day.year * 10_000 + 1300 + day.day, number + 0.5):
        assert scale_to_seconds(np.array([number, other])).tolist() == [number, other]


def test_integers_in_seconds_stay_integers():
    assert csrr.read({"user": [1], "item": [1], "time": [7]}).times.dtype == np.int64
    assert csrr.read({"user": [1], "item": [1], "time": [7 * 10**12]}).times.dtype == np.float64


def test_one_date_in_the_far_future_is_no_unit():
    forever = [*SECONDS, 253_402_214_400]  # 9999-12-31
    assert scale_to_seconds(np.array(forever)).tolist() == forever
    assert scale_to_seconds(np.array([each * 1000 for each in forever])).tolist() == forever


def test_a_time_to_split_at_is_in_any_unit():
    assert parse_time(SECONDS[1]) == parse_time(SECONDS[1] * 10**3) == parse_time(SECONDS[1] * 10**9) == SECONDS[1]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9))
def test_scaling_keeps_the_order_and_is_done_once(numbers):
    scaled = scale_to_seconds(np.array(numbers))
    ordered = scaled[np.argsort(numbers, kind="stable")]
    assert (ordered[1:] >= ordered[:-1]).all()
    assert scale_to_seconds(scaled).tolist() == scaled.tolist()


def test_a_number_that_is_too_large():
    with pytest.raises(csrr.DataError, match="column 'time', row 2: 9223372036854775808 is not a time"):
        csrr.read({"user": [1, 2], "item": [1, 1], "time": np.array([1, 2**63], np.uint64)})


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (["2020-13-01", "2020-01-01"], "row 1: '2020-13-01' is not a time: give a number, a datetime or text like"),
        (["2020-01-01", ""], "row 2: '' is not a time"),
        ([1.0, float("inf")], "row 2: an infinite time; correct it, or pass on_bad_rows='skip'"),
        ([1, None], "row 2: the value is missing"),
    ],
)
def test_bad_times(times, words):
    table = {"user": [1, 2], "item": [1, 1], "time": times}
    with pytest.raises(csrr.DataError) as caught:
        csrr.read(table)
    assert words in str(caught.value)
    with pytest.warns(csrr.DataWarning, match="skipped 1 of 2 rows"):
        assert len(csrr.read(table, on_bad_rows="skip")) == 1
