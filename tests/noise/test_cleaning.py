import os
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import csrr
from csrr.data.ids import IdMap
from csrr.noise.scores import mark_accompanied
from csrr.noise.suspects import UNDETECTED


def make_log(weigh, n=400, m=500, typical=35, seed=0):
    """A log in which each user has some `typical` distinct items, drawn in proportion to weigh(rng)."""
    rng = np.random.default_rng(seed)
    clicks = np.zeros((n, m), bool)
    for mine in clicks:
        weights = weigh(rng)
        size = min(max(5, int(rng.lognormal(np.log(typical), 0.5))), int(0.7 * np.count_nonzero(weights)))
        mine[rng.choice(m, size, replace=False, p=weights / weights.sum())] = True
    return csrr.Log(IdMap.range(n), IdMap.range(m), *np.nonzero(clicks))


def sharp(seed=0, n=600, m=800, typical=40):
    """Tastes of one to three topics out of twenty, of popular and rare items, and of nothing else."""
    rng = np.random.default_rng(seed)
    topic, popularity = rng.integers(20, size=m), rng.permutation(np.arange(1, m + 1) ** -0.8)
    within = popularity / np.bincount(topic, popularity, minlength=20)[topic]

    def weigh(rng):
        mixed = np.zeros(20)
        mine = rng.choice(20, rng.integers(1, 4), replace=False)
        mixed[mine] = rng.dirichlet(np.ones(len(mine)))
        return mixed[topic] * within

    return make_log(weigh, n, m, typical, seed)


def diffuse(seed=0, m=500, slope=0.35):
    """Tastes in which hardly anything is quite out of taste."""
    rng = np.random.default_rng(seed)
    items, popularity = rng.normal(size=(m, 8)), rng.permutation(np.arange(1, m + 1) ** -0.8)
    return make_log(lambda rng: popularity * np.exp(slope * (items @ rng.normal(size=8))), m=m, seed=seed)


@pytest.fixture(scope="module")
def vague():
    """A clean log of diffuse tastes, and what cleaning it would do."""
    log = diffuse()
    return log, csrr.plan_cleaning(log)


@pytest.fixture(scope="module")
def clear():
    """A log of sharp tastes with a tenth of random clicks, which these are, and what cleaning it would do."""
    noisy = csrr.add_noise(sharp(), "random", 0.1, seed=1)
    return noisy.log, noisy.planted, csrr.plan_cleaning(noisy.log)


@pytest.mark.parametrize("make", [sharp, diffuse, lambda seed: diffuse(seed, slope=0.15)])
@pytest.mark.parametrize("share", [0, 0.1, 0.4])
def test_no_more_than_two_clean_clicks_in_a_hundred_go_by_default(make, share):
    noisy = csrr.add_noise(make(5), "random", share, seed=2)
    assert csrr.plan_cleaning(noisy.log).mask[~noisy.planted].mean() <= 0.02


@pytest.mark.skipif("CSRR_DATA_DIR" not in os.environ, reason="CSRR_DATA_DIR is not set")
def test_a_log_of_users_with_a_click_or_two_loses_little_under_much_noise(tmp_path):
    with zipfile.ZipFile(csrr.locate("steam.zip")) as archive:
        path = archive.extract("steam/game_purchase.dat", tmp_path)
    noisy = csrr.add_noise(csrr.read(path, user="User_ID", item="Game_ID", separator="\t"), "random", 0.4)
    planned = csrr.plan_cleaning(noisy.log)
    assert "too few clicks" in planned.warning
    assert planned.suspects.above(0.5)[~noisy.planted].mean() > 0.1
    assert planned.mask[~noisy.planted].mean() <= 0.02


@pytest.mark.parametrize("make", [sharp, diffuse])
def test_a_clean_log_is_not_said_to_be_noise(make):
    assert csrr.plan_cleaning(make(3)).suspects.noise_share < 0.12


def test_noise_among_sharp_tastes_is_found_and_removed_without_a_doubt(clear):
    log, planted, planned = clear
    assert planned.suspects.noise_share == pytest.approx(0.1, abs=0.05)
    assert planned.suspects.doubt == planned.warning == ""
    assert planted[planned.mask].mean() > 0.9
    assert len(planned.removed) == int(0.01 * len(log))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert csrr.clean(log) == planned.log == log.select(~planned.mask)


def test_doubt_is_said(vague):
    log, planned = vague
    found = planned.suspects
    assert found.is_doubtful
    assert found.share_at_bottom > found.noise_share + 0.05
    assert "unreliable: clicks on the lowest-ranked items" in str(found)
    assert "unreliable" in repr(found)
    assert 0 < planned.mask.sum() <= 0.01 * len(log)
    with pytest.warns(UserWarning, match="unreliable: .* may be genuine"):
        assert csrr.clean(log) == planned.log
    given = csrr.plan_cleaning(log, above=0.3)
    assert given.mask.sum() == (found.scores > 0.3).sum() > 0.01 * len(log)
    with pytest.warns(UserWarning, match="may be genuine"):
        csrr.clean(log, above=0.3)


@pytest.mark.parametrize(
    ("scores", "clicks", "bottom", "words"),
    [
        ([0.0, 1.0], 20, 0.5, ""),
        ([0.0, 0.0], 20, 0.0, ""),
        ([0.0, 0.0], 4, 0.0, "too few clicks"),
        ([0.0, 1.0], 20, 0.56, "conflicting"),
        ([0.2, 0.8], 20, 0.5, "overlap"),
        ([0.0, 1.0], 8, 0.5, "too few clicks"),
    ],
)
def test_each_reason_to_doubt(scores, clicks, bottom, words):
    log = csrr.Log(IdMap.range(6), IdMap.range(20), np.repeat(np.arange(6), clicks), np.tile(np.arange(clicks), 6))
    scores = np.tile(scores, len(log) // 2)
    assert words in csrr.Suspects(log, scores, scores, None, bottom).doubt
    assert csrr.Suspects(log, scores, scores, None, bottom).is_doubtful == bool(words)


@given(st.lists(st.floats(0, 1), min_size=20, max_size=400), st.floats(0, 1))
def test_whatever_the_scores_little_goes_by_default(scores, bottom):
    scores = np.array(scores[: len(scores) // 20 * 20])
    users = np.arange(len(scores)) // 20
    log = csrr.Log(IdMap.range(len(scores) // 20), IdMap.range(20), users, np.arange(len(scores)) % 20)
    planned = csrr.Cleaning(csrr.Suspects(log, scores, scores, None, bottom))
    gone = planned.mask
    assert (scores[gone] > 0.5).all()
    assert not gone.any() or scores[gone].min() >= scores[~gone].max(initial=0)
    assert gone.sum() == min(int(0.01 * len(scores)), (scores > 0.5).sum())


def test_what_goes_is_the_most_suspect_and_nothing_is_lost(vague, clear):
    for planned in (vague[1], clear[2], csrr.Cleaning(vague[1].suspects, 0.4)):
        assert len(planned.removed) == planned.mask.sum() == len(planned.suspects) - len(planned.log)
        assert sorted(planned.removed["score"]) == sorted(planned.suspects.scores[planned.mask])
        assert (planned.removed["score"][:-1] >= planned.removed["score"][1:]).all()


def test_the_text_counts_shows_examples_and_what_else_could_be_done(clear):
    planned = clear[2]
    first, second, third, header, *rows = str(planned).splitlines()
    assert first.startswith(f"{planned.mask.sum():,} of {len(planned.suspects):,} events")
    assert second == planned.suspects.describe_share()
    assert third == UNDETECTED
    assert header.split()[:2] == ["user", "item"]
    assert "With other thresholds, by the scores:" in rows
    nothing = csrr.Cleaning(planned.suspects, 1.0)
    assert str(nothing).startswith("0 of ")
    assert not nothing.mask.any()
    assert nothing.log == clear[0]


def test_the_choices_count_what_a_bar_removes(clear):
    planned = clear[2]
    scores = planned.suspects.scores
    assert planned.choices["above"].tolist() == [0.5, 0.8, 0.9, 0.95]
    for row in planned.choices.rows():
        gone = scores > row["above"]
        assert row["removed"] == gone.sum() == len(scores) - len(csrr.plan_cleaning(clear[0], above=row["above"]).log)
        assert row["share"] == pytest.approx(gone.mean())
        assert row["genuine"] == pytest.approx((1 - scores[gone]).mean())


def test_rates_that_fall_towards_the_bottom_are_taken_for_taste(vague):
    found = vague[1].suspects
    assert found.noise_share < 0.7 * found.share_at_bottom


def test_the_separation_is_the_mean_over_pairs(clear):
    scores = clear[2].suspects.scores[:300].astype(float)
    found = csrr.Suspects(clear[0], scores, scores)
    weights = scores[:, None] * (1 - scores)
    right = (scores[:, None] > scores) + 0.5 * (scores[:, None] == scores)
    assert found.separation == pytest.approx((weights * right).sum() / weights.sum(), abs=0.02)


def test_a_catalogue_of_clicked_items_only_is_no_sign_of_noise():
    """Items with a Poisson number of clicks, those with none unknown: clicks that do not stand alone tell the rate."""
    rng = np.random.default_rng(0)
    clicks = rng.random((500, 4000)) < 0.0016
    clicks = clicks[:, clicks.any(axis=0)]
    model = csrr.CSRR(reg_low_rank="noise", reg_sparse=0.5, neighbors=0, threads=1)
    pattern = (
        model.fit(csrr.Log(IdMap.range(500), IdMap.range(clicks.shape[1]), *np.nonzero(clicks))).leave_out().pattern
    )
    solid = np.bincount(pattern.indices, minlength=clicks.shape[1])[pattern.indices] > 1
    assert (mark_accompanied(pattern) <= solid).all()
    assert solid.sum() / clicks.size == pytest.approx(0.0016, rel=0.06)
    assert len(solid) / clicks.size > 1.5 * 0.0016


def test_rare_items_of_a_clean_log_are_not_called_noise():
    """Sharp tastes with a long tail of items that one or two users found."""
    log = sharp(1, m=3000, typical=15)
    alone = log.item_counts() == 1
    assert alone.mean() > 0.1
    kept = csrr.read(log.to_arrow().select(["user", "item"]))
    assert csrr.plan_cleaning(kept).suspects.noise_share < 0.05
