import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from csrr.ranking.topk import choose_block_rows, score_blocks

SCORES = np.arange(35, dtype=np.float32).reshape(7, 5)


def joined(rows, n_items=5, scores=SCORES, **options):
    """Return all blocks one under the other, and the slices they came with."""
    parts, blocks = [], []
    for part, block in score_blocks(lambda asked: scores[asked].copy(), rows, n_items, **options):
        parts.append(part)
        blocks.append(block)
    return np.concatenate([*blocks, np.empty((0, blocks[0].shape[1] if blocks else n_items), scores.dtype)]), parts


@given(
    rows=st.lists(st.integers(0, 6), max_size=12),
    block_rows=st.none() | st.integers(1, 5),
    density=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_blocks_are_the_rows_asked_for_whatever_their_size(rows, block_rows, density):
    rows = np.array(rows, np.int64)
    seen = np.random.default_rng(len(rows)).random(SCORES.shape) < density
    found, parts = joined(rows, seen=sparse.csr_array(seen), block_rows=block_rows)
    np.testing.assert_array_equal(found, np.where(seen, -np.inf, SCORES)[rows])
    assert [place for part in parts for place in range(len(rows))[part]] == list(range(len(rows)))
    assert all(part.stop - part.start <= (block_rows or choose_block_rows(5)) for part in parts)


def test_scores_of_another_type_can_be_asked_for():
    found, _ = joined(np.array([3]), scores=SCORES.astype(np.float64), dtype=np.float64)
    assert found.dtype == np.float64


@pytest.mark.parametrize("scores", [SCORES.astype(np.float64), SCORES[:, :4]])
def test_what_a_scorer_may_not_return(scores):
    with pytest.raises(ValueError, match=r"it must be float32 of shape \(2, 5\)"):
        joined(np.array([0, 1]), scores=scores)


def test_blocks_are_contiguous_whatever_the_scorer_returns():
    turned = np.asfortranarray(SCORES)
    [(_, block)] = score_blocks(lambda rows: turned, np.arange(7), 5, seen=sparse.csr_array(SCORES == 0))
    assert block.flags.c_contiguous
    assert block[0].tolist() == [-np.inf, 1, 2, 3, 4]
    assert turned[0, 0] == 0  # the scorer's own is left alone where it had to be copied
