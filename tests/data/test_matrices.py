import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from csrr.data.errors import DataError
from csrr.data.log import Log, as_log

DENSE = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 5]])


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
def test_every_sparse_format_gives_the_log_of_the_dense_matrix(format, kind):
    matrix = getattr(sparse, f"{format}_{kind}")(DENSE.astype(float))
    log = as_log(matrix)
    assert log == as_log(DENSE)
    assert (log.n_users, log.n_items) == (3, 4)
    assert log.weights.tolist() == [2, 1, 3, 5]
    assert log.users.identity


@given(hnp.arrays(np.int8, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.integers(0, 3)))
def test_a_matrix_comes_back(dense):
    if not dense.any():
        with pytest.raises(DataError, match="no events left"):
            as_log(dense)
        return
    log = as_log(dense)
    np.testing.assert_array_equal(log.to_csr().toarray(), dense > 0)
    if log.weights is None:
        assert set(dense.ravel().tolist()) <= {0, 1}
    else:
        np.testing.assert_array_equal(log.to_csr(weighted=True).toarray(), dense)


def test_ones_are_not_weights():
    for dtype in (bool, np.uint8, np.float32):
        assert as_log(np.eye(3, dtype=dtype)).weights is None


def test_explicit_zeros_go_and_duplicates_add_up():
    matrix = sparse.coo_array(([1.0, 2.0, 0.0, 4.0], ([0, 0, 1, 1], [1, 1, 0, 1])), shape=(2, 2))
    log = as_log(matrix)
    assert (log.user_rows.tolist(), log.item_rows.tolist(), log.weights.tolist()) == ([0, 1], [1, 1], [3, 4])


def test_the_matrix_is_left_alone():
    matrix = sparse.csr_array(([0.0, 1.0, 1.0], ([0, 0, 0], [2, 1, 1])), shape=(1, 3))
    before = matrix.copy()
    as_log(matrix)
    np.testing.assert_array_equal(matrix.data, before.data)
    np.testing.assert_array_equal(matrix.indices, before.indices)


def test_given_ids_are_sorted_with_their_rows():
    log = Log.from_matrix(DENSE, user_ids=["c", "b", "a"], item_ids=[40, 30, 20, 10], titles=["w", "x", "y", "z"])
    assert log.users.ids.tolist() == ["a", "b", "c"]
    assert log.titles.tolist() == ["z", "y", "x", "w"]
    np.testing.assert_array_equal(log.to_csr(weighted=True).toarray(), DENSE[::-1, ::-1])
    assert log.history("a").tolist() == [10, 40]


def test_values_as_ratings_and_as_weights():
    rated = Log.from_matrix(DENSE, min_rating=3)
    assert rated.weights is None
    assert rated.history(2).tolist() == [0, 3]
    assert rated.n_users == 3
    assert Log.from_matrix(DENSE, min_weight=3).weights.tolist() == [3, 5]
    with pytest.raises(DataError, match="the matrix has no value >= 6"):
        Log.from_matrix(DENSE, min_rating=6)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.zeros(3), "this one has 1"),
        (np.zeros((2, 2, 2)), "this one has 3"),
        (np.zeros((0, 3)), "the matrix is empty: its shape is 0 x 3"),
        (sparse.csr_array((2, 3)), "no events left: the matrix has no value above 0"),
        (np.full((2, 2), 1e-60), "no events left: the matrix has no value above 0"),
        (np.array([[1, 0], [0, -1]]), "has -1 at row 1, column 1"),
        (np.array([[1, np.nan]]), "has nan at row 0, column 1"),
        (sparse.csr_array([[1, 0, np.inf]]), "has inf at row 0, column 2"),
        (sparse.coo_array(([-1.0, 2.0], ([0, 0], [0, 0])), shape=(1, 1)), "has -1.0 at row 0, column 0"),
        (np.array([["a"]]), "holds <U1"),
        (np.array([[1j]]), "holds complex128"),
    ],
)
def test_bad_matrices_are_refused_in_plain_words(matrix, words):
    with pytest.raises(DataError) as caught:
        as_log(matrix)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (
            {"user_ids": range(4), "item_ids": range(3)},
            "looks transposed: the matrix is 3 x 4 but there are 4 user",
        ),
        ({"user_ids": range(4)}, "looks transposed"),
        ({"item_ids": range(3)}, "pass matrix.T"),
        ({"user_ids": range(5)}, "the matrix is 3 x 4 but there are 5 user ids; give one"),
        ({"user_ids": [1, 1, 2]}, "1 appears more than once"),
        ({"titles": ["a"]}, "there are 1 titles for 4 items"),
    ],
)
def test_ids_that_do_not_fit_are_refused(ids, words):
    with pytest.raises(DataError) as caught:
        Log.from_matrix(DENSE, **ids)
    assert words in str(caught.value)


def lie(format, **parts):
    """A matrix of which parts are not what they must be, as `scipy.sparse.load_npz` makes it of a file."""
    matrix = sparse.random_array((6, 4), density=0.6, format=format, rng=np.random.default_rng(0))
    for name, value in parts.items():
        setattr(matrix, name, np.array(value))
    return matrix


LIES = {
    "pointers fall": lie("csr", indptr=[0, 9, 2, 5, 7, 9, 14]),
    "pointers end beyond the data": lie("csr", indptr=[0, 2, 4, 6, 8, 10, 10**6]),
    "pointers begin below 0": lie("csr", indptr=[-5, 2, 4, 6, 8, 10, 14]),
    "too few pointers": lie("csr", indptr=[0, 2, 4]),
    "no pointers": lie("csr", indptr=np.zeros(0, int)),
    "an index too large": lie("csr", indices=[10**6] * 14),
    "an index below 0": lie("csr", indices=[-1] * 14),
    "indices that are fractions": lie("csr", indices=np.ones(14)),
    "indices in two dimensions": lie("csr", indices=np.ones((14, 1), int)),
    "too few values": lie("csr", data=[1.0]),
    "pointers of columns": lie("csc", indptr=[0, 9, 2, 5, 14]),
    "blocks elsewhere": lie("bsr", indices=[99] * 14),
    "a row too large": lie("coo", coords=([99] * 14, [0] * 14)),
    "too few diagonals": lie("dia", offsets=[0]),
    "a diagonal far outside": lie("dia", offsets=[-4, -3, -2, -1, 0, 1, 2**32 + 3]),
    "a list with too many values": lie("lil", data=np.array([[1.0], [], [1.0] * 9, [], [], []], dtype=object)),
    "a list with a column too large": lie("lil", rows=np.array([[99], [], [], [], [], []], dtype=object)),
}


@pytest.mark.parametrize("matrix", LIES.values(), ids=LIES)
def test_a_matrix_that_lies_is_refused_before_it_ends_the_process(matrix):
    with pytest.raises(DataError, match=r"the matrix is damaged: .*; make it again from its entries"):
        as_log(matrix)


@pytest.mark.parametrize("shape", [(2**40, 4), (2**62, 2**62)])
def test_a_matrix_of_next_to_nothing_in_a_huge_shape(shape):
    with pytest.raises(DataError, match="whatever is in it, holds more than"):
        as_log(sparse.coo_array(([1.0], ([5], [3])), shape=shape))


@pytest.mark.parametrize("format", ["csr", "csc", "bsr"])
def test_entries_behind_the_last_row_do_not_count(format):
    matrix = sparse.csr_array(DENSE.astype(float)).asformat(format)
    expected = as_log(matrix)
    matrix.indices, matrix.data = (np.concatenate((part, part[:2])) for part in (matrix.indices, matrix.data))
    assert as_log(matrix) == expected
    assert len(matrix.indices) > matrix.indptr[-1]
