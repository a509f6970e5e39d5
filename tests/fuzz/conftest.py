"""Campaigns that are ready; models that they register go with them."""

from functools import cache

import pytest

from csrr import registry
from fuzz.campaigns import CAMPAIGNS


@pytest.fixture(scope="package")
def ready():
    """Return a campaign by its name, prepared once."""
    before = dict(registry._added)

    @cache
    def prepare(name):
        CAMPAIGNS[name].prepare()
        return CAMPAIGNS[name]

    yield prepare
    registry._added.clear()
    registry._added.update(before)
