"""What an attack once broke stays mended."""

from pathlib import Path

import pytest

from fuzz.campaigns import CAMPAIGNS

FILES = sorted((Path(__file__).parents[2] / "fuzz" / "cases").glob("*.case"))


@pytest.fixture(scope="module")
def campaigns():
    """The campaigns by name, each prepared once."""
    prepared = {}

    def find(name):
        if name not in prepared:
            CAMPAIGNS[name].prepare()
            prepared[name] = CAMPAIGNS[name]
        return prepared[name]

    return find


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_case_that_once_failed_does_not(file, campaigns, tmp_path):
    campaigns(file.name.split("-")[0]).check(file.read_bytes(), tmp_path)
