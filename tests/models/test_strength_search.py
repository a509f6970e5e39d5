"""The walk along strengths: where it stops, what it asks of a model, and what it never sees."""

import logging

import numpy as np
import pytest

import csrr
from csrr import EASE, WRMF, ParameterError
from csrr.models import held_out
from csrr.models.held_out import MOST_STEPS, climb, find_best_multiple, hold_out, measure_ndcg
from tests.reference.metrics import best_items, metrics


@pytest.fixture(scope="module")
def large():
    """A log with enough users to hold events out of, 1,000 users x 100 items; the best of 4*3^k is 324."""
    return csrr.synthetic(1000, 100, rank=8, events_per_user=12).log


class Fitted(EASE):
    """An EASE that counts how often it is fitted, to what, and fails below a strength."""

    fits: list
    least = 0.0

    def fit(self, data):
        self.fits.append((self.get_params(), data))
        if self.reg < self.least:
            raise ParameterError(f"reg={self.reg} is too small")
        return super().fit(data)


@pytest.fixture
def counted():
    class Counted(Fitted):
        fits = []  # noqa: RUF012

    return Counted


class TestClimb:
    @pytest.mark.parametrize(("best", "n_scored"), [(-5, 7), (-2, 4), (-1, 3), (0, 3), (1, 4), (2, 5), (5, 8)])
    def test_it_ends_at_the_top_of_a_hill(self, best, n_scored):
        assert climb(lambda x: -abs(np.log(x) / np.log(3) - best), 3.0) == (pytest.approx(3.0**best), n_scored)

    def test_equal_is_no_gain(self):
        assert climb(lambda x: 0.5, 2.0) == (1.0, 3)

    @pytest.mark.parametrize("sign", [-1, 1])
    def test_it_ends_even_if_it_always_gains(self, sign):
        assert climb(lambda x: sign * x, 2.0)[0] == 2.0 ** (sign * MOST_STEPS)

    def test_it_never_asks_twice(self):
        asked = []
        climb(lambda x: (asked.append(x), -abs(np.log2(x) - 3))[1], 2.0)
        assert len(set(asked)) == len(asked)


def test_the_mean_is_that_of_plain_loops(large):
    rest, heldout, *_ = hold_out(large, 0)
    model = EASE(50.0).fit(rest)
    seen, relevant = ([set(row.indices.tolist()) for row in log.to_csr()] for log in (rest, heldout))
    users = [user for user in range(1000) if relevant[user]]
    scores = model.score(users)
    values = [
        metrics(best_items(mine, 20, seen[user]), relevant[user], 20)["ndcg"]
        for user, mine in zip(users, scores, strict=True)
    ]
    assert 0 < len(users) < 1000
    assert measure_ndcg(model, heldout) == pytest.approx(np.mean(values))


class TestBestMultiple:
    def test_it_is_the_best_of_the_strengths_around_it(self, large):
        multiple = find_best_multiple(EASE(), large, lambda log: 20.0, step=3.0)
        rest, heldout, *_ = hold_out(large, 0)
        below, at, above = (measure_ndcg(EASE(20 * multiple * x).fit(rest), heldout) for x in (1 / 3, 1, 3))
        assert multiple > 1
        assert at > below
        assert at >= above

    def test_a_start_too_strong_and_one_too_weak_meet(self, large):
        weak, strong = (
            first * find_best_multiple(EASE(), large, lambda log, x=first: x, step=3.0) for first in (4, 4 * 3**8)
        )
        assert weak == pytest.approx(strong)
        assert 4 < weak < 4 * 3**8

    def test_models_differ_by_their_strength_alone_and_see_the_rest_alone(self, large, counted):
        model = counted("auto", dtype="float32", threads=1)
        find_best_multiple(model, large, lambda log: float(len(log)), step=3.0, seed=5)
        rest, *_ = hold_out(large, 5)
        regs = [params.pop("reg") for params, _ in counted.fits]
        assert regs[0] == len(rest) < len(large)
        assert regs[1] == pytest.approx(len(rest) / 3)
        assert all(params == counted.fits[0][0] for params, _ in counted.fits)
        assert counted.fits[0][0].items() >= {"dtype": "float32", "threads": 1}.items()
        assert all(log == rest for _, log in counted.fits)
        assert not model.is_fitted

    def test_a_strength_too_weak_to_be_fitted_ends_the_walk_down(self, large, counted):
        free = find_best_multiple(counted(), large, lambda log: 4 * 3.0**8, step=3.0)
        assert free < 1 / 9
        counted.least = 0.9 * 4 * 3.0**6
        assert find_best_multiple(counted(), large, lambda log: 4 * 3.0**8, step=3.0) == pytest.approx(1 / 9)

    def test_a_first_strength_that_cannot_be_fitted_is_an_error(self, large, counted):
        counted.least = 100.0
        with pytest.raises(ParameterError, match="too small"):
            find_best_multiple(counted(), large, lambda log: 50.0, step=3.0)

    def test_small_logs_are_not_searched_and_it_says_so(self, log, monkeypatch, caplog):
        monkeypatch.setattr(held_out, "climb", lambda *_: pytest.fail("a small log was searched"))
        with caplog.at_level(logging.INFO, "csrr"):
            assert find_best_multiple(WRMF(), log, lambda _: pytest.fail("the rule was asked"), step=2.0) == 1.0
        assert caplog.messages == ["WRMF: reg is the rule's: fewer than 150 users have events to hold out"]

    def test_it_says_what_it_chose(self, large, caplog):
        with caplog.at_level(logging.INFO, "csrr.models.held_out"):
            multiple = find_best_multiple(EASE(), large, lambda log: 20.0, step=3.0)
        assert len(caplog.messages) == 1
        assert caplog.messages[0].startswith(f"EASE: reg is {multiple:g} times the rule's")
