import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from csrr._base.threads import use_threads
from csrr.ranking.metrics import CellCounts, measure_cells
from csrr.ranking.topk import Cells, score_blocks
from tests.reference import metrics as reference

SCORES = np.array([[0.9, 0.1, 0.6, 0.3], [0.2, 0.7, 0.5, 0.5]], np.float32)
SEEN = sparse.csr_array(np.array([[1, 0, 0, 0], [0, 0, 0, 0]], np.float32))
RELEVANT = sparse.csr_array(np.array([[0, 0, 1, 0], [0, 0, 1, 1]], np.float32))
ROWS = np.arange(2)


def counted(scores, relevant, seen, thresholds=(), auc=True):
    counts = CellCounts.empty(np.arange(len(scores)), relevant, seen, thresholds, auc=auc)
    for part, block in score_blocks(lambda rows: scores[rows].copy(), counts.rows, scores.shape[1], seen=seen):
        counts.add(part, block)
    return counts


def random_cells(seed, n=40, m=25, levels=6):
    """Return scores with many ties, and relevant and seen cells that do not overlap, all as dense arrays."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(3, (n, m), p=[0.6, 0.2, 0.2])
    return rng.integers(levels, size=(n, m)).astype(np.float32) / levels, kinds == 1, kinds == 2


def as_csr(dense):
    return sparse.csr_array(dense.astype(np.float32))


def test_hand_written_fractions():
    counts = counted(SCORES, RELEVANT, SEEN, [0.5])
    # User 0: .6 is found, .1 and .3 are no alarms. User 1: both .5 are missed (not above), .7 is a false alarm.
    assert counts.missed.tolist() == [[0], [2]]
    assert counts.false_alarms.tolist() == [[0], [1]]
    assert (counts.positives.tolist(), counts.negatives.tolist()) == ([1, 2], [2, 2])
    assert counts.auc().tolist() == [1, 1 / 2]
    found = counts.measure_rows(0.75)
    np.testing.assert_allclose(found.cell_recall[:, 0], [1, 0])
    np.testing.assert_allclose(found.specificity[:, 0], [1, 1 / 2])
    np.testing.assert_allclose(found.sum[:, 0], [1, 1 / 8])
    np.testing.assert_allclose(found.cost[:, 0], [0, 0.75 * 2 + 0.25])
    together = counts.pool(0.75)
    assert together.cell_recall == pytest.approx([1 / 3])
    assert together.specificity == pytest.approx([3 / 4])
    assert together.sum == pytest.approx([0.75 / 3 + 0.25 * 3 / 4])
    assert together.cost == pytest.approx([1.75])


def test_ties_count_half():
    scores = np.zeros((1, 5), np.float32)
    counts = counted(scores, as_csr(np.array([[1, 1, 0, 0, 0]])), as_csr(np.zeros((1, 5))))
    assert counts.auc().tolist() == [1 / 2]
    # Half of the three others are above the better one.
    assert counts.best.tolist() == [3]


@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(-0.5, 1.5))
@settings(max_examples=60)
def test_counts_equal_the_naive_loop(seed, levels, threshold):
    scores, relevant, seen = random_cells(seed, 6, 9, levels)
    scores[seen & (scores == 0)] = np.inf  # what is seen never matters
    scores[0, :3] = -np.inf
    counts = counted(scores, as_csr(relevant), as_csr(seen), [threshold])
    for u in range(6):
        mine, past = set(np.flatnonzero(relevant[u])), set(np.flatnonzero(seen[u]))
        expected = reference.cells(scores[u].astype(float), mine, past, threshold)
        found = counts.positives[u], counts.missed[u, 0], counts.negatives[u], counts.false_alarms[u, 0]
        assert found == expected
        np.testing.assert_allclose(counts.auc()[u], reference.auc(scores[u], mine, past), rtol=1e-12)


def test_a_threshold_between_two_float32_is_not_rounded_up():
    score = np.float32(0.1)  # a little above 0.1
    zero = as_csr(np.zeros((1, 1)))
    for threshold, above in ((0.1, 1), (float(score), 0), (np.nextafter(float(score), 0), 1)):
        assert counted(np.full((1, 1), score), zero, zero, [threshold]).false_alarms.tolist() == [[above]]


def test_scikit_learn_agrees():
    sklearn = pytest.importorskip("sklearn.metrics")
    scores, relevant, seen = random_cells(3)
    counts = counted(scores, as_csr(relevant), as_csr(seen), [0.5])
    aucs = [sklearn.roc_auc_score(relevant[u][~seen[u]], scores[u][~seen[u]]) for u in range(len(scores))]
    np.testing.assert_allclose(counts.auc(), aucs, rtol=1e-12)
    table = sklearn.confusion_matrix(relevant[~seen], scores[~seen] > 0.5)
    found = counts.pool(0.5)
    assert found.specificity == pytest.approx([table[0, 0] / table[0].sum()])
    assert found.cell_recall == pytest.approx([table[1, 1] / table[1].sum()])


@pytest.mark.parametrize("positive_cost", [0.2, 0.5, 0.9])
def test_lemma_1_the_same_threshold_is_best_for_cost_and_for_sum(positive_cost):
    rng = np.random.default_rng(0)
    _, relevant, seen = random_cells(5)
    scores = (0.4 * relevant + rng.random(relevant.shape)).astype(np.float32)
    n_positive, n_negative = (relevant & ~seen).sum(), (~relevant & ~seen).sum()
    # alpha = mu_p*T_n / (mu_n*T_p) = c_p/c_n
    odds = positive_cost * n_positive / ((1 - positive_cost) * n_negative)
    thresholds = np.linspace(-0.1, 1.5, 200)

    def measured(weight):
        rows = np.arange(len(scores))
        cells = Cells(lambda rows: scores[rows].copy(), rows, 25, as_csr(relevant), as_csr(seen))
        return measure_cells(cells, thresholds, weight)

    cost, total = measured(positive_cost).cost, measured(odds / (1 + odds)).sum
    assert np.argmin(cost) == np.argmax(total)
    slope = np.polyfit(cost, total, 1)
    np.testing.assert_allclose(total, np.polyval(slope, cost), atol=1e-12)
    assert slope[0] < 0
    if positive_cost != 0.5:  # and with weights that do not match, another one is
        assert np.argmin(cost) != np.argmax(measured(1 - odds / (1 + odds)).sum)


def test_measures_of_several_thresholds_are_those_of_each():
    scores, relevant, seen = random_cells(7)
    thresholds = np.array([0.7, -1, 0.25])
    rows = np.array([3, 30, 4])
    cells = Cells(lambda rows: scores[rows].copy(), rows, 25, as_csr(relevant), as_csr(seen))
    together = measure_cells(cells, thresholds, 0.7)
    for place, threshold in enumerate(thresholds):
        alone = measure_cells(cells, [threshold], 0.7)
        for name in ("cell_recall", "specificity", "sum", "cost"):
            assert getattr(together, name).shape == (3,)
            assert getattr(together, name)[place] == getattr(alone, name)[0]
    assert (together.cell_recall[1], together.specificity[1]) == (1, 0)


@pytest.mark.parametrize(("thresholds", "cost"), [([np.nan], 0.5), ([[0.5]], 0.5), ([0.5], 1.5), ([0.5], np.nan)])
def test_bad_thresholds_and_costs_are_named(thresholds, cost):
    with pytest.raises(ValueError, match=r"threshold|positive_cost"):
        measure_cells(Cells(lambda rows: SCORES[rows].copy(), ROWS, 4, RELEVANT, SEEN), thresholds, cost)


def test_a_block_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="shape"):
        measure_cells(Cells(lambda rows: SCORES[rows, :3].copy(), ROWS, 4, RELEVANT, SEEN), [0.5])


def test_linearised_values_have_the_pooled_mean():
    scores, relevant, seen = random_cells(11)
    counts = counted(scores, as_csr(relevant), as_csr(seen), [0.3, 0.6])
    for name in ("cell_recall", "specificity", "sum", "cost"):
        values = getattr(counts.linearize(0.8), name)
        np.testing.assert_allclose(values.mean(axis=0), getattr(counts.pool(0.8), name), rtol=1e-12)


def test_no_negatives_no_value():
    full = as_csr(np.ones((1, 3)))
    counts = counted(np.ones((1, 3), np.float32), full, as_csr(np.zeros((1, 3))), [0.5])
    assert np.isnan(counts.auc()).all()
    assert np.isnan(counts.pool(0.5).specificity).all()
    assert np.isnan(counts.linearize(0.5).sum).all()
    assert counts.pool(0.5).cell_recall.tolist() == [1]


def test_threads_do_not_change_the_counts():
    scores, relevant, seen = random_cells(13, n=97)
    found = []
    for threads in (1, 2):
        with use_threads(threads):
            found.append(counted(scores, as_csr(relevant), as_csr(seen), [0.2, 0.5]))
    for name in ("missed", "false_alarms", "beaten"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))
