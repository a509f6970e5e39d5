"""A short attack on the readers of item tables, the same cases every time."""

import pytest

from fuzz.item_files import ItemFiles
from fuzz.runner import draw, try_case


@pytest.fixture(scope="module")
def campaign():
    items = ItemFiles()
    items.prepare()
    return items


def test_the_readers_hold(campaign):
    for number in range(400):
        what = try_case(campaign, draw(campaign, 7, number))
        assert what is None, f"python -m fuzz items --seed 7 --cases {number + 1} finds this in case {number}:\n{what}"


@pytest.mark.parametrize("place", range(17))
def test_no_bomb_goes_off(campaign, place, tmp_path):
    (name, data) = campaign.bombs[place]
    campaign.check(b'{"name": "%s", "options": {}}\n' % name.encode() + data, tmp_path)
