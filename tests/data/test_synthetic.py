import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import csrr
from csrr.data.errors import DataError
from csrr.data.split import split
from csrr.data.synthetic import NOISE_KINDS, synthetic
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


LOG = csrr.synthetic(150, 90, rank=4, events_per_user=12).log
TRAIN, TEST = csrr.split(LOG, ratio=0.8, seed=0)


def cells(log, mask=None):
    """Return the set of (user id, item id) of a log's events, of those in `mask`."""
    chosen = np.ones(len(log), bool) if mask is None else mask
    return set(
        zip(log.users.ids[log.user_rows[chosen]], log.items.ids[log.item_rows[chosen]], strict=True),
    )


@settings(max_examples=30)
@given(st.sampled_from(NOISE_KINDS), st.floats(0, 0.6), st.integers(0, 100))
def test_the_share_is_met_and_the_genuine_events_are_all_there(kind, share, seed):
    noisy = csrr.add_noise(TRAIN, kind, share, seed=seed, avoid=TEST)
    n_planted = round(share / (1 - share) * len(TRAIN))
    assert noisy.planted.sum() == n_planted
    assert len(noisy.log) == len(TRAIN) + n_planted
    assert cells(noisy.log, ~noisy.planted) == cells(TRAIN)
    assert not cells(noisy.log, noisy.planted) & cells(TEST)
    assert noisy.log.items == TRAIN.items
    assert np.array_equal(noisy.log.titles, TRAIN.titles)


@pytest.mark.parametrize("kind", NOISE_KINDS)
def test_the_seed_decides_the_noise(kind):
    one, same, other = (csrr.add_noise(TRAIN, kind, 0.3, seed=seed) for seed in (1, 1, 2))
    assert one.log == same.log
    assert np.array_equal(one.planted, same.planted)
    assert one.log != other.log


@pytest.mark.parametrize("kind", ["accidental", "popular"])
def test_misclicks_fall_on_users_in_proportion_to_their_events(kind):
    noisy = csrr.add_noise(TRAIN, kind, 0.5)
    assert noisy.log.users == TRAIN.users
    planted = np.bincount(noisy.log.user_rows[noisy.planted], minlength=TRAIN.n_users)
    active = TRAIN.user_counts() >= TRAIN.user_counts().mean()
    assert planted[active].sum() / TRAIN.user_counts()[active].sum() == pytest.approx(1, abs=0.1)
    assert np.corrcoef(planted, TRAIN.user_counts())[0, 1] > 0.7


def test_random_clicks_fall_on_all_users_alike():
    noisy = csrr.add_noise(TRAIN, "random", 0.5)
    planted = np.bincount(noisy.log.user_rows[noisy.planted], minlength=TRAIN.n_users)
    room = TRAIN.n_items - TRAIN.user_counts()
    expected = room * planted.sum() / room.sum()
    # A multinomial's chi-square: about one for each user
    assert ((planted - expected) ** 2 / expected).mean() == pytest.approx(1, abs=0.4)


def test_random_clicks_fall_on_all_items_alike_and_popular_ones_by_popularity():
    counts = TRAIN.item_counts()
    likeness = {}
    for kind in ("random", "popular"):
        noisy = csrr.add_noise(TRAIN, kind, 0.5)
        planted = np.bincount(noisy.log.item_rows[noisy.planted], minlength=TRAIN.n_items)
        likeness[kind] = np.corrcoef(planted, counts)[0, 1]
    assert likeness["popular"] > 0.8
    # A popular item is one that fewer users lack, so that random clicks find it a little less often.
    assert -0.6 < likeness["random"] < 0.2


def test_crawlers_are_new_and_touch_half_of_the_items():
    noisy = csrr.add_noise(TRAIN, "crawler", 0.3)
    sizes = noisy.log.user_counts()[TRAIN.n_users :]
    assert noisy.log.users.ids[TRAIN.n_users :].tolist() == [*range(150, 150 + len(sizes))]
    assert set(sizes[:-1]) == {45}
    assert 0 < sizes[-1] <= 45
    assert noisy.log.user_counts()[: TRAIN.n_users].tolist() == TRAIN.user_counts().tolist()
    assert len(noisy.targets) == 0


def test_a_push_lifts_one_rare_item_by_users_of_ordinary_size():
    noisy = csrr.add_noise(TRAIN, "push", 0.3)
    (target,) = noisy.targets
    counts = TRAIN.item_counts()
    assert 0 < counts[target] <= np.quantile(counts[counts > 0], 0.25)
    new = noisy.log.to_csr()[TRAIN.n_users :]
    assert (new[:, [target]].toarray() == 1).all()
    sizes = np.diff(new.indptr)
    assert set(sizes[:-1]) == {round(np.median(TRAIN.user_counts()))}
    others = np.bincount(new.indices, minlength=TRAIN.n_items)
    others[target] = 0
    assert np.corrcoef(others, counts)[0, 1] > 0.5
    assert csrr.add_noise(TRAIN, "push", 0).targets == csrr.add_noise(TRAIN, "push", 0.5).targets == [target]


def test_new_users_with_names_clash_with_nobody_wherever_they_sort():
    table = {"user": ["crawler-1", "crawler-1", "zoe", "ann"], "item": ["a", "b", "a", "c"]}
    log = csrr.Log.from_table(table)
    noisy = csrr.add_noise(log, "crawler", 0.5)
    assert noisy.log.users.ids.tolist() == ["ann", "crawler-1", "new-crawler-1", "new-crawler-2", "zoe"]
    assert cells(noisy.log, ~noisy.planted) == cells(log)
    assert {user for user, _ in cells(noisy.log, noisy.planted)} == {"new-crawler-1", "new-crawler-2"}


def test_weights_and_times_are_such_as_the_log_has():
    rng = np.random.default_rng(0)
    keys = rng.choice(400, 100, replace=False)
    table = {"user": keys // 20, "item": keys % 20, "weight": rng.integers(1, 9, 100), "time": np.arange(100) * 7}
    log = csrr.Log.from_table(table)
    noisy = csrr.add_noise(log, "random", 0.3)
    assert (noisy.log.weights[noisy.planted] == np.median(log.weights)).all()
    assert np.isin(noisy.log.times[noisy.planted], log.times).all()
    assert np.array_equal(noisy.log.weights[~noisy.planted], log.weights)
    assert np.array_equal(noisy.log.times[~noisy.planted], log.times)
    assert noisy.log.times.dtype == log.times.dtype


def test_when_a_user_has_no_room_others_get_their_clicks():
    matrix = np.zeros((3, 10))
    matrix[0] = 1
    matrix[1, :5] = 1
    matrix[2, 0] = 1
    noisy = csrr.add_noise(matrix, "random", 14 / 30)
    assert noisy.log.user_counts().tolist() == [10, 10, 10]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("clicks", 0.1), "kind='clicks' must be one of random, accidental, popular, crawler, push"),
        (("random", 1), "share=1 must be a number from 0 to less than 1"),
        (("random", -0.1), "share=-0.1"),
        (("random", float("nan")), "share=nan"),
        (("random", "0.1"), "share='0.1'"),
        (("random", True), "share=True"),
        (("random", 0.95), "no room for .* events: .* take a smaller share"),
    ],
)
def test_what_cannot_be_planted_is_refused(arguments, message):
    with pytest.raises((csrr.DataError, csrr.ParameterError), match=message):
        csrr.add_noise(TRAIN, *arguments)


@pytest.mark.parametrize("kind", NOISE_KINDS)
def test_what_is_to_be_avoided_must_have_the_same_rows(kind):
    with pytest.raises(csrr.DataError, match="avoid has other users or items than the log"):
        csrr.add_noise(TRAIN, kind, 0.1, avoid=csrr.synthetic(40, 90).log)


def test_a_log_without_events_has_nothing_to_hide_noise_among():
    with pytest.raises(csrr.DataError, match="the log has no events"):
        csrr.add_noise(TRAIN.select(np.zeros(len(TRAIN), bool)), "random", 0.1)


def list_walks(data):
    """The items of each user in order, repeats too, each with its cause."""
    events = data.events.to_pydict()
    walks = {}
    for user, item, cause in zip(events["user"], events["item"], events["cause"], strict=True):
        walks.setdefault(user, []).append((item, cause))
    return walks


def test_order_follows_the_planted_transitions():
    data = csrr.synthetic(300, 80, events_per_user=12, order=0.7, decay=0.4, noise=0, specific=0, seed=2)
    led, found, expected = data.transitions.toarray(), np.zeros((80, 80)), np.zeros((80, 80))
    assert led.sum(axis=1) == pytest.approx(np.ones(80))
    for walk in list_walks(data).values():
        faded, is_new = np.zeros(80), np.ones(80)
        for place, (item, cause) in enumerate(walk):
            if cause == 3:
                weights = faded @ led * is_new
                assert weights[item] > 0
                expected[walk[place - 1][0]] += weights / weights.sum()
                found[walk[place - 1][0], item] += 1
            faded *= 0.4
            faded[item], is_new[item] = 1, 0
    # As often as the truth says, pair by pair, within what chance allows.
    often = expected > 8
    assert often.sum() > 30
    z = (found - expected)[often] / np.sqrt(expected[often])
    assert abs(z.mean()) < 0.3
    assert 0.4 < z.std() < 1.2
    share = np.mean([cause == 3 for walk in list_walks(data).values() for _, cause in walk[1:]])
    assert 0.55 < share <= 0.75


def test_a_log_in_order_says_so_and_the_rest_stays_as_it_was():
    data = csrr.synthetic(60, 40, events_per_user=10, order=0.5, seed=3)
    log, walks = data.log, list_walks(data)
    assert log.is_ordered
    assert log.weights is None
    ages = log.find_ages()
    for user, walk in walks.items():
        mine = np.flatnonzero(log.user_rows == user)
        assert [item for item, _ in walk] == log.item_rows[mine[np.argsort(-ages[mine])]].tolist()
        by_item = dict(walk)
        assert data.truth[mine].tolist() == [by_item[item] for item in log.item_rows[mine].tolist()]
    assert csrr.synthetic(60, 40, events_per_user=10, order=0.5, seed=3).log == log
    plain = csrr.synthetic(60, 40, events_per_user=10, seed=3)
    assert (plain.log.times, plain.events, plain.transitions) == (None, None, None)


def test_repeats_are_counted_and_of_late_items():
    data = csrr.synthetic(300, 80, events_per_user=15, repeats=0.5, decay=0.3, seed=4)
    walks = list_walks(data)
    assert data.log.weights.sum() == sum(map(len, walks.values()))
    gaps = []
    for walk in walks.values():
        items = [item for item, _ in walk]
        for place, (item, cause) in enumerate(walk):
            assert (cause == 4) == (item in items[:place])
            if cause == 4:
                gaps.append(items[:place][::-1].index(item) + 1)
    # Weights .3^0, .3^1, ...: seven of ten repeats are of the last item.
    assert 0.65 < np.mean(np.array(gaps) == 1) < 0.85
    assert 0.4 < len(gaps) / sum(map(len, walks.values())) < 0.5


def test_tastes_move():
    data = csrr.synthetic(200, 80, events_per_user=20, drift=1.0, noise=0, specific=0, seed=5)
    likes = [users @ data.taste[1].T for users in (data.taste[0], data.late_taste)]
    events = data.events.to_pydict()
    shares = []
    start, span = min(events["time"]), 365 * 86_400
    for user, item, time in zip(events["user"], events["item"], events["time"], strict=True):
        early, late = (each[user, item] / each[user].sum() for each in likes)
        shares.append(((time - start) / span, late > early))
    moments, is_late = map(np.array, zip(*shares, strict=True))
    assert is_late[moments < 0.2].mean() < 0.35
    assert is_late[moments > 0.8].mean() > 0.65


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"order": 0.7, "repeats": 0.4}, "order=0.7, repeats=0.4"),
        ({"order": 1.5}, "order"),
        ({"order": 0.5, "decay": 1}, "decay lies strictly between 0 and 1"),
        ({"drift": -1}, "drift"),
    ],
)
def test_shares_of_order_that_cannot_be(given, words):
    with pytest.raises((csrr.DataError, csrr.ParameterError), match=words):
        csrr.synthetic(60, 40, events_per_user=10, **given)


def test_what_is_shown_is_the_log_and_what_its_events_are_from():
    data = csrr.synthetic(60, 40, events_per_user=12, noise=0.2, seed=1)
    own, noise = (round(100 * np.mean(data.truth == cause)) for cause in (1, 2))
    log, shares = repr(data).split("\n", 1)[0], repr(data).split("\n")[-1]
    assert log == f"Synthetic {repr(data.log).splitlines()[0]}"
    assert f"{own} % choices that are the user's own, {noise} % noise, 0 % from what came before" in shares
