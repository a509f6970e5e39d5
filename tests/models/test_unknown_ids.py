"""Ids that a model does not know: an error that names the way out, or left out and counted."""

import warnings

import numpy as np
import pytest

import csrr
from csrr import NoHistoryWarning, ParameterError, UnknownIdError, UnknownIdWarning
from csrr.registry import MODELS
from tests.in_order import suit


@pytest.fixture(scope="module")
def model(log):
    return csrr.CSRR(reg_low_rank=0.2, neighbors=0).fit(log)


@pytest.fixture(scope="module")
def texts(named):
    return csrr.EASE(reg=10).fit(named)


def test_by_default_it_is_an_error_that_names_the_option(model):
    for ask in (
        lambda: model.recommend(999),
        lambda: model.recommend(1, candidates=[1, 999]),
        lambda: model.recommend(1, exclude=[999]),
        lambda: model.recommend_for([1, 999]),
        lambda: model.fold_in([[1], [999]]),
        lambda: model.fold_in({"user": [1], "item": [999]}),
        lambda: model.similar_items(999),
        lambda: model.similar_users(999),
    ):
        with pytest.raises(UnknownIdError, match=r"unknown (item|user) id: 999; unknown='ignore' (leaves|gives)"):
            ask()


@pytest.mark.parametrize("unknown", ["popular", "drop", None, True])
def test_another_word_is_refused(model, unknown):
    for ask in (model.recommend, lambda **o: model.recommend_for([1], **o), lambda **o: model.similar_items(1, **o)):
        with pytest.raises(ParameterError, match=r'unknown=.* must be "raise", "ignore" or "mark"'):
            ask(unknown=unknown)


def test_unknown_items_are_left_out_and_counted_once(model):
    with pytest.warns(UnknownIdWarning) as told:
        recs = model.recommend([1, 2], k=5, candidates=[3, 4, 5, 777, 999], exclude=[4, 888], unknown="ignore")
    assert len(told) == 1
    assert str(told[0].message) == "unknown ids were left out: 2 of 5 in candidates, 1 of 2 in exclude"
    assert told[0].filename == __file__
    expected = model.recommend([1, 2], k=5, candidates=[3, 4, 5], exclude=[4])
    np.testing.assert_array_equal(recs.items, expected.items)


def test_nothing_is_said_where_all_are_known(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.recommend([1, 2], candidates=[3, 4, 5], exclude=[4], unknown="ignore")
        model.recommend_for([1, 2], unknown="ignore")
        model.similar_items(1, unknown="ignore")


@pytest.mark.parametrize("kind", MODELS.values())
def test_an_unknown_user_gets_what_is_popular(kind, log):
    model = kind().fit(suit(kind, log))
    with pytest.warns(NoHistoryWarning, match=r"^2 of 3 users have no history \(2 unknown\) and get popular items"):
        recs = model.recommend([777, 3, 999], k=5, unknown="ignore")
    assert recs.users.tolist() == [777, 3, 999]
    assert recs.fallback.tolist() == [True, False, True]
    popular = np.argsort(-log.item_counts(), kind="stable")[:5].tolist()
    assert recs.items[0].tolist() == recs.items[2].tolist() == popular
    np.testing.assert_array_equal(recs.items[1], model.recommend(3, k=5).items[0])


def test_an_unknown_user_may_have_candidates_of_their_own(model):
    with pytest.warns(NoHistoryWarning):
        recs = model.recommend([3, 999], candidates={999: [5], 3: [7]}, exclude_seen=False, unknown="ignore")
    assert recs.items.tolist() == [[7], [5]]


def test_users_of_another_type_are_unknown(texts):
    with pytest.warns(NoHistoryWarning, match="2 unknown"):
        recs = texts.recommend([1, 2], k=3, unknown="ignore")
    assert recs.users.tolist() == [1, 2]
    assert recs.fallback.all()


def test_users_of_both_types_may_be_asked_for(model):
    with pytest.warns(NoHistoryWarning, match="^1 of 2 users has no history .1 unknown"):
        recs = model.recommend([3, "bob"], k=2, exclude={3: [5]}, unknown="ignore")
    assert recs.users.tolist() == [3, "bob"]
    assert recs.fallback.tolist() == [False, True]
    with pytest.raises(csrr.DataError):
        model.recommend([3, "bob"])


def test_ids_of_both_types_are_told_apart(model, texts):
    with pytest.warns(UnknownIdWarning, match="1 of 3 in candidates"):
        recs = model.recommend(1, candidates=[3, "gift card", 4], exclude_seen=False, unknown="ignore")
    assert set(recs.items[0]) == {3, 4}
    with pytest.warns(UnknownIdWarning, match="1 of 2 in histories"):
        texts.fold_in([[-100, "x"]], unknown="ignore")


def test_a_history_does_without_what_is_unknown(model):
    with pytest.warns(UnknownIdWarning, match="2 of 5 in histories"):
        recs = model.recommend_for([1, 2, 888, 3, 999], 5, unknown="ignore")
    np.testing.assert_array_equal(recs.items, model.recommend_for([1, 2, 3], 5).items)
    with pytest.warns(UnknownIdWarning, match="1 of 3 in histories"):
        people = model.fold_in({"user": ["a", "a", "b"], "item": [1, 999, 2]}, unknown="ignore")
    np.testing.assert_array_equal(people.seen.toarray(), model.fold_in([[1], [2]]).seen.toarray())


def test_a_history_of_unknown_items_alone_is_an_empty_one(model, log):
    with pytest.warns(UnknownIdWarning), pytest.warns(NoHistoryWarning):
        recs = model.recommend_for([888, 999], 4, unknown="ignore")
    assert recs.items[0].tolist() == np.argsort(-log.item_counts(), kind="stable")[:4].tolist()
    assert recs.fallback.tolist() == [True]


@pytest.mark.parametrize("kind", [kind for kind in MODELS.values() if kind.can("similar_items")])
def test_nothing_is_like_an_unknown_item(kind, log):
    model = kind().fit(suit(kind, log))
    with pytest.warns(UnknownIdWarning, match="1 of 1 in the item asked for"):
        near = model.similar_items(999, unknown="ignore")
    assert len(near) == 0
    assert near.to_frame().empty


def test_nobody_is_like_an_unknown_user(model):
    with pytest.warns(UnknownIdWarning, match="1 of 1 in the user asked for"):
        assert len(model.similar_users(999, unknown="ignore")) == 0


def test_rows_of_ids_as_far_as_they_are_known():
    numbers, texts = csrr.IdMap([10, 20, 30]), csrr.IdMap(["a", "b"])
    assert numbers.find([30, 5, 10]).tolist() == [2, -1, 0]
    assert numbers.find(["10"]).tolist() == [-1]
    assert numbers.find([]).tolist() == []
    assert texts.find(["b", "c"]).tolist() == [1, -1]
    with pytest.raises(csrr.DataError, match="missing"):
        numbers.find([10, None])


def test_marked_users_have_a_status_and_nothing_warns(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recs = model.recommend([3, 999, 5], 4, exclude=[888], unknown="mark")
        alone = model.recommend_for([888], 4, unknown="mark", threads=1)
    assert recs.status.tolist() == ["known", "unknown", "known"]
    assert recs[1:2].status.tolist() == ["unknown"]
    assert alone.status.tolist() == ["no history"]
    np.testing.assert_array_equal(recs.items[[0, 2]], model.recommend([3, 5], 4).items)
    assert model.recommend([3]).status.tolist() == ["known"]
