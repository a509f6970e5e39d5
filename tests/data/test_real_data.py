"""Counts of the public data sets; skipped for those that are not in CSRR_DATA_DIR."""

import os

import pytest

from csrr.data.read import read, read_split
from csrr.data.sources import locate
from csrr.data.split import split


def available(name):
    if "CSRR_DATA_DIR" not in os.environ or locate(name) is None:
        pytest.skip(f"{name} is not in CSRR_DATA_DIR")
    return name


@pytest.mark.parametrize(
    ("name", "min_rating", "users", "items", "events"),
    [
        ("ml-100k", None, 943, 1_682, 100_000),
        ("ml-100k", 3, 943, 1_574, 82_520),
        ("ml-100k", 4, 942, 1_447, 55_375),
        ("ml-1m", None, 6_040, 3_706, 1_000_209),
        ("ml-1m", 3, 6_039, 3_628, 836_478),
        ("ml-1m", 4, 6_038, 3_533, 575_281),
        ("eachmovie", None, 5_055, 1_619, 1_009_402),
        ("eachmovie", 4, 5_054, 1_597, 665_799),
        ("gowalla", None, 29_858, 40_981, 1_027_370),
        ("lastfm", None, 1_892, 17_632, 92_834),
    ],
)
def test_counts(name, min_rating, users, items, events):
    log = read(available(name), min_rating=min_rating)
    assert (log.n_users, log.n_items, len(log)) == (users, items, events)
    assert log.user_counts().min() > 0
    assert log.item_counts().min() > 0


@pytest.mark.parametrize(
    ("name", "item", "title"),
    [
        ("ml-100k", 1, "Toy Story (1995)"),
        ("ml-100k", 543, "Misérables, Les (1995)"),
        ("ml-1m", 73, "Misérables, Les (1995)"),
        ("eachmovie", 2, "Jumanji"),
        ("lastfm", 1, "MALICE MIZER"),
    ],
)
def test_titles(name, item, title):
    log = read(available(name))
    assert log.title(log.items.row(item)) == title
    assert all(log.titles)


def test_times_and_weights():
    log = read(available("ml-100k"))
    row = int((log.user_rows == log.users.row(196)).argmax())
    event = log.select((log.user_rows == log.user_rows[row]) & (log.item_rows == log.items.row(242)))
    assert event.times.tolist() == [881250949]
    plays = read(available("lastfm"))
    assert plays.history(2)[0] == 51
    assert plays.weights[0] == 13883


def test_the_published_split_of_gowalla():
    train, test = read_split(available("gowalla"))
    assert (len(train), len(test)) == (810_128, 217_242)
    assert train.users == test.users
    assert train.users.identity


def test_the_split_of_ml_1m():
    train, test = split(read(available("ml-1m"), min_rating=3))
    assert len(train) + len(test) == 836_478
    assert len(train) / 836_478 == pytest.approx(0.8, abs=0.001)
