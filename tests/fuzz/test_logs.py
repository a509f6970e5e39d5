"""A short attack on the readers, the same cases every time."""

import time

import numpy as np
import pyarrow as pa
import pytest

from fuzz.logs import Logs
from fuzz.runner import draw, try_case

SECONDS = 5


@pytest.fixture(scope="module")
def campaign():
    logs = Logs()
    logs.prepare()
    return logs


def test_the_readers_hold_for_a_while(campaign):
    end, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < end and number < 2000:
        case = draw(campaign, 0, number)
        what = try_case(campaign, case)
        assert what is None, f"python -m fuzz logs --cases {number + 1} finds this in case {number}:\n{what}"
        number += 1


@pytest.mark.parametrize("place", range(17))
def test_no_bomb_goes_off(campaign, place, tmp_path):
    (name, data) = campaign.bombs[place]
    campaign.check(b'{"name": "%s", "options": {}}\n' % name.encode() + data, tmp_path)


def test_a_case_is_the_same_every_time(campaign):
    for number in range(20):
        assert draw(campaign, 3, number) == draw(campaign, 3, number)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("ValueError('x')", "ValueError"),
        ("csrr.DataError('no file named')", "does not name the file"),
        ("csrr.DataError('log.csv' + 'x' * 3000)", "characters"),
    ],
)
def test_what_is_wrong_is_seen(campaign, monkeypatch, wrong, words):
    def fail(*_, **__):
        import csrr

        raise eval(wrong, {"csrr": csrr})

    monkeypatch.setattr("csrr.read", fail)
    assert words in try_case(campaign, b'{"name": "log.csv", "options": {}}\nuser,item\n1,2\n')


def test_memory_that_is_not_python_s_is_seen(campaign, monkeypatch):
    def hoard(path, **_):
        import csrr

        assert len(pa.array(np.ones(30 << 20)).cast(pa.float32()))
        raise csrr.DataError(path.name)

    monkeypatch.setattr("csrr.read", hoard)
    assert "bytes of memory, more than" in try_case(campaign, b'{"name": "log.csv", "options": {}}\n')
