import json
import logging

import numpy as np
import pytest

from csrr.data import DataError, as_log, split, synthetic
from csrr.experiments import evaluate
from csrr.models.popularity import PopRank
from csrr.models.recommender import NotFittedError
from tests.reference import metrics as reference

EVERY_METRIC = ("precision", "recall", "f1", "ndcg", "list_ndcg")
TRAIN = {"user": ["u", "u", "v", "w", "w"], "item": [1, 2, 1, 3, 4]}


@pytest.fixture(scope="module")
def parts():
    return split(synthetic(120, 60, rank=4, events_per_user=9).log, ratio=0.7, seed=1)


@pytest.fixture(scope="module")
def model(parts):
    return PopRank().fit(parts[0])


def naive(model, train, test, k):
    """Return the metrics at k of each user with test items, by user id."""
    found = {}
    for user in model.users_:
        relevant = set(test.history(user).tolist())
        if relevant:
            ranked = reference.best_items(model.score(user)[0], k, set(train.history(user).tolist()))
            found[user] = reference.metrics(ranked, relevant, k)
    return found


def test_evaluate_equals_the_naive_loop(model, parts):
    found = evaluate(model, *parts, at=(3, 10), metrics=EVERY_METRIC)
    for k in (3, 10):
        expected = naive(model, *parts, k)
        assert found.users.tolist() == list(expected)
        for name in EVERY_METRIC:
            values = [of_user[name] for of_user in expected.values()]
            np.testing.assert_allclose(found.per_user[f"{name}@{k}"], values, rtol=1e-12)
            assert found[f"{name}@{k}"] == pytest.approx(np.mean(values), rel=1e-12)
            assert found[f"{name}@{k}"] > 0


def test_hand_written_fractions():
    model = PopRank().fit(TRAIN)  # popularity: item 1 has 2 users, items 2, 3 and 4 have 1
    test = {"user": ["u", "v", "v"], "item": [4, 2, 3]}
    found = evaluate(model, TRAIN, test, at=2)  # lists: u gets 3, 4; v gets 2, 3
    assert found.at == (2,)
    assert found.per_user["precision@2"].tolist() == [1 / 2, 1]
    assert found.per_user["recall@2"].tolist() == [1, 1]
    assert found.per_user["f1@2"] == pytest.approx([2 / 3, 1])
    assert found.per_user["ndcg@2"] == pytest.approx([1 / np.log2(3), 1])
    assert found["f1_of_means@2"] == pytest.approx(2 * 0.75 / 1.75)
    assert (found.n_users, found.n_left_out) == (2, 1)


def test_users_without_test_items_are_left_out_and_counted(model, parts):
    train, test = parts
    some = test.select(test.user_rows >= 100)
    found = evaluate(model, train, some)
    assert found.users.min() >= 100
    assert found.n_users + found.n_left_out == 120
    with pytest.raises(DataError, match="nothing to evaluate"):
        evaluate(model, train, some, users=[0, 1])


def test_some_users(model, parts):
    everyone, some = evaluate(model, *parts), evaluate(model, *parts, users=[7, 3, 7])
    assert some.users.tolist() == [3, 7]
    assert evaluate(model, *parts, users=7).users.tolist() == [7]
    for name, values in some.per_user.items():
        assert values.tolist() == everyone.per_user[name][np.isin(everyone.users, [3, 7])].tolist()


def test_threads_do_not_change_the_values(model, parts):
    one, two = (evaluate(model, *parts, threads=threads) for threads in (1, 2))
    assert one.means == two.means


def test_logs_with_other_row_numbers_are_mapped_by_id(model, parts):
    frames = [part.to_frame().sample(frac=1, random_state=0) for part in parts]
    assert as_log(frames[1]).items != model.items_
    assert evaluate(model, *frames).means == evaluate(model, *parts).means


def test_an_item_of_train_is_in_no_list():
    model = PopRank().fit(TRAIN)
    more = {"user": [*TRAIN["user"], "u"], "item": [*TRAIN["item"], 3]}
    test = {"user": ["u"], "item": [4]}
    assert evaluate(model, TRAIN, test, at=1)["recall@1"] == 0
    assert evaluate(model, more, test, at=1)["recall@1"] == 1


def test_test_events_of_train_are_not_asked_for(caplog):
    model = PopRank().fit(TRAIN)
    test = {"user": ["u", "u", "w"], "item": [1, 3, 3]}
    with caplog.at_level(logging.WARNING, logger="csrr"):
        found = evaluate(model, TRAIN, test, at=2)
    assert "2 of 3 test events are in train too" in caplog.text
    assert found.users.tolist() == ["u"]
    assert found["recall@2"] == 1


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (TRAIN, {"user": ["x"], "item": [1]}, "test does not fit the model: unknown user id: 'x'"),
        (TRAIN, {"user": ["u"], "item": [9]}, "test does not fit the model: unknown item id: 9"),
        ({"user": ["u"], "item": [9]}, TRAIN, "train does not fit the model: unknown item id: 9"),
        (TRAIN, 3, "cannot use a int as data"),
    ],
)
def test_unknown_ids(train, test, message):
    with pytest.raises(DataError, match=message):
        evaluate(PopRank().fit(TRAIN), train, test, at=1)


@pytest.mark.parametrize("at", [0, -1, (5, 61), (5, 2.0), (True,), (), ("5",), "5", 2.5, None])
def test_bad_at_is_named(model, parts, at):
    with pytest.raises(ValueError, match="at="):
        evaluate(model, *parts, at=at)


def test_bad_metrics_are_named(model, parts):
    with pytest.raises(ValueError, match="choose from precision, recall"):
        evaluate(model, *parts, metrics=["map"])


def test_a_model_that_is_not_fitted(parts):
    with pytest.raises(NotFittedError):
        evaluate(PopRank(), *parts)


def test_tables_and_summary(model, parts):
    found = evaluate(model, *parts, at=(5, 10, 5))
    assert found.at == (5, 10)
    frame = found.to_frame()
    assert frame.columns[:3].tolist() == ["user", "precision@5", "precision@10"]
    assert frame["ndcg@10"].mean() == pytest.approx(found["ndcg@10"])
    summary = json.loads(json.dumps(found.summary()))
    assert summary["means"] == found.means
    assert summary["n_users"] == found.n_users
    lines = repr(found).splitlines()
    assert lines[0].startswith(f"Evaluation: mean over {found.n_users} users")
    assert lines[1].split() == ["@5", "@10"]
    assert lines[2].split() == ["precision", f"{found['precision@5']:.4f}", f"{found['precision@10']:.4f}"]
    with pytest.raises(KeyError, match="no metric 'ndcg@7'"):
        found["ndcg@7"]
