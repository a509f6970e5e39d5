import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from csrr._base.threads import use_threads
from csrr.ranking.topk import Restrictions, take_rows


@st.composite
def wishes(draw):
    n, n_items = draw(st.integers(1, 6)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    made = []
    for _ in range(draw(st.integers(0, 4))):
        verb = draw(st.sampled_from(["keep", "leave_out"]))
        share = draw(st.sampled_from([0.02, 0.5, 0.95]))
        for_each = draw(st.booleans())
        made.append((verb, rng.random((n, n_items) if for_each else n_items) < share))
    return n, n_items, made


@given(wishes(), st.sampled_from([1, 2]))
def test_what_is_left_is_what_every_wish_leaves(problem, threads):
    n, n_items, made = problem
    limits, left = Restrictions(n_items), np.ones((n, n_items), bool)
    before_cells = np.ones((n, n_items), bool)
    for verb, cells in made:
        getattr(limits, verb)(sparse.csr_array(cells) if cells.ndim == 2 else np.flatnonzero(cells))
        left &= cells if verb == "keep" else ~cells
        if verb == "keep" or cells.ndim == 1:
            before_cells &= cells if verb == "keep" else ~cells
    scores = np.random.default_rng(0).standard_normal((n, n_items)).astype(np.float32)
    found = scores.copy()
    with use_threads(threads):
        for part in (slice(0, n // 2), slice(n // 2, n)):
            limits.mask(part, found[part])
    np.testing.assert_array_equal(np.where(limits.allowed, found, -np.inf), np.where(left, scores, -np.inf))
    assert limits.count_left() >= before_cells.sum(axis=1).max()


def test_columns_in_any_order_and_twice_are_kept_once():
    cells = sparse.csr_array((np.ones(4), [3, 1, 1, 0], [0, 3, 4]), shape=(2, 4))
    limits = Restrictions(4)
    limits.keep(cells)
    scores = np.ones((2, 4), np.float32)
    limits.mask(slice(0, 2), scores)
    assert (scores > 0).tolist() == [[False, True, False, True], [True, False, False, False]]
    assert limits.count_left() == 2


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(-1, 4), max_size=9))
def test_rows_are_taken_and_nobody_has_an_empty_one(seed, rows):
    dense = np.random.default_rng(seed).random((5, 7)) < 0.4
    found = take_rows(sparse.csr_array(dense), np.array(rows, np.int64))
    expected = np.array([dense[row] if row >= 0 else np.zeros(7, bool) for row in rows]).reshape(len(rows), 7)
    np.testing.assert_array_equal(found.toarray(), expected)


def test_all_rows_in_their_order_are_not_copied():
    matrix = sparse.csr_array(np.eye(3))
    assert take_rows(matrix, np.arange(3)) is matrix
    assert take_rows(matrix, np.array([0, 1])) is not matrix


def test_more_people_than_rows_are_refused():
    limits = Restrictions(3)
    limits.keep(sparse.csr_array(np.eye(3)[:1]))
    with pytest.raises(IndexError):
        limits.mask(slice(0, 2), np.ones((2, 3), np.float32))
