"""A short run of each attack, always the same cases; `python -m fuzz` runs long ones."""

import subprocess
import sys

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


WITHOUT_POLARS = """
import sys
sys.modules["polars"] = None  # as if it were not installed
from fuzz.runner import draw, try_case
from fuzz.tables import Tables
tables = Tables()
tables.prepare()
cases = [case for case in (draw(tables, 7, number) for number in range(300)) if b'"view": "polars"' in case]
print(tables.left_out, len(cases) > 3, [what for what in (try_case(tables, case) for case in cases) if what])
"""


def test_tables_are_tried_where_polars_is_missing():
    told = subprocess.run([sys.executable, "-c", WITHOUT_POLARS], capture_output=True, text=True, check=True)
    assert told.stdout == "polars True []\n"
