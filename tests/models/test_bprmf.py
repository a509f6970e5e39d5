"""BPRMF: it ranks what a user has above what they do not, and says the same whatever the threads."""

import numpy as np
import pytest

import csrr
from csrr import BPRMF, ParameterError, PopRank
from csrr.data.synthetic import synthetic


@pytest.fixture(scope="module")
def model(log):
    return BPRMF(rank=8).fit(log)


@pytest.fixture(scope="module")
def many():
    """Enough pairs to be worth a thread."""
    return synthetic(400, 200, rank=5, events_per_user=60).log


def mean_log_sigmoid(model, clicks):
    """Over all users, items they have and items they do not, pairs weighed alike."""
    scores = model.score(np.arange(len(clicks)))
    values = []
    for row, has in zip(scores, clicks > 0, strict=True):
        x = row[has][:, None] - row[~has]
        values += (-np.log1p(np.exp(-x))).mean(1).tolist()
    return np.mean(values)


def test_learns_the_checkerboard():
    board = np.add.outer(np.arange(40), np.arange(40)) % 2 == 0
    seen = board.copy()
    held_out = [[(user + 4 * a) % 40 for a in (1, 3, 6)] for user in range(40)]
    for user, items in enumerate(held_out):
        assert board[user, items].all()
        seen[user, items] = False
    recs = BPRMF(rank=5).fit(seen.astype(float)).recommend(k=3)
    assert [sorted(row) for row in recs.items.tolist()] == [sorted(row) for row in held_out]


def test_scores_are_products_of_the_factors_biases_included(model, log):
    assert model.user_factors_.shape == (80, 9)
    assert model.item_factors_.shape == (60, 9)
    assert model.user_factors_.dtype == model.item_factors_.dtype == np.float32
    assert (model.user_factors_[:, -1] == 1).all()
    product = model.user_factors_[:, :-1] @ model.item_factors_[:, :-1].T + model.item_factors_[:, -1]
    np.testing.assert_allclose(model.score(log.users.ids), product, rtol=1e-4, atol=1e-5)


def test_the_objective_improves(model, log, clicks):
    values = model.history_
    assert len(values) == model.epochs
    assert np.mean(values[-5:]) > values[0] + 0.3
    # Before any step the scores are nearly equal; then the mean met on the way is that of the model
    assert values[0] == pytest.approx(np.log(0.5), abs=0.1)
    assert mean_log_sigmoid(model, clicks) == pytest.approx(np.mean(values[-5:]), abs=0.03)
    assert mean_log_sigmoid(BPRMF(rank=8, epochs=2).fit(log), clicks) < mean_log_sigmoid(model, clicks) - 0.3


def test_better_than_popularity_on_held_out_events():
    train, test = csrr.split(synthetic(300, 150, rank=4, events_per_user=20).log, ratio=0.8, seed=0)
    ours, popular = (csrr.evaluate(m.fit(train), train, test, at=10)["ndcg@10"] for m in (BPRMF(rank=10), PopRank()))
    assert ours > 1.3 * popular


def test_biases_follow_popularity(clicks, log):
    model = BPRMF(rank=2, reg=0.2, reg_negative=None).fit(log)
    assert np.corrcoef(model.item_factors_[:, -1], np.log1p(clicks.sum(0)))[0, 1] > 0.9


def test_threads_change_nothing(many):
    one, two = (BPRMF(epochs=4, threads=threads).fit(many) for threads in (1, 2))
    assert one.seen_.nnz > 2**14
    np.testing.assert_array_equal(one.user_factors_, two.user_factors_)
    np.testing.assert_array_equal(one.item_factors_, two.item_factors_)
    assert one.history_ == two.history_


def test_the_seed_is_all_the_chance_there_is(log):
    one, same, other = (BPRMF(rank=4, epochs=5, seed=seed).fit(log) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.item_factors_, same.item_factors_)
    assert not np.allclose(one.item_factors_, other.item_factors_)


def test_the_step_falls_geometrically(log, monkeypatch):
    steps = []

    def record(pattern, factors, rates, rng):
        steps.append(float(rates.step))
        return 0.0

    monkeypatch.setattr("csrr.models.bprmf.run_epoch", record)
    BPRMF(learning_rate=0.4, decay=0.01, epochs=3).fit(log)
    BPRMF(learning_rate=0.3, epochs=1).fit(log)
    assert steps == pytest.approx([0.4, 0.04, 0.004, 0.3])


def test_reg_negative_none_is_reg(log):
    told, left = (BPRMF(rank=3, epochs=3, reg=0.1, reg_negative=value).fit(log) for value in (0.1, None))
    other = BPRMF(rank=3, epochs=3, reg=0.1, reg_negative=0.5).fit(log)
    np.testing.assert_array_equal(told.item_factors_, left.item_factors_)
    assert not np.array_equal(told.item_factors_, other.item_factors_)


@pytest.mark.parametrize("name", ["reg", "reg_negative", "reg_bias"])
def test_penalties_shrink(name, log):
    plain, strong = (BPRMF(rank=3, epochs=20, **{name: value}).fit(log).item_factors_ for value in (0.0, 1.0))
    part = slice(-1, None) if name == "reg_bias" else slice(0, -1)
    assert np.linalg.norm(strong[:, part]) < 0.7 * np.linalg.norm(plain[:, part])


def test_those_who_have_everything_or_nothing():
    clicks = (np.random.default_rng(0).random((30, 20)) < 0.3).astype(np.float32)
    clicks[4], clicks[5], clicks[6] = 1, 0, 1
    clicks[6, 13] = 0
    model = BPRMF(rank=4).fit(clicks)
    assert not model.user_factors_[[4, 5], :-1].any()
    assert model.recommend(4, k=3).items.tolist() == [[None, None, None]]
    assert model.recommend(6, k=1).items.tolist() == [[13]]
    np.testing.assert_array_equal(model.score(5)[0], model.item_factors_[:, -1])
    assert model.score(6)[0].argmin() == 13


def test_everyone_has_everything():
    model = BPRMF(rank=3, epochs=2).fit(np.ones((4, 5)))
    assert model.history_ == [0, 0]
    assert not model.score(range(4)).any()


def test_folded_histories_get_the_lists_of_their_owners(many):
    model = BPRMF(rank=8, epochs=100).fit(many)
    own, folded = model.recommend(k=10), model.fold_in(many).recommend(k=10)
    shared = [len(set(a) & set(b)) for a, b in zip(own.items.tolist(), folded.items.tolist(), strict=True)]
    assert np.mean(shared) > 8
    history = many.history(3)
    assert model.recommend_for(history).items.tolist() == folded.items[[3]].tolist()


def test_later_parameters_do_not_touch_what_was_fitted(log):
    model = BPRMF(rank=3).fit(log)
    before = model.fold_in([[1, 2, 3]]).user_factors
    model.set_params(reg=2.0)
    np.testing.assert_array_equal(model.fold_in([[1, 2, 3]]).user_factors, before)
    assert np.abs(before[0, :-1]).max() > 2 * np.abs(model.fit(log).fold_in([[1, 2, 3]]).user_factors[0, :-1]).max()


def test_neighbours_are_those_of_the_factors_alone(model):
    for ask, factors in ((model.similar_items, model.item_factors_), (model.similar_users, model.user_factors_)):
        unit = factors[:, :-1] / np.linalg.norm(factors[:, :-1], axis=1, keepdims=True)
        cosines = unit @ unit[8]
        near = ask(8, k=5)
        np.testing.assert_array_equal(near.ids, np.argsort(-cosines, kind="stable")[1:6])
        np.testing.assert_allclose(near.scores, cosines[near.ids], rtol=1e-4)
    assert model.similar_items(8).titles is not None


def test_saved_with_its_history_and_what_folding_in_needs(model, tmp_path):
    model.save(tmp_path / "m.csrr")
    again = csrr.load(tmp_path / "m.csrr")
    assert again.history_ == model.history_
    np.testing.assert_array_equal(again.fold_in([[1, 5]]).score(), model.fold_in([[1, 5]]).score())


def test_a_callback_sees_every_epoch(log):
    seen = []
    model = BPRMF(rank=2, epochs=4).fit(log, callback=seen.append)
    assert [done.number for done in seen] == [1, 2, 3, 4]
    assert [done.value for done in seen] == model.history_
    assert 0 < seen[0].seconds < seen[-1].seconds


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rank", 0),
        ("rank", 2.5),
        ("learning_rate", 0),
        ("learning_rate", -0.1),
        ("learning_rate", float("nan")),
        ("decay", 0),
        ("decay", 1.5),
        ("reg", -1),
        ("reg", float("inf")),
        ("reg_negative", -1),
        ("reg_bias", float("nan")),
        ("reg_bias", 1e30),
        ("epochs", 0),
        ("threads", -1),
        ("seed", -1),
    ],
)
def test_bad_parameters_are_refused_by_name(name, value, log):
    with pytest.raises(ParameterError, match=f"^{name}="):
        BPRMF(**{name: value}).fit(log)


def test_factors_that_grow_without_bound_are_no_model():
    """Factors in the thousands still fit into float32, and rank at random."""
    with pytest.raises(ParameterError, match=r"learning_rate=0\.4 is too long a step: the factors grow .* in epoch"):
        BPRMF(rank=64, learning_rate=0.4, reg=0.003).fit(synthetic(300, 200, events_per_user=20).log)


def test_a_fit_that_fails_loses_nothing(log, many):
    model = BPRMF(rank=3, epochs=5).fit(log)
    items, history = model.item_factors_.copy(), list(model.history_)

    def stop(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(many, callback=stop)
    with pytest.raises(ParameterError, match=r"learning_rate=1000\.0 is too long a step"):
        model.set_params(learning_rate=1000.0, reg=1.0, epochs=50).fit(many)
    with pytest.raises(ParameterError, match="no events"):
        model.set_params(learning_rate=0.1).fit(many.select(np.zeros(len(many), bool)))
    assert model.users_ == log.users
    np.testing.assert_array_equal(model.item_factors_, items)
    assert model.history_ == history
