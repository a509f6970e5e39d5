import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csrr.ranking.topk import ItemOrder, count_recent


def test_the_most_popular_come_first_then_by_the_next_measure_then_by_row():
    order = ItemOrder.by_popularity(np.array([1, 3, 1, 3, 1]), np.array([5, 1, 9, 2, 5]))
    assert order.items.tolist() == [3, 1, 2, 0, 4]
    assert order.places.tolist() == [3, 1, 2, 0, 4]
    assert ItemOrder.by_row(3).items.tolist() == ItemOrder.by_row(3).places.tolist() == [0, 1, 2]


@given(st.lists(st.integers(0, 4), max_size=30))
def test_places_are_where_the_items_are(popularity):
    order = ItemOrder.by_popularity(np.array(popularity, float))
    assert order.items[order.places].tolist() == list(range(len(popularity)))
    assert order.items.tolist() == sorted(range(len(popularity)), key=lambda item: (-popularity[item], item))


def test_an_event_a_tenth_of_the_time_earlier_counts_half():
    items, times = np.arange(4), np.array([0, 90, 80, 100])
    np.testing.assert_allclose(count_recent(np.zeros(4, int), items, times, 5), [2**-10, 1 / 2, 1 / 4, 1, 0])


@pytest.mark.parametrize(
    ("items_of_last_users", "half_lives"),
    [(20, 0), (30, 10)],
    ids=["what was popular long ago is chosen again", "what is popular of late is chosen"],
)
def test_the_last_events_choose_how_much_recent_ones_count(items_of_last_users, half_lives):
    """Of 100 moments, the first 60 have 180 clicks on items 20..29, the next 20 have 150 on items 30..39."""
    spread = [np.arange(180) // 3, 60 + np.arange(150) * 20 // 150, 80 + np.arange(90) * 20 // 90]
    firsts, moments = (20, 30, items_of_last_users), np.concatenate(spread)
    items = np.concatenate([first + np.arange(len(each)) % 10 for first, each in zip(firsts, spread, strict=True)])
    users = np.arange(len(items), dtype=np.int32)
    found = count_recent(users, items, moments, 40)
    ages = 99 - moments
    np.testing.assert_allclose(found, np.bincount(items, 0.5 ** (half_lives * ages / 99), minlength=40))


@pytest.mark.parametrize("times", [[7, 7, 7], [0.5, 0.5, 0.5]])
def test_events_at_one_time_count_alike(times):
    assert count_recent(np.array([0, 1, 2]), np.array([0, 1, 1], np.int32), np.array(times), 3).tolist() == [1, 2, 0]


def test_no_events_are_no_popularity():
    assert count_recent(*np.empty((2, 0), np.int32), np.empty(0, np.int64), 2).tolist() == [0, 0]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-(10**6), 10**6)), min_size=1, max_size=40),
    st.integers(1, 1000),
    st.integers(-(10**6), 10**6),
)
def test_the_unit_and_the_beginning_of_time_do_not_matter(events, unit, shift):
    items, times = np.array(events, np.int64).T
    users, items = np.arange(len(items)) % 3, items.astype(np.int32)
    found = count_recent(users, items, times, 6)
    np.testing.assert_allclose(count_recent(users, items, times * unit + shift, 6), found, rtol=1e-9)
    counts = np.bincount(items, minlength=6)
    assert (found <= counts).all()
    assert (found >= counts * 2.0**-10 * (1 - 1e-12)).all()
