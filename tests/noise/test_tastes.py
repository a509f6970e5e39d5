import numpy as np
import pytest

import csrr
from csrr.data.synthetic import NOISE, SPECIFIC
from csrr.noise.scores import ISOLATED, LEAST_OTHERS, OWN
from csrr_paper.noise_experiment import auc

BY_RULE = {"reg_low_rank": "noise", "neighbors": 0}


@pytest.fixture(scope="module")
def made():
    return csrr.synthetic(800, 300, events_per_user=30, specific=0.1, noise=0.1, seed=3)


@pytest.fixture(scope="module")
def model(made):
    return csrr.CSRR(**BY_RULE, threads=1).fit(made.log)


@pytest.fixture(scope="module")
def judged(made, model):
    """The kinds, the support and the truth of all entries of V, each of shape (n,)."""
    log = made.log
    truth = dict(zip(zip(log.user_rows.tolist(), log.item_rows.tolist(), strict=True), made.truth, strict=True))
    kinds, support, why = [], [], []
    for user in np.flatnonzero(np.diff(model.specific_.indptr)).tolist():
        own = model.specific_preferences(user)
        kinds += own.kinds.tolist()
        support += own.support.tolist()
        why += [truth[user, item] for item in own.items.tolist()]
    return np.array(kinds), np.array(support), np.array(why)


def test_planted_tastes_are_told_from_planted_noise(judged):
    kinds, support, why = judged
    planted = (why != 0) & ~np.isnan(support)
    assert (why == SPECIFIC).sum() > 30
    assert (why == NOISE).sum() > 30
    assert auc(support[planted], why[planted] == SPECIFIC) > 0.85
    decided = (kinds != "unclear") & (why != 0)
    assert decided.sum() > 0.6 * (why != 0).sum()
    right = (kinds == "own taste") == (why == SPECIFIC)
    assert right[decided & (why == SPECIFIC)].mean() > 0.8
    assert right[decided & (why == NOISE)].mean() > 0.8


def test_kinds_follow_from_support(judged):
    kinds, support, _ = judged
    assert set(kinds) == {"own taste", "isolated", "unclear"}
    known = ~np.isnan(support)
    assert ((kinds == "own taste") == (known & (support >= OWN))).all()
    assert ((kinds == "isolated") == (known & (support < ISOLATED))).all()


def test_support_is_spread_evenly_over_items_drawn_at_random(model):
    chance = model.tastes().chance
    assert len(chance) > 5000
    assert (np.diff(chance) >= 0).all()
    assert chance[0] >= -1 - 1e-9
    assert chance[-1] <= 1 + 1e-9


def test_a_users_own_share_in_an_item_is_taken_out_of_it(made):
    log = made.log
    model = csrr.CSRR(
        **BY_RULE, reg_sparse=0.5, user_scaling=0, item_scaling=0, dtype="float64", tol=1e-8, max_iter=1000
    )
    tastes = model.fit(log).tastes()
    whole = np.zeros_like(tastes.items)
    for user in range(log.n_users):
        mine = slice(tastes.pattern.indptr[user], tastes.pattern.indptr[user + 1])
        whole[tastes.pattern.indices[mine]] += tastes.entered[mine, None] * (tastes.users[user] @ tastes.inverse)
    error = np.linalg.norm(whole - tastes.items) / np.linalg.norm(tastes.items)
    assert error < 0.01  # the shares of all users make up the item
    mine = slice(*tastes.pattern.indptr[7:9])
    items, directions = tastes._select_own(7)
    others = whole[items] - tastes.entered[mine, None] * (tastes.users[7] @ tastes.inverse)
    np.testing.assert_allclose(directions, others / np.linalg.norm(others, axis=1, keepdims=True), atol=0.01)
    with_mine = whole[items] / np.linalg.norm(whole[items], axis=1, keepdims=True)
    assert np.abs(directions - with_mine).max() > 0.02


def test_entries_are_those_of_v_and_the_words_say_what_is_not_known(made, model):
    user = int(np.argmax(np.diff(model.specific_.indptr)))
    own = model.specific_preferences(user)
    row = model.specific_[[user]].tocsr()
    assert dict(zip(own.items.tolist(), own.amounts.tolist(), strict=True)) == dict(
        zip(row.indices.tolist(), row.data.tolist(), strict=True)
    )
    assert (np.diff(own.amounts) <= 0).all()
    first = own.rows()[0]
    assert list(first) == ["item", "title", "amount", "kind", "support"]
    assert first["title"] == made.log.title(first["item"])
    assert f"{(own.kinds == 'unclear').sum()} unclear" in str(own)
    assert "new interest" in str(own)
    assert own.to_frame()["kind"].tolist() == own.kinds.tolist()


def test_what_cannot_be_judged_is_unclear():
    clicks = {"user": ["a"] * 8 + ["b"] * 8 + ["c", "c"], "item": [*range(8), *range(4, 12), 0, 99]}
    model = csrr.CSRR(**BY_RULE, reg_sparse=0.2, threads=1).fit(clicks)
    few = model.specific_preferences("c")  # two choices leave one to compare with
    rare = model.specific_preferences("a")  # nobody else, or one other, chose these
    for own in (few, rare):
        assert len(own)
        assert set(own.kinds) == {"unclear"}
        assert np.isnan(own.support).all()
        assert own.rows()[0]["support"] is None
    assert LEAST_OTHERS > 2


def test_a_new_fit_is_judged_anew_and_a_saved_model_alike(made, tmp_path):
    model = csrr.CSRR(**BY_RULE, threads=1).fit(made.log)
    users = np.flatnonzero(np.diff(model.specific_.indptr))[:20].tolist()
    before = [model.specific_preferences(user).rows() for user in users]
    model.save(tmp_path / "m.csrr")
    again = csrr.load(tmp_path / "m.csrr")
    assert [again.specific_preferences(user).rows() for user in users] == before
    kept = model.tastes()
    assert model.tastes() is kept
    model.fit(made.log)
    assert model.tastes() is not kept
