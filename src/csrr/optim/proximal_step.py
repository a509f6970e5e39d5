"""One step of accelerated proximal gradient on low-rank + sparse matrices: from one state to the next."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from csrr.arrays import FloatArray
from csrr.optim.certificate import Point
from csrr.optim.krylov import LowRankPlusSparse, eigh_falling, orthonormalize
from csrr.optim.lowrank import LowRank
from csrr.optim.problem import Problem

# Beyond this condition number momentum beats the longer plain step, 2/(L + 1), in time to a given gap.
_MOMENTUM_ABOVE = 9.0
# Deep spaces of thin blocks find the slowly falling tail of the spectrum; flops depend on the total width.
_KRYLOV_DEPTH = 8


@dataclass(frozen=True)
class Pace:
    """Step and momentum for cells of at most `curvature`; the largest of a problem makes every step safe."""

    curvature: float
    step: float
    momentum: float

    @classmethod
    def of(cls, problem: Problem, curvature: float) -> Pace:
        """The best pace for cells of at most this curvature."""
        convexity = problem.convexity
        root = np.sqrt(curvature / convexity)
        is_steep = root**2 > _MOMENTUM_ABOVE or problem.is_slack
        momentum = float((root - 1) / (root + 1)) if is_steep else 0.0
        return cls(curvature, 1 / curvature if momentum else 2 / (curvature + convexity), momentum)

    def slow_down(self, problem: Problem) -> Pace:
        """The pace for cells of twice the curvature, or of the largest there is."""
        return Pace.of(problem, min(2 * self.curvature, problem.smoothness))

    def is_daring(self, problem: Problem) -> bool:
        """Whether steps are longer than the largest curvature of a cell makes safe."""
        return self.curvature < problem.smoothness


@dataclass(frozen=True, eq=False)
class State:
    """Where a search is: U, with spare directions, and what the next step needs to know of the last.

    `previous`, kept where a step may want it, is the U before and its values on the observed cells, (nnz,). `age` is
    the number of steps since the objective last rose. `by_item` says which side's directions the next step keeps:
    they take turns. `is_full`: all directions are in use; `is_cut`: the cap on the rank took something away.
    """

    low_rank: LowRank
    pace: Pace
    previous: tuple[LowRank, FloatArray] | None = None
    age: int = 0
    by_item: bool = False
    is_full: bool = False
    is_cut: bool = False

    @classmethod
    def at(cls, problem: Problem, start: LowRank, cap: int | None) -> State:
        """The state before the first step, from `start`, cut to a rank of `cap`."""
        u = cut_rank(start, cap)
        return cls(u, Pace.of(problem, problem.typical_curvature), is_full=u.width == 0, is_cut=u.rank == cap)

    @property
    def facing(self) -> LowRank:
        """U, or its transpose where the step goes by item: its `right` is the side that is kept."""
        return self.low_rank.T if self.by_item else self.low_rank

    def with_facing(self, u: LowRank) -> State:
        """The state with U, seen from the side that is kept, replaced."""
        return replace(self, low_rank=u.T if self.by_item else u)

    def count_room(self, shape: tuple[int, int], cap: int | None) -> int:
        """How many directions may be added."""
        most = min(shape) if cap is None else min(*shape, cap + count_spare(cap))
        return most - self.low_rank.width


@dataclass(frozen=True, eq=False)
class Ahead:
    """The point Y = U + momentum*(U - before) to step from; the gradient there is Y + S, S of `values`, (nnz,)."""

    values: FloatArray
    before: LowRank | None
    momentum: float
    age: int


def count_spare(rank: int) -> int:
    """How many directions to keep beyond the rank."""
    return max(8, rank // 10)


def cut_rank(u: LowRank, cap: int | None) -> LowRank:
    """The best matrix of rank `cap` at most; what was cut stays as spare directions."""
    if cap is None or u.rank <= cap:
        return u
    return LowRank(u.left, np.where(np.arange(u.width) < cap, u.s, 0), u.right)


def look_ahead(problem: Problem, state: State, point: Point, *, has_risen: bool = False) -> Ahead:
    """The point to step from: U itself, or beyond it where there is momentum and the objective has not risen."""
    momentum, age = state.pace.momentum, state.age
    if problem.is_slack:
        # Linear cells have no curvature to make a constant momentum for; Nesterov's grows until it overshoots.
        age = 0 if has_risen else age + 1
        momentum = age / (age + 3)
    values, before = point.observed, None
    if momentum and state.previous is not None and not has_risen:
        before, observed_before = state.previous
        beta = values.dtype.type(momentum)
        values = (1 + beta) * values - beta * observed_before
    return Ahead(-(problem.pull(values) + values), before, momentum, age)


def take_step(problem: Problem, state: State, point: Point, ahead: Ahead, cap: int | None) -> State:
    """The state after soft-thresholding the singular values of Z = (1 - step)*Y - step*S, seen through one side.

    With `right` orthonormal, Z @ right costs one sparse product (U @ right is at hand), and the triplets of that thin
    matrix are those of Z projected on span(right). The sides take turns, so the directions follow Z by one half of
    a power iteration a step.
    """
    u, engine, dtype = state.facing, problem.engine, problem.target.dtype.type
    x = _project(problem, state, ahead)
    squares, vectors = eigh_falling(engine.cross(x, x).astype(dtype))
    sigma = np.sqrt(squares.astype(np.float64))
    threshold = state.pace.step * problem.l1
    found = int(np.count_nonzero(sigma > threshold))
    rank = min(found, cap or found)
    # The width falls by a tenth at most: directions that are not in use yet get time to settle.
    width = max(rank + count_spare(rank), int(0.9 * len(sigma)))
    width = min(width, int(np.count_nonzero(sigma > 1e-6 * sigma[:1])))
    s = np.where(np.arange(width) < rank, np.maximum(sigma[:width] - threshold, 0), 0)
    left = engine.multiply(x, (vectors[:, :width] / sigma[:width]).astype(dtype))
    right = engine.multiply(u.right, vectors[:, :width].astype(dtype))
    return replace(
        state.with_facing(LowRank(left, s, right)),
        previous=(state.low_rank, point.observed) if ahead.momentum or state.pace.is_daring(problem) else None,
        age=ahead.age,
        by_item=not state.by_item,
        is_full=found > len(sigma) - count_spare(found) // 2,
        is_cut=found > rank,
    )


def _project(problem: Problem, state: State, ahead: Ahead) -> FloatArray:
    """Z @ right, (rows, width), right the side that is kept; Z as in `take_step`."""
    u, dtype = state.facing, problem.target.dtype.type
    x = u.scaled_left
    if ahead.before is not None:
        beta = dtype(ahead.momentum)
        before = ahead.before.T if state.by_item else ahead.before
        x *= 1 + beta
        x -= beta * before.times(u.right, problem.engine)
    x *= dtype(1 - state.pace.step)
    sparse = problem.pattern.fill(ahead.values * dtype(state.pace.step))
    x -= sparse.transposed_times(u.right) if state.by_item else sparse.times(u.right)
    return x


def take_back(problem: Problem, state: State) -> State:
    """The state where the last step began, to take shorter ones from there.

    Most low-rank steps see the mean of many cells' curvatures; the last did not.
    """
    assert state.previous is not None
    return replace(state, low_rank=state.previous[0], previous=None, pace=state.pace.slow_down(problem))


def search_directions(problem: Problem, state: State, ahead: Ahead, cap: int | None, rng: np.random.Generator) -> State:
    """The state with more directions: a short block Krylov space of Z less what is there, Z as in `take_step`."""
    u, engine, dtype = state.facing, problem.engine, problem.target.dtype
    step = state.pace.step
    z = LowRankPlusSparse(state.low_rank, problem.pattern, ahead.values, 1 - step, -step)
    forth, back = (z.transposed_times, z.times) if state.by_item else (z.times, z.transposed_times)
    wanted = min(max(32, u.width // 3), state.count_room(z.shape, cap))
    block = engine.put(rng.standard_normal((len(u.left), -(-wanted // _KRYLOV_DEPTH))).astype(dtype))
    right = u.right
    for _ in range(_KRYLOV_DEPTH):
        fresh = orthonormalize(engine, back(block), right)[:, : u.width + wanted - right.shape[1]]
        right = engine.join_columns([right, fresh])
        block = forth(fresh)
    return _add_directions(problem, state, right)


def absorb_directions(problem: Problem, state: State, leading: LowRank, cap: int | None) -> State:
    """The state with the directions of `leading`, triplets of the gradient, along which that exceeds l1."""
    u, engine = state.facing, problem.engine
    over = leading.s > problem.l1
    found = (leading.left if state.by_item else leading.right)[:, over]
    room = max(state.count_room(problem.pattern.shape, cap), 0)
    fresh = orthonormalize(engine, found, u.right)[:, :room]
    return _add_directions(problem, state, engine.join_columns([u.right, fresh]))


def _add_directions(problem: Problem, state: State, right: FloatArray) -> State:
    """The state with `right`, (rows, width), which begins with the directions there are, as the side that is kept."""
    u, engine = state.facing, problem.engine
    added = right.shape[1] - u.width
    zeros = engine.put(np.zeros((len(u.left), added), problem.target.dtype))
    return state.with_facing(LowRank(engine.join_columns([u.left, zeros]), np.append(u.s, np.zeros(added)), right))
