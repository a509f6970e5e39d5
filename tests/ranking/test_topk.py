import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from csrr._base.threads import use_threads
from csrr.ranking.loops import CHUNK
from csrr.ranking.topk import BLOCK_BYTES, ItemOrder, Restrictions, block_top_k, choose_block_rows, mask_cells, top_k

FEW_VALUES = st.sampled_from([-np.inf, -1.0, 0.0, -0.0, 0.5, 2.0, np.inf])
SHAPES = st.tuples(st.integers(0, 6), st.integers(0, 3 * CHUNK))


def by_lexsort(scores, k, popularity=None):
    """Return items and scores, shapes (b, k), from a full sort of each row: by score, popularity and item row."""
    items = np.full((len(scores), k), -1, np.int32)
    best = np.full((len(scores), k), -np.inf, np.float32)
    for i, row in enumerate(scores):
        order = np.lexsort((np.arange(len(row)), np.zeros(len(row)) if popularity is None else -popularity, -row))
        kept = order[row[order] > -np.inf][:k]
        items[i, : len(kept)] = kept
        best[i, : len(kept)] = row[kept]
    return items, best


def assert_same(found, expected):
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    assert found[0].dtype == np.int32
    assert found[1].dtype == np.float32


@given(hnp.arrays(np.float32, SHAPES, elements=FEW_VALUES), st.integers(0, 150))
def test_block_top_k_is_a_stable_sort_with_many_ties(scores, k):
    assert_same(block_top_k(scores, k), by_lexsort(scores, k))


@given(
    hnp.arrays(np.float32, SHAPES, elements=FEW_VALUES),
    st.integers(0, 150),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 5, 10**6]),
)
def test_equal_scores_go_by_popularity_then_by_row(scores, k, seed, most):
    popularity = np.random.default_rng(seed).integers(most, size=scores.shape[1])
    order = ItemOrder.by_popularity(popularity)
    assert_same(block_top_k(scores, k, order), by_lexsort(scores, k, popularity))


@pytest.mark.parametrize("block_rows", [1, 7, None])
@pytest.mark.parametrize("threads", [1, 2])
def test_ties_fall_alike_whatever_the_blocks_and_threads(block_rows, threads):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, (40, 700)).astype(np.float32)
    popularity = rng.integers(0, 9, 700)
    with use_threads(threads):
        found = top_k(
            lambda rows: scores[rows],
            np.arange(40),
            700,
            30,
            order=ItemOrder.by_popularity(popularity),
            block_rows=block_rows,
        )
    assert_same(found, by_lexsort(scores, 30, popularity))


@given(hnp.arrays(np.float32, SHAPES, elements=FEW_VALUES), st.integers(0, 150), st.integers(0, 2**32 - 1))
def test_what_is_not_allowed_is_in_no_list(scores, k, seed):
    rng = np.random.default_rng(seed)
    allowed, popularity = rng.random(scores.shape[1]) < rng.random(), rng.integers(4, size=scores.shape[1])
    found = block_top_k(scores, k, ItemOrder.by_popularity(popularity), allowed)
    assert_same(found, by_lexsort(np.where(allowed, scores, -np.inf), k, popularity))


def test_a_score_that_is_not_allowed_may_be_anything():
    scores = np.array([[1, np.nan, 2]], np.float32)
    assert block_top_k(scores, 3, None, np.array([True, False, True]))[0].tolist() == [[2, 0, -1]]
    with pytest.raises(ValueError, match="item row 1"):
        block_top_k(scores, 3, None, np.array([False, True, True]))


@pytest.mark.parametrize("allowed", [np.ones(3, bool), np.ones(2)])
def test_what_is_allowed_must_be_said_of_every_item(allowed):
    with pytest.raises(ValueError, match=r"it must be bool of shape \(2,\)"):
        block_top_k(np.zeros((1, 2), np.float32), 1, None, allowed)


def test_an_order_of_other_items_is_refused():
    with pytest.raises(ValueError, match="the order is one of 3 items; it must be of 2"):
        block_top_k(np.zeros((1, 2), np.float32), 1, ItemOrder.by_row(3))


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from(["random", "rising", "falling"]))
def test_block_top_k_in_any_order_of_scores(seed, k, order):
    scores = np.random.default_rng(seed).standard_normal((3, 500), dtype=np.float32)
    if order != "random":
        scores = np.sort(scores, axis=1)[:, :: 1 if order == "rising" else -1]
    assert_same(block_top_k(scores, k), by_lexsort(scores, k))


def test_a_masked_row_gives_no_items():
    items, scores = block_top_k(np.full((2, 70), -np.inf, np.float32), 3)
    assert (items == -1).all()
    assert (scores == -np.inf).all()


def test_k_beyond_the_items_is_padded():
    items, scores = block_top_k([[1.0, 3.0, 2.0]], 5)
    assert items.tolist() == [[1, 2, 0, -1, -1]]
    assert scores.tolist() == [[3.0, 2.0, 1.0, -np.inf, -np.inf]]


@pytest.mark.parametrize("place", [0, 5, CHUNK, 199])
def test_nan_is_refused_with_its_place(place):
    scores = np.arange(400, 0, -1, dtype=np.float32).reshape(2, 200)
    scores[1, place] = np.nan
    with pytest.raises(ValueError, match=f"NaN: row 1 of the block, item row {place}$"):
        block_top_k(scores, 3)


def test_bad_shapes_are_refused():
    with pytest.raises(ValueError, match=r"shape \(rows, items\)"):
        block_top_k([1.0, 2.0], 1)
    with pytest.raises(ValueError, match="k=-1"):
        block_top_k([[1.0]], -1)


def test_threads_do_not_change_the_result():
    scores = np.random.default_rng(0).integers(0, 30, (301, 1000)).astype(np.float32)
    with use_threads(1):
        alone = block_top_k(scores, 25)
    with use_threads(2):
        together = block_top_k(scores, 25)
    assert_same(together, alone)
    assert_same(alone, by_lexsort(scores, 25))


def test_mask_cells_follows_the_rows_asked_for():
    seen = sparse.csr_array(np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0]], np.float32))
    scores = np.ones((3, 3), np.float32)
    mask_cells(scores, seen.indptr, seen.indices, np.array([1, 1, 0]))
    assert (scores == -np.inf).tolist() == [[False, True, True], [False, True, True], [True, False, False]]


@pytest.mark.parametrize("rows", [[0, 3], [-1, 0], [0]])
def test_rows_outside_the_matrix_are_refused(rows):
    seen = sparse.csr_array((3, 2), dtype=np.float32)
    with pytest.raises(IndexError, match="rows must be 2 numbers from 0 to 2"):
        mask_cells(np.ones((2, 2), np.float32), seen.indptr, seen.indices, np.array(rows))


@st.composite
def problems(draw):
    n_users, n_items = draw(st.integers(1, 9)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = rng.integers(n_users, size=draw(st.integers(0, 12)))
    return {
        "scores": rng.integers(-2, 3, (n_users, n_items)).astype(np.float32),
        "rows": rows,
        "k": draw(st.integers(1, 14)),
        "seen": draw(st.sampled_from([None, rng.random((n_users, n_items)) < 0.4])),
        "candidates": draw(st.sampled_from([None, rng.integers(n_items, size=rng.integers(0, n_items + 1))])),
        "exclude": draw(st.sampled_from([None, rng.integers(n_items, size=2), rng.random((len(rows), n_items)) < 0.3])),
        "block_rows": draw(st.sampled_from([None, 1, 2, 5])),
    }


@given(problems())
def test_top_k_leaves_out_what_it_must_and_nothing_else(problem):
    scores, rows, seen, exclude = (problem[name] for name in ("scores", "rows", "seen", "exclude"))
    n_items = scores.shape[1]
    expected = scores[rows]
    if seen is not None:
        expected[seen[rows]] = -np.inf
    if problem["candidates"] is not None:
        expected[:, ~np.isin(np.arange(n_items), problem["candidates"])] = -np.inf
    if exclude is not None and exclude.ndim == 2:
        expected[exclude] = -np.inf
    elif exclude is not None:
        expected[:, exclude] = -np.inf
    limits = Restrictions(n_items)
    if exclude is not None:
        limits.leave_out(sparse.csr_array(exclude) if exclude.ndim == 2 else exclude)
    found = top_k(
        lambda part: scores[part],
        rows,
        n_items,
        problem["k"],
        seen=None if seen is None else sparse.csr_array(seen),
        candidates=problem["candidates"],
        limits=limits,
        block_rows=problem["block_rows"],
    )
    assert_same(found, by_lexsort(expected, problem["k"]))


def test_blocks_never_exceed_their_size():
    sizes = []

    def score(rows):
        sizes.append(len(rows))
        return np.zeros((len(rows), 2), np.float32)

    top_k(score, np.arange(10), 2, 1, block_rows=4)
    assert sizes == [4, 4, 2]
    assert choose_block_rows(10) == 4096
    assert choose_block_rows(40_000) * 40_000 * 4 <= BLOCK_BYTES
    assert choose_block_rows(10**9) == 32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seen": sparse.csr_array((3, 2))}, r"seen has shape \(3, 2\); it must be \(4, 2\)"),
        ({"seen": sparse.csr_array((4, 3))}, "seen has shape"),
    ],
)
def test_masks_of_the_wrong_shape_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        top_k(lambda rows: np.zeros((len(rows), 2), np.float32), np.array([0, 3]), 2, 1, **options)


@pytest.mark.parametrize("block", [np.zeros((1, 2)), np.zeros((1, 3), np.float32)])
def test_a_wrong_score_block_is_refused(block):
    with pytest.raises(ValueError, match=r"must be float32 of shape \(1, 2\)"):
        top_k(lambda rows: block, np.array([0]), 2, 1)
