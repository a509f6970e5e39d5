"""Leading singular triplets and spectral norms of anything that multiplies thin blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from csrr._base.arrays import Float64Array, FloatArray
from csrr._base.threads import seconds_left
from csrr.numerics.engine import Engine
from csrr.numerics.problem import LowRank, Pattern, Sparse


class Operator(Protocol):
    """An (n, m) matrix known by its products with thin blocks, which `engine` computes."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def engine(self) -> Engine: ...
    def put_right(self, x: FloatArray) -> FloatArray:
        """A numpy array, (m, k), as one that `times` takes."""
        ...

    def put_left(self, y: FloatArray) -> FloatArray:
        """A numpy array, (n, k), as one that `transposed_times` takes."""
        ...

    def times(self, x: FloatArray) -> FloatArray:
        """The matrix times x, (m, k): (n, k)."""
        ...

    def transposed_times(self, y: FloatArray) -> FloatArray:
        """The transposed matrix times y, (n, k): (m, k)."""
        ...


class LowRankPlusSparse:
    """a*U + b*S: U low-rank, S with `values`, (nnz,), on the observed cells."""

    def __init__(self, low_rank: LowRank, pattern: Pattern, values: FloatArray, a: float = 1.0, b: float = 1.0) -> None:
        self.low_rank: LowRank = low_rank.trim()
        self.sparse: Sparse = pattern.fill(values * values.dtype.type(b) if b != 1.0 else values)
        self.a: np.floating[Any] = values.dtype.type(a)
        self.shape: tuple[int, int] = pattern.shape
        self.engine: Engine = pattern.engine

    def put_right(self, x: FloatArray) -> FloatArray:
        """The array itself, (m, k): the item side."""
        return x

    def put_left(self, y: FloatArray) -> FloatArray:
        """An array of the user side, (n, k), as one of the engine's own."""
        return self.engine.put(self.sparse.pattern, y)

    def times(self, x: FloatArray) -> FloatArray:
        """The matrix times x, (m, k): (n, k)."""
        out = self.sparse.times(x)
        if self.low_rank.width:
            out += self.a * self.low_rank.times(x, self.engine)
        return out

    def transposed_times(self, y: FloatArray) -> FloatArray:
        """The transposed matrix times y, (n, k): (m, k)."""
        out = self.sparse.transposed_times(y)
        if self.low_rank.width:
            out += self.a * self.low_rank.T.times(y, self.engine)
        return out


class _Flipped:
    def __init__(self, op: Operator) -> None:
        self.shape, self.engine = (op.shape[1], op.shape[0]), op.engine
        self.times, self.transposed_times = op.transposed_times, op.times
        self.put_left, self.put_right = op.put_right, op.put_left


def eigh_falling(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues, (k,), falling and clipped at 0, and eigenvectors, (k, k), of a symmetric matrix, (k, k)."""
    values, vectors = np.linalg.eigh(gram)
    return np.maximum(values[::-1], 0), vectors[:, ::-1].copy()


_SURE = 1e-4
"""The share of the largest pivot of a Gram matrix above which all directions are taken for more than rounding."""


def orthonormalize(engine: Engine, x: FloatArray, *against: FloatArray, rounds: int = 2) -> FloatArray:
    """Orthonormal columns, (rows, at most k), that span those of x, (rows, k), less those of `against`, (rows, c) each.

    Directions that are only rounding are left out. Two rounds: the first leaves errors of the order of the condition
    number of x. A direction must keep more than rounding of the block's own size in the first, and at least half of
    itself in the second. One round is enough where only the span counts.
    """
    eps = float(np.finfo(x.dtype).eps)
    size = float(engine.dot_columns(x, x).max(initial=0))
    if size > 0 and not 1e-20 < size < 1e20:
        # Products of such numbers would leave single precision; a power of two costs no digit.
        scale = 2.0 ** -np.clip(np.round(np.log2(size) / 2), -120, 120)
        x, size = x * x.dtype.type(scale), size * scale**2
    for least in ((100 * eps) ** 2 * size, 0.25)[:rounds]:
        for other in against:
            if other.shape[1]:
                x = x - engine.multiply(other, engine.cross(other, x).astype(x.dtype))
        x = engine.multiply(x, _find_turn(engine.cross(x, x), least, eps).astype(x.dtype))
    return x


def _find_turn(gram: FloatArray, least: float, eps: float) -> FloatArray:
    """What makes columns with this Gram matrix, (k, k), orthonormal, (k, c); directions of rounding are left out."""
    turn: FloatArray | None = None
    if hasattr(gram, "find_turn"):
        # An engine's own way, where no direction is small.
        turn = gram.find_turn(least, _SURE)
    if turn is None:
        values, vectors = eigh_falling(gram)
        keep = values > np.maximum(least, 10 * eps * values[:1])
        turn = vectors[:, keep] / np.sqrt(values[keep])
    return turn


_MOST_BLOCKS = 4
"""The number of blocks that a space has at most before they are joined; one where each would be a round trip."""


class BlockKrylov:
    """Block Krylov space of op.T @ op, grown a block at a time, with its Ritz approximations.

    `basis`, (m, width), has orthonormal columns; `image`, (n, width), is op @ basis.
    """

    def __init__(self, op: Operator, start: FloatArray) -> None:
        """`start`, (m, b): the first block, any independent columns."""
        self.op = op
        self.engine: Engine = op.engine
        # Blocks are joined a few at a time: joined at each step, they would be copied again and again.
        self._basis = [orthonormalize(self.engine, start)]
        self._image = [op.times(self._basis[0])]
        self._gram: Float64Array = self.engine.cross(self._image[0], self._image[0])
        self._last = self._image[0]

    @property
    def width(self) -> int:
        """The dimension of the space."""
        return len(self._gram)

    @property
    def basis(self) -> FloatArray:
        """The basis, (m, width)."""
        self._basis = [self.engine.join_columns(self._basis)]
        return self._basis[0]

    @property
    def image(self) -> FloatArray:
        """The image of the basis, (n, width)."""
        self._image = [self.engine.join_columns(self._image)]
        return self._image[0]

    def extend(self) -> bool:
        """Adds op.T @ op @ (last block); False when the space is exhausted."""
        block = orthonormalize(self.engine, self.op.transposed_times(self._last), *self._basis)
        room = min(self.op.shape) - self.width
        block = block[:, : max(room, 0)]
        if block.shape[1] == 0:
            return False
        self._last = self.op.times(block)
        cross = np.concatenate([self.engine.cross(image, self._last) for image in self._image])
        own = self.engine.cross(self._last, self._last)
        self._gram = np.block([[self._gram, cross], [cross.T, own]])
        self._basis.append(block)
        self._image.append(self._last)
        if len(self._basis) > (1 if getattr(self.engine, "is_far", False) else _MOST_BLOCKS):
            self._basis, self._image = [self.basis], [self.image]
        return True

    def estimate_norm(self) -> float:
        """The largest Ritz value: a lower bound on the norm."""
        return float(np.sqrt(max(np.linalg.eigvalsh(self._gram)[-1], 0.0)))

    def count(self, above: float) -> int:
        """The number of Ritz values, each a lower bound on a singular value, that exceed `above`."""
        return int(np.count_nonzero(np.linalg.eigvalsh(self._gram.astype(np.float32)) > above**2))

    def find_triplets(self, count: int) -> LowRank:
        """The `count` leading Ritz triplets of op."""
        basis, image = self.basis, self.image
        values, vectors = eigh_falling(self._gram)
        s = np.sqrt(values[:count])
        count = int(np.count_nonzero(s > s[:1] * 1e-6))
        vectors = vectors[:, :count].astype(basis.dtype)
        left = self.engine.multiply(image, vectors / s[:count].astype(vectors.dtype))
        return LowRank(left, s[:count], self.engine.multiply(basis, vectors))


def estimate_spectral_norm(
    op: Operator,
    rng: np.random.Generator,
    *,
    dtype: type = np.float32,
    rtol: float = 1e-4,
    max_steps: int = 64,
    near: LowRank | None = None,
) -> tuple[float, Callable[[], LowRank]]:
    """||op||_2, from above up to the error of block Lanczos, and what computes the Ritz triplets found on the way.

    Ritz values rise toward the norm; the last four steps' rise, once it is within rtol, is added on top. Where many
    singular values are nearly as large as the largest, they rise so slowly that they seem to stand still long before.
    `near` is a matrix whose singular vectors are about theirs: the space then begins with these, at the price of as
    many columns a step, and single steps are judged.
    """
    side, flip = _pick_short_side(op)
    start, stride = _draw(side, min(8, *side.shape), rng, dtype), 4
    if near is not None and near.width:
        vectors = near.left if flip else near.right
        start, stride = op.engine.join_columns([vectors, start])[:, : min(side.shape)], 1
    space = BlockKrylov(side, start)
    before = theta = space.estimate_norm()
    for _ in range(0, max_steps, stride):
        grown = [space.extend() for _ in range(stride)][-1]
        # Once the space is exhausted, the top Ritz value is the norm itself.
        before, theta = theta if grown else space.estimate_norm(), space.estimate_norm()
        if theta - before <= rtol * theta:
            break

    def find_triplets() -> LowRank:
        found = space.find_triplets(space.width)
        return found.T if flip else found

    return 2 * theta - before, find_triplets


_WIDEST_LATE = 16
"""The width of a block where the time was up before the first."""


def compute_partial_svd(
    op: Operator,
    rng: np.random.Generator,
    *,
    above: float,
    cap: int | None = None,
    spare: float = 0.0,
    dtype: type = np.float32,
) -> LowRank:
    """The singular triplets of op with values over `above` (at most `cap`), by one block Krylov space.

    The space grows until it is wider than the triplets asked for, twice for a few and 1.3 times for many, so
    those near the threshold, which matter least after soft-thresholding, are the least accurate. `spare` returns
    triplets below it too, up to that share of the space. Where the time is up, the space is as wide as it is then.
    """
    side, flip = _pick_short_side(op)
    small = min(op.shape)
    widest = _WIDEST_LATE if seconds_left() == 0 else 128
    block = int(np.clip(small // 64 if cap is None else cap // 4, 8, widest))
    space = BlockKrylov(side, _draw(side, min(block, small), rng, dtype))
    check_at = 6.0 * block
    while space.extend():
        if seconds_left() == 0:
            break
        if space.width < check_at:
            continue
        wanted = space.count(above)
        wanted = min(wanted, cap or wanted)
        enough = min(2 * wanted, 1.3 * wanted + 500) + block
        if space.width >= enough:
            break
        check_at = max(enough - block, 1.25 * space.width)
    found = space.find_triplets(cap or space.width)
    keep = max(int(np.count_nonzero(found.s > above)), min(int(spare * space.width), found.width))
    found = LowRank(found.left[:, :keep], found.s[:keep], found.right[:, :keep])
    return found.T if flip else found


def _draw(op: Operator, columns: int, rng: np.random.Generator, dtype: type) -> FloatArray:
    """A random block for `op` to multiply, (m, columns)."""
    return op.put_right(rng.standard_normal((op.shape[1], columns)).astype(dtype))


def _pick_short_side(op: Operator) -> tuple[Operator, bool]:
    """The operator or its transpose, whichever has fewer columns, and whether it was flipped.

    Where users are far away, sums over them take longer than those over items, however many there are.
    """
    flip = op.shape[0] < op.shape[1] and not getattr(op.engine, "is_far", False)
    return (_Flipped(op), True) if flip else (op, False)
