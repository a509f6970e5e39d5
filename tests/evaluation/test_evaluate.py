import json
import logging

import numpy as np
import pytest
from scipy import stats

import csrr
from csrr.data.errors import DataError
from csrr.data.log import as_log
from csrr.data.split import split
from csrr.data.synthetic import synthetic
from csrr.evaluation.evaluate import evaluate
from csrr.evaluation.statistics import combine_f1
from csrr.models.ease import EASE
from csrr.models.estimator import NotFittedError
from csrr.models.popularity import PopRank
from csrr.ranking.metrics import list_metrics
from tests.reference import metrics as reference

EVERY_METRIC = ("precision", "recall", "f1", "ndcg", "list_ndcg", "map", "mrr", "hit_rate")
CELLS = ("cell_recall", "specificity", "sum", "cost")
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


def test_all_metrics_come_from_one_pass_as_they_come_alone(parts):
    model = EASE().fit(parts[0])
    blocks = []
    score_rows = model.score_rows
    model.score_rows = lambda rows: blocks.append(len(rows)) or score_rows(rows)
    found = evaluate(model, *parts, at=(3, 10), metrics=list_metrics(), threshold=0.1, positive_cost=0.7)
    assert sum(blocks) == found.n_users
    for name in list_metrics():
        alone = evaluate(model, *parts, at=(3, 10), metrics=[name], threshold=0.1, positive_cost=0.7)
        assert alone.means == {each: found[each] for each in alone.means}
        assert {each.split("@")[0] for each in alone.means} == {name}


def test_metrics_of_items_and_cells_equal_the_naive_loop(parts):
    train, test = parts
    model = EASE().fit(train)
    found = evaluate(model, train, test, at=(4, 9), metrics=list_metrics(), threshold=0.15, positive_cost=0.8)
    histories = [set(train.history(user).tolist()) for user in model.users_]
    lists, counts = [], []
    for place, user in enumerate(found.users.tolist()):
        scores, seen, relevant = model.score(user)[0], histories[user], set(test.history(user).tolist())
        lists.append(reference.best_items(scores, 4, seen))
        counts.append(reference.cells(scores, relevant, seen, 0.15))
        assert found.per_user["auc"][place] == pytest.approx(reference.auc(scores, relevant, seen))
        ranks = [1 + sum(scores[i] > scores[j] for i in range(60) if i not in seen) for j in relevant]
        assert found.per_user["full_mrr"][place] == pytest.approx(1 / min(ranks))
        assert found.per_user["novelty@4"][place] == pytest.approx(reference.novelty(lists[-1], 4, histories))
    assert found["coverage@4"] == reference.coverage(lists, 4, 60)
    positives, missed, negatives, false = np.array(counts, float).T
    assert 0 < missed.sum() < positives.sum()
    assert 0 < false.sum() < negatives.sum()
    recall, specificity = 1 - missed / positives, 1 - false / negatives
    np.testing.assert_allclose(found.per_user["sum"], 0.8 * recall + 0.2 * specificity)
    np.testing.assert_allclose(found.per_user["cost"], 0.8 * missed + 0.2 * false)
    assert found["cell_recall"] == pytest.approx(1 - missed.sum() / positives.sum())
    assert found["cell_recall"] != pytest.approx(recall.mean(), rel=1e-3)
    assert found["specificity"] == pytest.approx(1 - false.sum() / negatives.sum())
    assert found["sum"] == pytest.approx(0.8 * found["cell_recall"] + 0.2 * found["specificity"])
    assert found["cost"] == pytest.approx(0.8 * missed.sum() + 0.2 * false.sum())


def test_ties_go_by_item_row_in_lists_and_half_in_auc():
    model = PopRank().fit(TRAIN)  # items 2, 3 and 4 tie
    found = evaluate(model, TRAIN, {"user": ["v"], "item": [3]}, at=(1, 2), metrics=["mrr", "auc"])
    assert (found["mrr@1"], found["mrr@2"], found["auc"]) == (0, 1 / 2, 1 / 2)


def test_intervals_cover_as_often_as_they_say(parts):
    """Over many samples of users, the 90 % interval holds the value of all users about nine times in ten."""
    model = EASE().fit(parts[0])
    names = ("precision@5", "f1_of_means@5", "auc", *CELLS[:3])
    truth = evaluate(model, *parts, at=5, metrics=list_metrics(), threshold=0.1)
    rng = np.random.default_rng(0)
    held = dict.fromkeys(names, 0)
    for _ in range(100):
        some = evaluate(
            model, *parts, at=5, metrics=list_metrics(), threshold=0.1, users=rng.permutation(truth.users)[:12]
        )
        for name in names:
            # Sampling without replacement leaves a share 1 - 12/n of the variance.
            low, high = some.interval(name, 0.9)
            half = (high - low) / 2 * np.sqrt(1 - some.n_users / truth.n_users)
            held[name] += abs(some[name] - truth[name]) <= half
    assert all(80 <= n <= 97 for n in held.values()), held


def test_an_interval_is_students_t_about_the_mean(model, parts):
    found = evaluate(model, *parts, metrics=list_metrics())
    for name in ("ndcg@10", "auc", "novelty@5"):
        values = found.per_user[name]
        expected = stats.t.interval(0.9, len(values) - 1, values.mean(), stats.sem(values))
        assert found.interval(name, 0.9) == pytest.approx(expected, rel=1e-12)
    for name in ("f1_of_means@5", *CELLS):
        low, high = found.interval(name)
        assert (low + high) / 2 == pytest.approx(found[name])
    narrow, wide = found.interval("cost", 0.5), found.interval("cost", 0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_where_there_is_no_interval(model, parts):
    found = evaluate(model, *parts, metrics=["coverage", "recall"], users=7)
    assert np.isnan(found.interval("coverage@5")).all()
    assert np.isnan(found.interval("recall@5")).all()
    assert found.summary()["intervals"]["coverage@5"] is None
    assert "±" not in repr(found).split("\n", 1)[1]
    with pytest.raises(KeyError, match="no metric 'auc'"):
        found.interval("auc")
    with pytest.raises(ValueError, match="level=95"):
        found.interval("recall@5", 95)


@pytest.mark.parametrize(("name", "value"), [("positive_cost", 1.5), ("positive_cost", -1), ("threshold", np.nan)])
def test_bad_costs_are_named(model, parts, name, value):
    with pytest.raises(ValueError, match=f"{name}="):
        evaluate(model, *parts, metrics=["cost"], **{name: value})


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


def test_f1_of_means_comes_with_precision_and_recall(model, parts):
    assert list(evaluate(model, *parts, at=4, metrics=["f1"]).means) == ["f1@4"]
    found = evaluate(model, *parts, at=4, metrics=["recall", "precision"])
    p, r = found["precision@4"], found["recall@4"]
    assert found["f1_of_means@4"] == pytest.approx(2 * p * r / (p + r))
    assert found["f1_of_means@4"] == evaluate(model, *parts, at=4)["f1_of_means@4"]
    assert combine_f1(0.0, 0.0) == 0


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
    one, two = (evaluate(model, *parts, metrics=list_metrics(), threads=threads) for threads in (1, 2))
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
    assert "2 of 3 test events are also in train" in caplog.text
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


@pytest.mark.parametrize("metrics", [["mean"], ["ndcg@10"], "ndcg", [], ["ndcg", "f1_of_means"]])
def test_bad_metrics_are_named(model, parts, metrics):
    with pytest.raises(ValueError, match="choose from precision, recall"):
        evaluate(model, *parts, metrics=metrics)


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
    low, high = found.interval("precision@5")
    first = ["precision", f"{found['precision@5']:.4f}", "±", f"{(high - low) / 2:.4f}"]
    assert lines[2].split() == [*first, *found.text("precision@10").split()]
    assert summary["intervals"]["precision@5"] == [low, high]
    others = evaluate(model, *parts, at=5, metrics=["recall", "auc", "cost"])
    assert repr(others).splitlines()[3:] == ["", f"auc   {others.text('auc')}", f"cost  {others.text('cost')}"]
    assert len(repr(evaluate(model, *parts, metrics=["auc"])).splitlines()) == 3
    with pytest.raises(KeyError, match="no metric 'ndcg@7'"):
        found["ndcg@7"]


class TestUnknownIds:
    @pytest.fixture
    def parts(self):
        log = csrr.synthetic(60, 40, events_per_user=10).log
        train, test = csrr.split(log)
        more = {"user": [*test.users.ids[test.user_rows], 3, 999], "item": [*test.items.ids[test.item_rows], 777, 5]}
        return csrr.EASE(10).fit(train), train, test, more

    def test_are_an_error_that_tells_the_way_out(self, parts):
        model, train, _, more = parts
        with pytest.raises(csrr.DataError, match='split and fit on its train part, or pass unknown="ignore"'):
            csrr.evaluate(model, train, more)
        with pytest.raises(csrr.DataError, match="train does not fit the model") as caught:
            csrr.evaluate(model, more, train, unknown="ignore")
        assert "unknown=" not in str(caught.value)
        with pytest.raises(csrr.ParameterError, match="unknown='no'"):
            csrr.evaluate(model, train, more, unknown="no")

    def test_or_left_out_and_counted(self, parts):
        model, train, test, more = parts
        with pytest.warns(csrr.UnknownIdWarning) as told:
            found = csrr.evaluate(model, train, more, unknown="ignore")
        assert [str(each.message) for each in told] == [
            f"unknown ids were left out: 2 of {len(test) + 2} in the events of test"
        ]
        assert found.summary() == csrr.evaluate(model, train, test).summary()

    def test_among_the_users(self, parts):
        model, train, test, _ = parts
        with pytest.raises(csrr.UnknownIdError):
            csrr.evaluate(model, train, test, users=[1, 2, 999])
        with pytest.warns(csrr.UnknownIdWarning, match="1 of 3 in users"):
            found = csrr.evaluate(model, train, test, users=[1, 2, 999], unknown="ignore")
        assert found.summary() == csrr.evaluate(model, train, test, users=[1, 2]).summary()


def test_candidates_are_ranked_among_themselves():
    log = csrr.synthetic(80, 40, events_per_user=10).log
    train, test = csrr.split(log, ratio=0.7, seed=0)
    model = csrr.EASE(reg=10).fit(train)
    some = list(range(0, 40, 4))
    found = csrr.evaluate(model, train, test, at=3, metrics=["recall"], candidates=some)
    wanted, seen = test.to_csr().toarray(), train.to_csr().toarray()
    recalls = []
    for row in range(log.n_users):
        mine = [item for item in some if wanted[row, item]]
        if mine:
            scores = model.score_rows(np.array([row]))[0]
            open_items = [item for item in some if not seen[row, item]]
            best = sorted(open_items, key=lambda item: -scores[item])[:3]
            recalls.append(len(set(best) & set(mine)) / len(mine))
    assert found["recall@3"] == pytest.approx(np.mean(recalls), abs=0.02)
