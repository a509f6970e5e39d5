"""A short run of each attack, always the same cases; `python -m fuzz` runs long ones."""

import pytest

from fuzz.campaigns import CAMPAIGNS
from fuzz.runner import draw, try_case

CASES = {"fits": 60, "tables": 400}
"""How many cases of a campaign are tried here."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_nothing_is_found(name):
    campaign = CAMPAIGNS[name]
    campaign.prepare()
    for number in range(CASES[name]):
        assert try_case(campaign, draw(campaign, 7, number)) is None, f"python -m fuzz {name} --seed 7: case {number}"
