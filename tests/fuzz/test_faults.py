"""A little of the attacks on processes; `python -m fuzz kills interrupts storage --seconds 600` is the whole."""

import json

import pytest

from fuzz.campaigns import CAMPAIGNS
from fuzz.runner import draw, try_case

pytest.importorskip("optuna")
pytest.importorskip("resource", reason="needs a POSIX system")

CASES = {
    "kills": [
        *({"what": "save", "ms": [ms]} for ms in (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)),
        {"what": "tune", "at": [0.3, 0.7]},
        {"what": "reproduce", "at": [0.5]},
    ],
    "storage": [
        *({"what": "save", "trouble": "full", "room": room} for room in (1, 100, 5000)),
        {"what": "tune", "trouble": "full", "room": 5},
        {"what": "tune", "trouble": "full", "room": 3000},
        {"what": "save", "trouble": "read-only"},
        *({"what": what, "trouble": "two"} for what in ("save", "tune", "reproduce")),
    ],
    "interrupts": [
        {"command": "recommend", "signal": "SIGINT", "at": 0.1, "twice": False},
        {"command": "recommend", "signal": "SIGTERM", "at": 0.4, "twice": False},
        {"command": "recommend", "signal": "SIGINT", "at": 0.7, "twice": True},
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_found(name):
    campaign = CAMPAIGNS[name]
    campaign.prepare()
    found = {str(each): try_case(campaign, json.dumps(each).encode()) for each in CASES[name]}
    assert {case: what for case, what in found.items() if what} == {}


@pytest.mark.parametrize("name", CASES)
def test_cases_can_be_drawn_again(name):
    campaign = CAMPAIGNS[name]
    assert draw(campaign, 0, 3) == draw(campaign, 0, 3)
    assert len({draw(campaign, 0, number) for number in range(20)}) > 5
