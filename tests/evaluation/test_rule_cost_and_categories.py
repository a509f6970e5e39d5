"""What rules cost, and lists by category: against what can be counted by hand."""

import json

import numpy as np
import pytest

import csrr
from csrr.evaluation.evaluate import measure_rule_cost
from csrr.evaluation.statistics import compute_mean_interval

pytestmark = pytest.mark.filterwarnings("ignore::csrr.NoHistoryWarning")


@pytest.fixture(scope="module")
def parts():
    return csrr.split(csrr.synthetic(80, 60, rank=4, events_per_user=12).log, seed=0)


@pytest.fixture(scope="module")
def items():
    genres = np.array(["Indie", "RPG", "Indie|RPG", None], object)
    return {"item": np.arange(60), "genre": genres[np.arange(60) % 4], "maker": [f"m{i % 5}" for i in range(60)]}


@pytest.fixture(scope="module")
def model(parts, items):
    return csrr.EASE(reg=10.0).fit(parts[0]).set_items(items)


@pytest.mark.parametrize(
    "rules",
    [
        {"diversity": 0.4},
        {"at_most": {"genre": 3}},
        {"where": {"maker": ["m1", "m2"]}},
        {"boost": {"genre": {"RPG": 3.0}}, "at_least": {"maker": {"m0": 2}}},
    ],
)
def test_lists_are_those_of_recommend_with_and_without_the_rules(model, parts, rules):
    train, test = parts
    names = ("ndcg", "recall", "diversity", "long_tail", "coverage")
    found = csrr.evaluate(model, train, test, at=(3, 8), rules=rules, metrics=names)
    plain = csrr.evaluate(model, train, test, at=(3, 8), metrics=names)
    np.testing.assert_array_equal(found.hits, mark(model.recommend(found.users, 8, **rules), test))
    np.testing.assert_array_equal(found.without_rules.hits, plain.hits)
    assert found.without_rules.means == plain.means
    cost = found.rule_cost
    assert cost["metric"].tolist() == list(plain.per_user)
    for place, name in enumerate(cost["metric"]):
        change = found.per_user[name] - plain.per_user[name]
        np.testing.assert_allclose(cost["difference"][place], np.nanmean(change), atol=1e-12)
        np.testing.assert_allclose((cost["low"][place], cost["high"][place]), compute_mean_interval(change), atol=1e-12)
    assert "What the rules change" in repr(found)
    assert "ndcg@8" in repr(cost)
    json.dumps(found.summary())
    assert [row["metric"] for row in found.summary()["rule_cost"]] == cost["metric"].tolist()


def mark(recs, test):
    """Which places of lists hold a test event, one by one."""
    have = {user: set(test.history(user).tolist()) for user in recs.users.tolist()}
    return np.array(
        [[item in have[user] for item in row] for user, row in zip(recs.users.tolist(), recs.items, strict=True)]
    )


def test_without_rules_nothing_is_said_of_them(model, parts):
    found = csrr.evaluate(model, *parts, at=5)
    assert found.rule_cost is None
    assert found.without_rules is None
    assert "rule" not in repr(found)
    assert "rule_cost" not in found.summary()


def test_people_without_a_history_follow_the_rules_too(parts, items):
    train, test = parts
    kept = train.select(train.user_rows != 4)
    model = csrr.EASE(reg=10.0).fit(kept).set_items(items)
    rules = {"where": {"maker": "m1"}, "boost": {11: 1e9}}
    found = csrr.evaluate(model, kept, test, at=4, rules=rules)
    assert found.by_history.keys() == {"with", "without"}
    np.testing.assert_array_equal(found.hits, mark(model.recommend(found.users, 4, **rules), test))


def test_shares_by_category_are_those_counted_one_by_one(model, parts, items):
    train, test = parts
    evaluated = csrr.evaluate(model, train, test, at=5, by="genre")
    found = evaluated.by_category
    sets = [set((text or "").split("|")) - {""} for text in items["genre"]]
    lists = model.recommend(evaluated.users, 5).items.ravel()

    def share(chosen, name):
        return np.mean([1 / len(sets[item]) if name in sets[item] else 0 for item in chosen])

    for place, name in enumerate(found["genre"]):
        assert found["items"][place] == sum(name in each for each in sets)
        np.testing.assert_allclose(found["train"][place], share(train.item_rows, name))
        np.testing.assert_allclose(found["test"][place], share(test.item_rows, name))
        np.testing.assert_allclose(found["lists"][place], share(lists, name))
        asked = [(u, i) for u, i in zip(test.user_rows, test.item_rows, strict=True) if name in sets[i]]
        hits = sum(i in model.recommend(int(u), 5).items[0] for u, i in asked)
        np.testing.assert_allclose(found["recall"][place], hits / len(asked))
    assert set(found["genre"]) == {"Indie", "RPG"}
    assert (np.diff(found["train"]) <= 0).all()
    assert "By genre" in repr(found)
    assert found.to_frame().columns.tolist() == ["genre", "items", "train", "test", "lists", "recall"]


def test_of_many_categories_the_largest_are_shown(parts):
    items = {"item": np.arange(60), "maker": [f"m{i}" for i in range(60)]}
    found = csrr.evaluate(csrr.PopRank().fit(parts[0]), *parts, at=5, by="maker", items=items).by_category
    assert len(found.table()) == 60
    assert len(repr(found).splitlines()) == 22
    assert "(first 20 of 60)" in repr(found)


def test_a_table_may_come_with_the_evaluation_and_leaves_the_model_as_it_was(parts, items):
    model = csrr.PopRank().fit(parts[0])
    found = csrr.evaluate(model, *parts, at=5, by="maker", items=items, rules={"at_most": {"maker": 1}})
    assert len(found.by_category) == 5
    np.testing.assert_allclose(found.by_category["lists"], 0.2)
    assert model.item_table_ is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"by": "nope"}, csrr.DataError, "no column 'nope'"),
        ({"rules": {"diversity": 3}}, csrr.ParameterError, "diversity=3"),
        ({"rules": {"nope": 3}}, TypeError, "rules has no parameter 'nope'; it has: where, boost"),
        (
            {"rules": {"at_least": {"maker": {"m1": 6}}}},
            csrr.ParameterError,
            "asks for 6 items in all, and lists have 5",
        ),
        ({"metrics": ["variety"]}, csrr.ParameterError, "diversity, long_tail"),
    ],
)
def test_what_makes_no_sense_is_refused(model, parts, options, error, message):
    with pytest.raises(error, match=message):
        csrr.evaluate(model, *parts, at=5, **options)


def test_the_cost_of_a_single_user_has_no_interval():
    cost = measure_rule_cost({"ndcg@5": np.array([0.5])}, {"ndcg@5": np.array([0.25])})
    assert cost["difference"][0] == -0.25
    assert np.isnan(cost["low"][0])
    assert "-0.2500" in repr(cost)
