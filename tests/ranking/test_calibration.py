import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import isotonic_regression

from csrr.data.errors import DataError
from csrr.ranking.calibration import MOST_BINS, Calibration
from csrr.ranking.metrics import measure_cells
from csrr.ranking.reliability import Reliability
from csrr.ranking.topk import Cells


def as_csr(dense):
    return sparse.csr_array(dense.astype(np.float32))


def random_cells(seed, n=30, m=20, levels=None):
    """Return scores (with ties where there are few levels), positives and seen cells: the larger the score, the more
    positives."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, m)).astype(np.float32)
    if levels:
        scores = np.round(scores * levels) / np.float32(levels)
    positive = rng.random((n, m)) < 1 / (1 + np.exp(2 - 1.5 * scores))
    seen = rng.random((n, m)) < 0.3
    return scores, positive & ~seen, seen


def cells_of(scores, positive, seen):
    shown = as_csr(positive), as_csr(seen)
    return Cells(lambda rows: scores[rows].copy(), np.arange(len(scores)), scores.shape[1], *shown)


def calibrated(scores, positive, seen, **share):
    return Calibration.of(cells_of(scores, positive, seen), **share)


@pytest.mark.parametrize("levels", [None, 3])
def test_counts_are_those_of_single_cells_in_every_block(levels):
    # 5,000 rows are two blocks.
    scores, positive, seen = random_cells(0, 5000, 6, levels)
    found = calibrated(scores, positive, seen)
    bin_of = np.searchsorted(found.edges, scores)
    n_bins = len(found.n_cells)
    assert found.n_cells.tolist() == np.bincount(bin_of[~seen], minlength=n_bins).tolist()
    assert found.n_positives.tolist() == np.bincount(bin_of[positive], minlength=n_bins).tolist()
    assert found.n_training == seen.sum()


@pytest.mark.parametrize("levels", [None, 4])
def test_it_is_the_isotonic_regression_of_single_cells(levels):
    scores, positive, seen = random_cells(1, levels=levels)
    distinct, place = np.unique(scores[~seen], return_inverse=True)
    n = np.bincount(place)
    naive = isotonic_regression(np.bincount(place, positive[~seen]) / n, weights=n).x
    np.testing.assert_allclose(calibrated(scores, positive, seen).probability(distinct), naive, rtol=1e-12)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("miss", "false_alarm"), [(1, 1), (2, 1), (5, 1), (40, 2), (1, 3)])
def test_no_threshold_costs_less_on_the_very_cells(seed, miss, false_alarm):
    cells = random_cells(seed, levels=[None, 3][seed % 2])
    chosen = calibrated(*cells).threshold(miss, false_alarm)
    every = [chosen, -np.inf, np.inf, *np.unique(cells[0]).tolist()]
    cost = measure_cells(cells_of(*cells), every, positive_cost=miss / (miss + false_alarm)).cost
    assert cost[0] <= cost.min() * (1 + 1e-12)


def test_with_more_positives_than_bins_the_threshold_costs_hardly_more():
    cells = random_cells(3, 400, 60)
    found = calibrated(*cells)
    assert cells[1].sum() > 2 * MOST_BINS
    assert len(found.n_cells) == MOST_BINS + 1
    assert found.n_positives[1:].max() < 2 * cells[1].sum() / MOST_BINS + 1
    every = [found.threshold(5, 1), *np.quantile(cells[0], np.linspace(0, 1, 2000)).tolist()]
    cost = measure_cells(cells_of(*cells), every, positive_cost=5 / 6).cost
    assert cost[0] <= 1.001 * cost.min()


def test_probabilities_never_fall_and_have_ends():
    scores, positive, seen = random_cells(4)
    found = calibrated(scores, positive, seen)
    lowest = scores[positive].min()
    asked = np.linspace(-9, 9, 4000).reshape(40, 100)
    told = found.probability(asked)
    assert told.shape == asked.shape
    assert (np.diff(told.ravel()) >= 0).all()
    assert (told.min(), told.max()) == (0, found.probabilities[-1])
    below = [-np.inf, lowest - np.float32(1e-4), lowest]
    assert (found.probability(below) > 0).tolist() == [False, False, True]
    assert found.probability(np.inf) == found.probabilities[-1] <= 1
    assert np.isnan(found.probability([np.nan, 0.0])).tolist() == [True, False]


@pytest.mark.parametrize(("miss", "false_alarm"), [(1, 1), (3, 1), (10, 1)])
def test_a_score_is_above_the_threshold_where_its_probability_is_above_elkans(miss, false_alarm):
    scores, positive, seen = random_cells(5, levels=5)
    found = calibrated(scores, positive, seen)
    worth = found.probability(scores) * miss > (1 - found.probability(scores)) * false_alarm
    assert 0 < worth.sum() < worth.size
    assert (worth == (scores > found.threshold(miss, false_alarm))).all()
    assert found.n_cells[found.worth(miss, false_alarm)].sum() == (worth & ~seen).sum()


def test_where_nothing_or_everything_is_worth_it():
    scores = np.array([[0.1, 0.2, 0.3, 0.4]], np.float32)
    positive = np.array([[1, 0, 1, 0]], bool)
    found = calibrated(scores, positive, np.zeros_like(positive))
    assert found.probabilities.tolist() == [0, 0.5, 0.5]
    assert found.threshold(1, 2) == np.inf
    threshold = found.threshold(2, 1)
    assert np.float32(threshold) < scores.min()
    assert (found.probability(scores) == 0.5).all()


def test_a_score_below_that_of_a_positive_is_in_the_bin_below_unless_by_rounding():
    rounded, below = np.nextafter(np.float32(0.5), np.float32(0)), np.float32(0.49999)
    scores = np.array([[0.5, below, below, 0.1]], np.float32)
    found = calibrated(scores, np.array([[1, 0, 0, 0]], bool), np.zeros((1, 4), bool))
    assert found.n_cells.tolist() == [3, 1]
    assert found.probability(scores).tolist() == [[1, 0, 0, 0]]
    assert found.probability(rounded) == 1
    assert below < found.threshold(1, 1) < rounded


class TestPositivesNeverShown:
    def test_the_label_rate_is_the_share_shown_of_the_unseen_positives(self):
        scores, positive, seen = random_cells(6)
        shown, training = positive.sum(), seen.sum()
        found = calibrated(scores, positive, seen, observed_share=0.5)
        assert found.label_rate == pytest.approx(shown / (2 * (shown + training) - training))
        plain = calibrated(scores, positive, seen)
        assert plain.label_rate == 1
        expected = np.minimum(plain.probabilities / found.label_rate, 1)
        np.testing.assert_allclose(found.probabilities, expected, rtol=1e-12)
        assert (found.probabilities == 1).sum() > (plain.probabilities == 1).sum()

    def test_what_remains_once_the_shown_are_known(self):
        # 8 cells of one score, of which 4 are positives and 2 are shown: of the 6 others 2 are positives.
        scores = np.zeros((1, 9), np.float32)
        positive, seen = np.eye(9, dtype=bool)[[1]] | np.eye(9, dtype=bool)[[2]], np.eye(9, dtype=bool)[[0]]
        found = calibrated(scores, positive, seen, observed_share=3 / 5)
        assert found.label_rate == pytest.approx(1 / 2)
        assert found.probability(0.0) == pytest.approx(1 / 2)
        left = found.remaining()
        assert left.probability(0.0) == pytest.approx(1 / 3)
        assert (left.n_cells.sum(), left.n_training) == (6, 3)
        others = np.eye(9, dtype=bool)[[3]] | np.eye(9, dtype=bool)[[4]]
        told = left.check(cells_of(scores, others, seen | positive), observed_share=1)
        assert told.ece == pytest.approx(0)
        with pytest.raises(DataError, match="use check"):
            left.reliability()

    def test_where_all_are_shown_nothing_remains(self):
        with pytest.raises(DataError, match=r"observed_share=1.*none remains"):
            calibrated(*random_cells(0)).remaining()


class TestBadInput:
    @pytest.mark.parametrize("share", [0, -0.5, 1.01, np.nan])
    def test_shares(self, share):
        with pytest.raises(DataError, match=r"observed_share=.*\(0, 1\]"):
            calibrated(*random_cells(0), observed_share=share)

    def test_no_positives(self):
        scores, positive, seen = random_cells(0)
        with pytest.raises(DataError, match="calibration needs positives"):
            calibrated(scores, np.zeros_like(positive), seen)

    @pytest.mark.parametrize("costs", [(0, 1), (1, 0), (-1, 1), (1, np.inf), (np.nan, 1)])
    def test_costs(self, costs):
        with pytest.raises(DataError, match="a cost must be a finite number above 0"):
            calibrated(*random_cells(0)).threshold(*costs)

    def test_a_score_that_is_not_a_number(self):
        scores, positive, seen = random_cells(0)
        scores[~(positive | seen)] = np.nan
        with pytest.raises(ValueError, match="a score is NaN"):
            calibrated(scores, positive, seen)


class TestReliability:
    def test_hand_written_fractions(self):
        said = [0.1, 0.1, 0.1, 0.4, 0.9]
        told = Reliability.of(said, [0, 1, 0, 1, 1], n_bins=2)
        assert told.n_cells.tolist() == [4, 1]
        assert told.n_positives.tolist() == [2, 1]
        np.testing.assert_allclose(told.mean_probability, [0.175, 0.9])
        np.testing.assert_allclose(told.rate, [0.5, 1])
        assert told.ece == pytest.approx((4 * 0.325 + 1 * 0.1) / 5)

    def test_groups_count_as_their_cells(self):
        rng = np.random.default_rng(0)
        p, n = rng.random(40), rng.integers(1, 30, 40)
        k = rng.binomial(n, p)
        single = Reliability.of(
            np.repeat(p, n), np.concatenate([np.arange(size) < hits for size, hits in zip(n, k, strict=True)])
        )
        grouped = Reliability.of(p, k, n)
        assert grouped.n_cells.tolist() == single.n_cells.tolist()
        assert grouped.ece == pytest.approx(single.ece, rel=1e-9)

    def test_intervals_are_wilsons(self):
        # The interval of 0 in 10 ends at z^2/(10 + z^2); Brown, Cai and DasGupta (2001) give 4 in 10 as .168 to .687.
        told = Reliability.of([0.1, 0.9], [0, 4], [10, 10], n_bins=2)
        np.testing.assert_allclose(told.low, [0, 0.168], atol=5e-4)
        np.testing.assert_allclose(told.high, [0.2775, 0.687], atol=5e-4)

    def test_rates_and_intervals_count_the_positives_never_shown(self):
        told, shown = (Reliability.of([0.4, 0.8], [2, 4], [10, 10], label_rate=rate) for rate in (0.5, 1))
        assert told.ece == pytest.approx(0)
        assert shown.ece == pytest.approx(0.3)
        for name in ("rate", "low", "high"):
            np.testing.assert_allclose(getattr(told, name), 2 * getattr(shown, name))

    def test_the_ends_of_the_scale_and_empty_bins(self):
        told = Reliability.of([0, 1, 1 / 3], [0, 1, 0])
        assert told.n_cells.tolist() == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
        assert np.isnan(told.rate).sum() == 12
        assert [row["cells"] for row in told.rows()] == [1, 1, 1]
        assert told.ece == pytest.approx(1 / 9)

    def test_a_check_on_the_same_cells_is_the_reliability_and_isotonic_in_sample_means_agree(self):
        cells = random_cells(7, levels=4)
        for share in (1.0, 0.6):
            found = calibrated(*cells, observed_share=share)
            told, again = found.reliability(), found.check(cells_of(*cells))
            assert told.ece == again.ece
            np.testing.assert_array_equal(told.rate, again.rate)
            assert told.rate[0] > 0
        plain = calibrated(*cells).reliability()
        np.testing.assert_allclose(plain.mean_probability, plain.rate, rtol=1e-9, equal_nan=True)

    def test_probabilities_outside_are_refused(self):
        for bad in (-0.1, 1.1, np.nan):
            with pytest.raises(ValueError, match="between 0 and 1"):
                Reliability.of([0.5, bad], [1, 1])

    def test_it_tells_what_it_has(self):
        found = calibrated(*random_cells(8), observed_share=0.5)
        told = found.reliability()
        assert f"ECE {told.ece:.4f}" in repr(told)
        assert f"{told.n_cells.sum():,} cells" in told.caption
        assert f"{1 / found.label_rate:.3g} positives for each one shown" in told.caption
        points = {series["name"]: series["points"] for series in told.panels[0]["series"]}
        assert [point["mean"] for point in points["observed"]] == [row["rate"] for row in told.rows()]
        assert all(point["x"] == point["mean"] for point in points["perfect"])
        assert "observed_share 0.5" in repr(found)


def test_arrays_hold_all_of_it():
    found = calibrated(*random_cells(9), observed_share=0.7)
    again = Calibration.from_arrays({"other": np.zeros(1), **found.arrays()})
    assert again.arrays().keys() == found.arrays().keys()
    for name, array in found.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], array)
    assert (again.n_training, again.observed_share) == (found.n_training, 0.7)
    assert Calibration.from_arrays({"other": np.zeros(1)}) is None
