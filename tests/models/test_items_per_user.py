"""Candidates, exclusions and what was seen, given for each user in any form."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

import csrr
from csrr import ParameterError, UnknownIdError, UnknownIdWarning

USERS = [3, 1, 40]
OWN = {1: [54, 7, 8, 9], 3: [29, 2], 40: [0, 1, 2, 3, 59]}


@pytest.fixture(scope="module")
def model(log):
    return csrr.EASE(reg=10).fit(log)


@pytest.fixture(scope="module")
def texts(named):
    return csrr.EASE(reg=10).fit(named)


def table(own):
    pairs = [(user, item) for user, items in own.items() for item in items]
    return {"user": [user for user, _ in pairs], "item": [item for _, item in pairs]}


def matrix(own, users, n_items=60):
    dense = np.zeros((len(users), n_items), bool)
    for place, user in enumerate(users):
        dense[place, own.get(user, [])] = True
    return sparse.csr_array(dense)


FORMS = {
    "dict": lambda own: own,
    "dict of arrays": lambda own: {user: np.array(items) for user, items in own.items()},
    "dict of sets": lambda own: {user: set(items) for user, items in own.items()},
    "pandas": lambda own: pd.DataFrame(table(own)),
    "pandas, more columns": lambda own: pd.DataFrame(table(own)).assign(count=0, price=9.9),
    "polars": lambda own: pl.DataFrame(table(own)),
    "arrow": lambda own: pa.table(table(own)),
    "log": lambda own: csrr.Log.from_table(table(own)),
    "rows of those asked for": lambda own: matrix(own, USERS),
    "rows of the model's": lambda own: matrix(own, range(80)),
    "coo matrix": lambda own: sparse.coo_matrix(matrix(own, USERS).astype(float)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_candidates_is_that_of_each_user_alone(model, form):
    recs = model.recommend(USERS, k=10, candidates=FORMS[form](OWN), exclude_seen=False)
    assert recs.k == 5
    for user, items, scores in zip(USERS, recs.items, recs.scores, strict=True):
        alone = model.recommend(user, k=10, candidates=OWN[user], exclude_seen=False)
        assert [item for item in items if item is not None] == alone.items[0].tolist()
        np.testing.assert_array_equal(scores[scores > -np.inf], alone.scores[0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["exclude", "exclude_seen"])
def test_every_form_of_what_is_left_out(model, form, name):
    recs = model.recommend(USERS, k=60, **({"exclude_seen": False} | {name: FORMS[form](OWN)}))
    for user, items in zip(USERS, recs.items, strict=True):
        assert {item for item in items if item is not None} == set(range(60)) - set(OWN[user])


def test_what_was_seen_lately_is_left_out_beside_what_is_known(model, log):
    recs = model.recommend(USERS, k=60, exclude=OWN)
    for user, items in zip(USERS, recs.items, strict=True):
        left = set(range(60)) - set(OWN[user]) - set(log.history(user).tolist())
        assert {item for item in items if item is not None} == left


def test_users_are_not_taken_for_items(model):
    recs = model.recommend([1, 3], candidates={1: [54], 3: [29]}, exclude_seen=False)
    assert recs.items.tolist() == [[54], [29]]


def test_who_is_not_named_has_none(model):
    recs = model.recommend([1, 2], k=3, candidates={1: [5, 6, 7]}, exclude_seen=False)
    assert set(recs.items[0]) == {5, 6, 7}
    assert recs.items[1].tolist() == [None] * 3
    everything = model.recommend(2, k=60, exclude={1: [5]}, exclude_seen=False)
    assert set(everything.items[0]) == set(range(60))
    assert model.recommend([1, 2], candidates={}).k == 0


def test_a_user_may_be_asked_for_twice_and_all_at_once(model):
    twice = model.recommend([3, 1, 3], k=2, candidates=OWN, exclude_seen=False)
    assert twice.items[0].tolist() == twice.items[2].tolist()
    everyone = model.recommend(k=2, candidates=matrix(OWN, range(80)), exclude_seen=False)
    assert everyone.items[3].tolist() == twice.items[0].tolist()
    assert everyone.items[50].tolist() == [None, None]


def test_ids_of_text(texts):
    recs = texts.recommend(["Zoë 005", "Zoë 001"], candidates={"Zoë 001": [-100], "Zoë 005": 5}, exclude_seen=False)
    assert recs.items.tolist() == [[5], [-100]]


def test_candidates_for_all_in_any_form(model):
    expected = model.recommend(3, k=4, candidates=[4, 5, 6, 7]).items.tolist()
    forms = ({4, 5, 6, 7}, range(4, 8), np.arange(4, 8), pd.Series([4, 5, 6, 7]), pl.Series([4, 5, 6, 7]))
    more = (pa.array([4, 5, 6, 7]), (4, 5, 6, 7), {4: 0, 5: 0, 6: 0, 7: 0}.keys(), csrr.IdMap([4, 5, 6, 7]))
    for form in (*forms, *more, (each for each in (4, 5, 6, 7))):
        assert model.recommend(3, k=4, candidates=form).items.tolist() == expected


def test_new_people_have_their_own_too(model):
    people = model.fold_in({"user": ["x", "x", "y"], "item": [1, 2, 3]})
    recs = people.recommend(5, candidates={"x": [10, 1], "y": [20, 21]}, exclude={"y": [21]})
    assert recs.items.tolist() == [[10, None], [20, None]]
    recs = model.fold_in([[1], [2]]).recommend(2, candidates=sparse.csr_array(np.eye(2, 60)), exclude_seen=False)
    assert recs.items.tolist() == [[0], [1]]
    assert model.recommend_for([1], 3, candidates={0: [7]}).items.tolist() == [[7]]
    with pytest.raises(UnknownIdError, match="candidates: unknown user id: 'z'"):
        people.recommend(candidates={"z": [1]})


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_wishes_are_those_of_each_alone(model, seed):
    rng = np.random.default_rng(seed)
    users = rng.permutation(80)[: rng.integers(1, 6)].tolist()
    allowed, out = ({u: rng.permutation(60)[: rng.integers(0, 60)].tolist() for u in users} for _ in range(2))
    recs = model.recommend(users, k=8, candidates=allowed, exclude=out)
    for place, user in enumerate(users):
        alone = model.recommend(user, k=8, candidates=allowed[user], exclude=out[user]).items[0]
        found = recs.items[place]
        assert [i for i in found if i is not None] == [i for i in alone if i is not None]


@pytest.mark.parametrize("threads", [1, 2])
def test_many_candidates_among_many_items(threads):
    rng = np.random.default_rng(0)
    log = csrr.Log.from_matrix(rng.random((50, 3000)) < 0.02)
    model = csrr.WRMF(rank=4, reg=1.0, max_iter=2).fit(log)
    stock = rng.permutation(3000)[:1500]
    recs = model.recommend(k=20, candidates=stock, threads=threads)
    scores = model.score(np.arange(50))
    scores[:, np.setdiff1d(np.arange(3000), stock)] = -np.inf
    scores[log.to_csr().toarray() > 0] = -np.inf
    np.testing.assert_array_equal(recs.items, np.argsort(-scores, axis=1, kind="stable")[:, :20])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            [[1, 2], [3]],
            ParameterError,
            "candidates: a list of lists does not say whose they are; give a dict from users",
        ),
        (np.ones((2, 3)), ParameterError, r"an array of shape \(2, 3\) is not a list of item ids"),
        ({1: None}, ParameterError, "what is given for user 1 is not a list of item ids: None"),
        ({1: {2: 3.0}}, ParameterError, "what is given for user 1 is not a list of item ids"),
        ({999: [1]}, UnknownIdError, "candidates: unknown user id: 999; unknown='ignore' gives unknown users"),
        ({1: [999]}, UnknownIdError, "candidates: unknown item id: 999; unknown='ignore' leaves out"),
        (
            {"user": [1], "item": [2]},
            UnknownIdError,
            "a dict gives items by user: for a dict of columns, csrr.Log.from",
        ),
        (pd.DataFrame({"item": [1]}), csrr.DataError, "user"),
        (sparse.csr_array((2, 59)), ParameterError, r"the matrix has shape \(2, 59\); it must be \(2, 60\), a row for"),
        (sparse.csr_array((3, 60)), ParameterError, r"or \(80, 60\), a row for each of the model's"),
    ],
)
def test_what_makes_no_sense(model, given, error, message):
    with pytest.raises(error, match=message):
        model.recommend([1, 3], candidates=given)


def test_a_matrix_whose_rows_could_be_either_is_refused(model):
    with pytest.raises(ParameterError, match="it is not clear whether they are in the model's order"):
        model.recommend(range(79, -1, -1), exclude=sparse.csr_array((80, 60)))


@pytest.mark.parametrize("seen", [[1, 2], "yes", None, 3.5])
def test_what_was_seen_is_told_for_each_or_not_at_all(model, seen):
    with pytest.raises(ParameterError, match=r"exclude_seen=.* must be True, False, a dict from users to items"):
        model.recommend(1, exclude_seen=seen)


def test_strangers_among_those_named_are_counted_when_they_are_ignored(model):
    with pytest.warns(UnknownIdWarning, match="1 of 3 in the users of exclude, 1 of 4 in exclude$"):
        recs = model.recommend([1], k=60, exclude={1: [5, 999], 2: [6], 777: [7]}, exclude_seen=False, unknown="ignore")
    assert {item for item in recs.items[0] if item is not None} == set(range(60)) - {5}
