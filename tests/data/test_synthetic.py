import numpy as np
import pytest

from csrr.data import DataError, split, synthetic
from csrr.parameters import ParameterError


def precision_at_10(scores, train, test):
    scores = np.where(train.to_csr().toarray() > 0, -np.inf, scores)
    best = np.argsort(-scores, axis=1)[:, :10]
    return np.take_along_axis(test.to_csr().toarray(), best, axis=1).mean()


def test_the_seed_decides():
    first, again, other = synthetic(seed=3), synthetic(seed=3), synthetic(seed=4)
    assert first.log == again.log
    np.testing.assert_array_equal(first.truth, again.truth)
    assert first.log != other.log


def test_sizes_and_shares_are_those_asked_for():
    data = synthetic(1000, 300, rank=6, events_per_user=25, specific=0.08, noise=0.1)
    log = data.log
    assert (log.n_users, log.n_items) == (1000, 300)
    assert len(data.truth) == len(log) == pytest.approx(25_000, rel=0.05)
    np.testing.assert_allclose(np.bincount(data.truth) / len(log), [0.82, 0.08, 0.1], atol=0.01)
    assert data.taste[0].shape == (1000, 6)
    assert data.taste[1].shape == (300, 6)
    assert min(factor.min() for factor in data.taste) >= 0
    assert log.user_counts().min() >= 1


def test_popularity_has_a_long_tail():
    counts = np.sort(synthetic().log.item_counts())
    assert counts[-40:].sum() > 4 * counts[:40].sum()


def test_a_user_of_few_events_has_no_specific_choice():
    data = synthetic(events_per_user=2, specific=0.4)
    assert (data.log.user_counts()[data.log.user_rows[data.truth == 1]] >= 8).all()


def test_titles_tell_the_genre():
    log = synthetic(rank=14, n_items=100).log
    assert log.titles[:2].tolist() == ["jazz 1", "folk 1"]
    assert log.titles[14] == "jazz 2"
    assert len(set(log.titles)) == 100


def test_specific_choices_are_of_one_genre_that_is_not_the_users():
    data = synthetic(specific=0.1)
    users, items = data.taste
    chosen = data.truth == 1
    genre = items.argmax(axis=1)[data.log.item_rows[chosen]]
    user = data.log.user_rows[chosen]
    for each in np.unique(user):
        own = np.unique(genre[user == each])
        assert len(own) == 1
        assert np.count_nonzero(user == each) == 4
        assert users[each, own[0]] <= np.median(users[each])


def test_noise_is_spread_over_all_genres_and_taste_is_not():
    data = synthetic(noise=0.2)
    users, items = data.taste
    pull = (users @ items.T)[data.log.user_rows, data.log.item_rows]
    assert np.median(pull[data.truth == 2]) < 0.2 * np.median(pull[data.truth == 0])


def test_a_low_rank_model_clearly_beats_popularity():
    train, test = split(synthetic().log)
    matrix = train.to_csr().toarray()
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    low_rank = (left[:, :8] * values[:8]) @ right[:8]
    popular = np.broadcast_to(matrix.sum(axis=0), matrix.shape)
    assert precision_at_10(low_rank, train, test) > 2 * precision_at_10(popular, train, test)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_users": 0}, "n_users=0 must be a whole number >= 1"),
        ({"n_users": 10**9}, "at most 10,000,000,000 cells"),
        ({"seed": -1}, "seed=-1 must be a whole number >= 0"),
        ({"rank": 1}, "a rank of 2"),
        ({"n_items": 20}, "4 items a genre"),
        ({"events_per_user": 300}, "half of n_items"),
        ({"noise": 0.4, "specific": 0.2}, "at most 0.5"),
        ({"noise": -0.1}, ">= 0"),
    ],
)
def test_bad_options_are_refused_in_plain_words(options, words):
    with pytest.raises((DataError, ParameterError), match=words):
        synthetic(**options)
