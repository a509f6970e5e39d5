import warnings

import pytest

import csrr
from benchmarks import bench_suspects as made

SMALL = {"n": 400, "m": 500}


@pytest.fixture(scope="module")
def vague():
    """A clean log of diffuse tastes, and what cleaning it would do."""
    log = made.diffuse(0, **SMALL)
    return log, csrr.plan_cleaning(log)


@pytest.fixture(scope="module")
def sharp():
    """A log of sharp topics with a tenth of random clicks, which these are, and what cleaning it would do."""
    noisy = csrr.add_noise(made.sharp_topics(0, **SMALL), "random", 0.1, seed=1)
    return noisy.log, noisy.planted, csrr.plan_cleaning(noisy.log)


@pytest.mark.parametrize("name", made.MADE)
@pytest.mark.parametrize("share", [0, 0.1, 0.4])
def test_no_more_than_two_clean_clicks_in_a_hundred_go_by_default(name, share):
    noisy = csrr.add_noise(made.MADE[name](5, **SMALL), "random", share, seed=2)
    planned = csrr.plan_cleaning(noisy.log)
    assert planned.mask[~noisy.planted].mean() <= 0.02


@pytest.mark.parametrize(
    "name", [name for name in made.MADE if name not in ("very diffuse tastes", "small and diffuse")]
)
def test_a_clean_log_is_not_said_to_be_noise(name):
    found = csrr.plan_cleaning(made.MADE[name](0)).suspects
    assert found.noise_share < 0.1
    assert found.noise_share <= found.largest_share + 0.01


def test_noise_among_sharp_tastes_is_found_and_mostly_removed_without_a_doubt(sharp):
    log, planted, planned = sharp
    assert planned.suspects.noise_share == pytest.approx(0.1, abs=0.05)
    assert not planned.suspects.is_doubtful
    assert planned.warning == ""
    assert planted[planned.mask].mean() > 0.9
    assert planned.mask[planted].mean() > 0.25
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert csrr.clean(log) == planned.log == log.select(~planned.mask)


def test_doubt_is_said_and_limits_what_goes(vague):
    log, planned = vague
    found = planned.suspects
    assert found.is_doubtful
    assert found.largest_share > found.noise_share + 0.05
    assert "in doubt, from none to" in str(found)
    assert "in doubt" in repr(found)
    assert planned.is_capped
    assert planned.mask.sum() <= 0.01 * len(log)
    with pytest.warns(UserWarning, match="no more than 1% of the events go"):
        assert csrr.clean(log) == planned.log
    given = csrr.plan_cleaning(log, above=0.3)
    assert not given.is_capped
    assert given.mask.sum() == (found.scores > 0.3).sum() > 0.01 * len(log)
    with pytest.warns(UserWarning, match="may be genuine"):
        csrr.clean(log, above=0.3)


def test_what_goes_is_the_most_suspect_and_nothing_is_lost(vague, sharp):
    for planned in (vague[1], sharp[2], csrr.Cleaning(vague[1].suspects, 0.4)):
        assert len(planned.removed) == planned.mask.sum() == len(planned.suspects) - len(planned.log)
        assert sorted(planned.removed["score"]) == sorted(planned.suspects.scores[planned.mask])
        assert (planned.removed["score"][:-1] >= planned.removed["score"][1:]).all()


def test_the_text_counts_and_shows_examples(sharp):
    planned = sharp[2]
    first, second, header, *rows = str(planned).splitlines()
    assert first.startswith(f"{planned.mask.sum():,} of {len(planned.suspects):,} events")
    assert second == planned.suspects.describe_share()
    assert header.split()[:2] == ["user", "item"]
    assert 1 <= len(rows) <= 11
    nothing = csrr.Cleaning(planned.suspects, 1.0)
    assert str(nothing).startswith("0 of ")
    assert not nothing.mask.any()
    assert nothing.log == sharp[0]


def test_rates_that_fall_towards_the_bottom_are_taken_for_taste(vague):
    found = vague[1].suspects
    assert found.noise_share < 0.7 * found.largest_share


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("seed", [0, 1])
def test_scores_of_few_clicks_that_overlap_are_in_doubt(share, seed):
    log = csrr.synthetic(120, 80, rank=4, events_per_user=15, noise=share, seed=seed).log
    planned = csrr.plan_cleaning(log)
    assert planned.suspects.separation < 0.87
    assert planned.is_capped


def test_the_separation_is_the_mean_over_pairs(sharp):
    scores = sharp[2].suspects.scores[:300].astype(float)
    found = csrr.Suspects(sharp[0], scores, scores)
    weights = scores[:, None] * (1 - scores)
    right = (scores[:, None] > scores) + 0.5 * (scores[:, None] == scores)
    assert found.separation == pytest.approx((weights * right).sum() / weights.sum(), abs=0.02)


def test_nothing_goes_by_default_of_users_and_items_of_whom_little_is_known(sharp):
    log = sharp[0]
    few = log.select((log.user_rows >= 40) | (log.item_rows % 7 == 0))
    planned = csrr.plan_cleaning(few)
    counts = few.user_counts()[few.user_rows], few.item_counts()[few.item_rows]
    rare = (counts[0] < 5) | (counts[1] < 5)
    assert planned.suspects.above(0.85)[rare].any()
    assert not planned.mask[rare].any()
