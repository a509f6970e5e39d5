"""Dataclasses from plain values and back: nothing is lost, and what does not fit is named with its place."""

import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

from csrr._base.text import to_plain
from csrr.data.errors import DataError
from csrr.report.charts import read_dataclass


@dataclass(frozen=True)
class Leaf:
    size: float = math.nan
    color: Literal["green", "red"] = "green"


@dataclass(frozen=True)
class Tree:
    name: str
    age: int | None = None
    evergreen: bool = False
    leaves: list[Leaf] = field(default_factory=list)
    by_season: dict[str, Leaf] = field(default_factory=dict)
    notes: list[dict[str, Any]] = field(default_factory=list)


TREE = Tree("oak", 90, False, [Leaf(2.5, "red"), Leaf(3.0)], {"spring": Leaf(1.0)}, [{"any": [1, "thing"]}])


def test_a_dataclass_comes_back_as_it_was():
    plain = json.loads(json.dumps(to_plain(TREE), allow_nan=False))
    assert plain["leaves"][0] == {"size": 2.5, "color": "red"}
    assert read_dataclass(Tree, plain, "tree") == TREE


def test_what_is_missing_or_null_has_its_default_and_what_is_not_asked_for_is_passed_over():
    assert read_dataclass(Tree, {"name": "oak", "age": None, "leaves": None, "owner": 3}, "tree") == Tree("oak")


def test_numbers_that_json_has_not_are_null():
    assert to_plain([Leaf(math.nan), Leaf(math.inf)]) == [{"size": None, "color": "green"}] * 2
    assert math.isnan(read_dataclass(Leaf, {"size": None}, "leaf").size)


@pytest.mark.parametrize("value", [3, np.int64(3), np.float32(3), 3.0])
def test_a_number_of_any_kind_is_a_float(value):
    found = read_dataclass(Leaf, {"size": value}, "leaf").size
    assert (found, type(found)) == (3.0, float)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (3, "tree: it should be an object, and is 3 (int)"),
        ({}, "tree: 'name' is missing"),
        ({"name": 3}, "tree, name: it should be text, and is 3 (int)"),
        ({"name": "oak", "age": 1.5}, "tree, age: it should be a whole number, and is 1.5 (float)"),
        ({"name": "oak", "age": True}, "tree, age: it should be a whole number, and is True (bool)"),
        ({"name": "oak", "evergreen": 1}, "tree, evergreen: it should be true or false, and is 1 (int)"),
        ({"name": "oak", "leaves": {}}, "tree, leaves: it should be a list, and is {} (dict)"),
        (
            {"name": "oak", "leaves": [{}, {"size": "2"}]},
            "tree, leaves 2, size: it should be a number, and is '2' (str)",
        ),
        ({"name": "oak", "by_season": []}, "tree, by_season: it should be an object, and is [] (list)"),
        (
            {"name": "oak", "by_season": {"fall": {"color": "x"}}},
            "tree, by_season, fall, color: 'x' is none of green",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(plain, message):
    with pytest.raises(DataError) as error:
        read_dataclass(Tree, plain, "tree")
    assert str(error.value).startswith(message)
