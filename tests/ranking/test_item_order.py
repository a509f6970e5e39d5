import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csrr.ranking.item_order import ItemOrder, count_recent


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
    items, times = np.array([0, 0, 1, 2], np.int32), np.array([0, 100, 90, 80])
    np.testing.assert_allclose(count_recent(items, times, 4), [1 + 2**-10, 1 / 2, 1 / 4, 0])


@pytest.mark.parametrize("times", [[7, 7, 7], [0.5, 0.5, 0.5]])
def test_events_at_one_time_count_alike(times):
    assert count_recent(np.array([0, 1, 1], np.int32), np.array(times), 3).tolist() == [1, 2, 0]


def test_no_events_are_no_popularity():
    assert count_recent(np.empty(0, np.int32), np.empty(0, np.int64), 2).tolist() == [0, 0]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-(10**6), 10**6)), min_size=1, max_size=40),
    st.integers(1, 1000),
    st.integers(-(10**6), 10**6),
)
def test_the_unit_and_the_beginning_of_time_do_not_matter(events, unit, shift):
    items, times = np.array(events, np.int64).T
    found = count_recent(items.astype(np.int32), times, 6)
    np.testing.assert_allclose(count_recent(items.astype(np.int32), times * unit + shift, 6), found, rtol=1e-9)
    counts = np.bincount(items, minlength=6)
    assert (found <= counts).all()
    assert (found >= counts * 2.0**-10 * (1 - 1e-12)).all()
