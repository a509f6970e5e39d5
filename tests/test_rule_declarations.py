"""A rule is declared once: its options, documentation and values are read from there."""

import pytest

import csrr
from csrr.cli.cmd_evaluate import evaluate
from csrr.cli.cmd_recommend import recommend
from csrr.rules import RULES, RuleOptions

MODEL = csrr.PopRank().fit(csrr.synthetic(60, 40, events_per_user=10).log)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_known_everywhere_by_its_name(name):
    assert name in RuleOptions.__annotations__
    assert f"``{name}=" in RULES[name].meaning
    for command in (recommend, evaluate):
        shown = {option: param for param in command.params for option in param.opts}
        for option in RULES[name].options:
            assert (shown[option.flag].name, shown[option.flag].help) == (option.name, option.help)
    assert (
        RULES[name].read({option.name: () if option.repeated else None for option in RULES[name].options}, str) is None
    )


def test_no_two_options_have_a_name():
    names = [option.name for rule in RULES.values() for option in rule.options]
    assert len(names) == len(set(names))
    assert [option.flag for option in RULES["fresh"].options] == ["--fresh", "--fresh-by", "--fresh-factor"]


def test_an_unknown_rule_is_told_of_all():
    with pytest.raises(csrr.ParameterError, match=", ".join(RULES)):
        csrr.evaluate(MODEL, MODEL.training_log(), MODEL.training_log(), rules={"cheap": True})


def test_none_is_no_rule():
    plain = MODEL.recommend([3], k=5)
    assert MODEL.recommend([3], k=5, **dict.fromkeys(RULES)).items.tolist() == plain.items.tolist()


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        (
            ("price<=20", "price>=5", "genre=RPG, Indie", "in_stock=true"),
            {"price": (5, 20), "genre": ["RPG", "Indie"], "in_stock": True},
        ),
        (("year=2000",), {"year": 2000}),
    ],
)
def test_conditions_of_the_command_line(texts, value):
    assert RULES["where"].read({"where": texts}, str) == value


def test_items_of_the_command_line_are_read_as_ids():
    assert RULES["boost"].read({"boost": ("item:7=2", "genre:RPG=1.5")}, int) == {7: 2.0, "genre": {"RPG": 1.5}}
