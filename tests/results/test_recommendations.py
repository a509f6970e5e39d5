import json

import numpy as np
import pytest

from csrr.data.ids import IdMap
from csrr.results.recommendations import Neighbors, Recommendations

ITEMS = IdMap([10, 20, 30])
TITLES = np.array(["Heat", None, "Alien"], object)
INF = np.inf


def make(rows, items=ITEMS, titles=None, users=("ann", "bob")):
    rows = np.array(rows, np.int32)
    scores = np.where(rows < 0, -INF, 3.0 - np.arange(rows.shape[1])).astype(np.float32)
    return Recommendations.from_rows(np.array(users, object), rows, scores, items, titles)


def test_items_keep_the_callers_integers():
    recs = make([[2, 0], [1, 2]])
    assert recs.items.dtype == np.int64
    assert recs.items.tolist() == [[30, 10], [20, 30]]
    assert recs.titles is None
    assert len(recs) == recs.k == 2


def test_short_lists_end_in_none():
    recs = make([[2, 0], [1, -1]], titles=TITLES)
    assert recs.items.tolist() == [[30, 10], [20, None]]
    assert recs.titles.tolist() == [["Alien", "Heat"], [None, None]]
    assert [type(item) for item in recs.items[0]] == [int, int]


def test_text_ids():
    recs = make([[1, -1], [0, 1]], items=IdMap(["a", "b"]))
    assert recs.items.tolist() == [["b", None], ["a", "b"]]


def test_rows_and_tables_leave_the_padding_out():
    recs = make([[2, 0], [1, -1]], titles=TITLES)
    expected = [
        {"user": "ann", "item": 30, "rank": 1, "score": 3.0, "title": "Alien"},
        {"user": "ann", "item": 10, "rank": 2, "score": 2.0, "title": "Heat"},
        {"user": "bob", "item": 20, "rank": 1, "score": 3.0, "title": None},
    ]
    assert list(recs.rows()) == expected
    assert recs.to_arrow().to_pylist() == expected
    frame = recs.to_frame()
    assert list(frame.columns) == ["user", "item", "rank", "score", "title"]
    assert frame["item"].dtype == np.int64
    assert frame["item"].tolist() == [30, 10, 20]
    assert list(make([[0, 1], [1, 2]]).to_frame().columns) == ["user", "item", "rank", "score"]


def test_a_user_is_a_list_of_one():
    recs = make([[2, 0], [1, 2]], titles=TITLES)
    assert recs[1].users.tolist() == recs[-1].users.tolist() == ["bob"]
    assert recs[1].items.tolist() == [[20, 30]]
    assert [one.users[0] for one in recs] == ["ann", "bob"]
    assert recs[:1].titles.tolist() == [["Alien", "Heat"]]
    with pytest.raises(IndexError):
        recs[2]


def test_what_looks_like_ids_and_scores_is_not_unpacked():
    recs = make([[2, 0], [1, 2]])
    with pytest.raises(TypeError, match=r"not a pair of ids and scores\. Take result\.items and result\.scores"):
        _ids, _scores = recs
    with pytest.raises(TypeError, match="not a pair"):
        [scores for ids, scores in recs]
    first, second = list(recs)
    assert (len(first), len(second)) == (1, 1)


def test_repr_is_a_small_table():
    text = repr(make([[2, 0], [1, -1]], titles=TITLES))
    assert text.splitlines() == [
        "Recommendations: 2 users, k = 2",
        "user  item  rank   score  title",
        "ann     30     1  3.0000  Alien",
        "ann     10     2  2.0000  Heat",
        "bob     20     1  3.0000",
    ]
    long = make([[0] * 100] * 2)
    assert len(repr(long).splitlines()) == 13
    assert repr(long).endswith("... 190 more")
    assert "1 user," in repr(long[0])


@pytest.mark.parametrize("rows", [np.empty((2, 0)), np.full((2, 3), -1)])
def test_nothing_to_recommend(rows):
    recs = make(rows, titles=TITLES)
    assert list(recs.rows()) == []
    assert recs.to_frame().empty
    assert repr(recs).startswith("Recommendations: 2 users")


def test_neighbours():
    near = Neighbors(10, np.array([20, 30]), np.array([0.5, 0.25], np.float32), TITLES[1:])
    assert len(near) == 2
    assert near.to_frame().columns.tolist() == ["id", "score", "title"]
    assert repr(near).splitlines() == [
        "Neighbors of 10",
        "id   score  title",
        "20  0.5000",
        "30  0.2500  Alien",
    ]


def test_plain_values_are_fit_for_json():
    recs = make([[2, 0], [1, -1]], titles=TITLES, users=(7, 9))
    rows = json.loads(json.dumps(recs.to_list(), allow_nan=False))
    assert rows == list(recs.rows())
    by_user = recs.to_dict()
    assert json.loads(json.dumps(by_user, allow_nan=False)) == {str(user): rows for user, rows in by_user.items()}
    assert by_user == {
        7: [
            {"item": 30, "rank": 1, "score": 3.0, "title": "Alien"},
            {"item": 10, "rank": 2, "score": 2.0, "title": "Heat"},
        ],
        9: [{"item": 20, "rank": 1, "score": 3.0, "title": None}],
    }
    for values in (*rows, *recs.rows(), *recs[0].to_list()):
        assert {type(value) for value in values.values()} <= {int, float, str, type(None)}


def test_lists_by_user_keep_who_has_none_and_who_is_asked_for_twice():
    recs = make([[2, 0], [-1, -1], [2, 0]], users=("ann", "bob", "ann"))
    assert {user: [row["item"] for row in rows] for user, rows in recs.to_dict().items()} == {
        "ann": [30, 10],
        "bob": [],
    }
