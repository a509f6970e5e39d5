"""The time left to a fit, on a clock that the test moves."""

import pytest

from csrr._base import threads
from csrr._base.threads import TimeUpError, cut_off, limit_time, seconds_left


class Clock:
    now = 100.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(threads, "time", found)
    return found


def test_what_is_left_never_grows(clock):
    assert seconds_left() is None
    with limit_time(10):
        clock.now += 4
        assert (seconds_left(), seconds_left(0.5)) == (6, 3)
        with limit_time(60):
            assert seconds_left() == 6
        with limit_time(2):
            assert seconds_left() == 2
        with limit_time(None):
            assert seconds_left() == 6
        clock.now += 40
        assert seconds_left() == 0
    assert seconds_left() is None


@pytest.mark.parametrize("n", [1, 3])
def test_ranges_are_cut_off(clock, monkeypatch, n):
    monkeypatch.setattr(threads, "available_cores", lambda: 4)
    done = []

    def work(start, stop):
        done.append(start)
        clock.now += 1

    with threads.use_threads(n), cut_off(2.5), pytest.raises(TimeUpError):
        threads.map_ranges(work, range(101))
    assert 3 <= len(done) <= 3 + n
    threads.map_ranges(work, range(101))
    assert len(done) >= 103


def test_without_a_limit_nothing_is_cut_off(clock):
    with cut_off(None):
        clock.now += 1e9
        assert threads.map_ranges(lambda a, b: a, range(4)) == [0, 1, 2]
