"""The problem in factors, U = P Q': alternating half-steps, one function for both sides by transposing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from csrr._base.arrays import Float64Array, FloatArray
from csrr._base.lazy_jit import compile_loop, compile_part
from csrr.numerics.certificate import SLACK, Certificate, Status, compute_gap
from csrr.numerics.engine import Engine
from csrr.numerics.krylov import eigh_falling, orthonormalize
from csrr.numerics.problem import LowRank, Pattern, Problem
from csrr.numerics.solver import Callback, Options, Solution, Step, Trace


@compile_part(fastmath=True)
def weigh_cell(u, target, weight, v_penalty, has_v):  # type: ignore[no-untyped-def]
    # (h(u) - u^2/2, -h'(u) + u): what an observed cell adds to the loss and to the right-hand side, beyond its
    # share in the all-cells term 1/2*||P Q'||^2
    error = target - u
    penalty = 0.0
    if has_v:
        v = min(max(error - v_penalty / weight, 0.0), 1.0)
        penalty = v_penalty * v
        error -= v
    return penalty + 0.5 * (weight * error * error - u * u), weight * error + u


@compile_part(fastmath=True)
def add_pulls(first, last, indices, target, weight, v_penalty, has_v, mine, other, out):  # type: ignore[no-untyped-def]
    # out += sum_j c_j * other[j], c = -h'(u) + u, over the cells of one row; returns sum_j (h(u) - u^2/2)
    width, kind = len(mine), mine.dtype.type
    total = 0.0
    for p in range(first, last):
        theirs = other[indices[p]]
        u = kind(0)
        for k in range(width):
            u += mine[k] * theirs[k]
        value, pull = weigh_cell(u, target[p], weight[p], v_penalty[p] if has_v else 0.0, has_v)
        total += value
        pull = kind(pull)
        for k in range(width):
            out[k] += pull * theirs[k]
    return total


@compile_loop(fastmath=True)
def pull_rows(indptr, indices, target, weight, v_penalty, own, has_v, other, out, loss):  # type: ignore[no-untyped-def]
    # out[i] += sum_j c_ij * other[j], c = -h'(u) + u, and loss[i] = sum_j (h(u) - u^2/2), u = own[i] . other[j]
    for i in range(len(own)):
        loss[i] = add_pulls(indptr[i], indptr[i + 1], indices, target, weight, v_penalty, has_v, own[i], other, out[i])


@compile_loop(fastmath=True)
def descend_rows(  # type: ignore[no-untyped-def]
    indptr, indices, target, weight, v_penalty, own, reg, has_v, other, curvature, steps, relax, scratch, loss
):
    # Moves the rows of `own`, and fills `loss`; `scratch` is there to work in, (4, d).
    # With other' @ other = diag(curvature), each row p of `own` has the objective
    #     1/2*p'Mp + sum_j (h(u_j) - u_j^2/2),   M = diag(curvature + reg[i]),   u_j = p . other[j].
    # loss[i] = that objective; then `steps` of conjugate gradients, preconditioned by M, with V held fixed:
    #     A = M + sum_j (w_j - 1) * other[j] other[j]'.
    # V fixed makes the objective quadratic, and V at its best before the step makes it touch from above: it falls.
    # The last step is `relax` times as long as the best along its direction; short of twice, it falls all the same.
    width, kind = own.shape[1], own.dtype.type
    m, residual, direction, image = scratch[0], scratch[1], scratch[2], scratch[3]
    for i in range(len(own)):
        mine = own[i]
        total = 0.0
        for k in range(width):
            # A column without curvature or penalty has no say, and must not divide by zero.
            m[k] = max(curvature[k] + reg[i], kind(1e-30))
            residual[k] = -m[k] * mine[k]
            total -= 0.5 * mine[k] * residual[k]
        first, last = indptr[i], indptr[i + 1]
        loss[i] = total + add_pulls(first, last, indices, target, weight, v_penalty, has_v, mine, other, residual)
        size = kind(0)
        for k in range(width):
            direction[k] = residual[k] / m[k]
            size += residual[k] * direction[k]
        for step in range(steps):
            is_last = step == steps - 1
            bend = kind(0)
            for k in range(width):
                image[k] = m[k] * direction[k]
                bend += image[k] * direction[k]
            for p in range(first, last):
                theirs = other[indices[p]]
                along = kind(0)
                for k in range(width):
                    along += direction[k] * theirs[k]
                extra = kind(weight[p] - 1) * along
                bend += extra * along
                if not is_last:
                    for k in range(width):
                        image[k] += extra * theirs[k]
            if not bend > 0 or not size > 0:
                break
            length = kind(relax) * size / bend if is_last else size / bend
            for k in range(width):
                mine[k] += length * direction[k]
            if is_last:
                break
            smaller = kind(0)
            for k in range(width):
                residual[k] -= length * image[k]
                smaller += residual[k] * residual[k] / m[k]
            ratio = smaller / size
            size = smaller
            for k in range(width):
                direction[k] = residual[k] / m[k] + ratio * direction[k]


@dataclass(frozen=True, eq=False)
class Factors:
    """P of (n, d) and Q of (m, d); the matrix is P Q'."""

    users: FloatArray
    items: FloatArray

    @property
    def T(self) -> Factors:
        """The factors of the transposed matrix."""
        return Factors(self.items, self.users)

    @classmethod
    def of(cls, u: LowRank) -> Factors:
        """The balanced factors: P = left*sqrt(s), Q = right*sqrt(s)."""
        root = np.sqrt(u.s).astype(u.left.dtype)
        return cls(u.left * root, u.right * root)

    def to_low_rank(self, engine: Engine) -> LowRank:
        """The singular triplets of P Q', without those that are rounding."""
        return self.split_low_rank(engine)[0]

    def split_low_rank(self, engine: Engine) -> tuple[LowRank, float]:
        """The singular triplets of P Q' without those that are rounding, whose singular values are summed."""
        balanced, s = self.balance(engine)
        keep = s > max(_choose_cutoff(self.users.dtype) * s.max(initial=0), _LEAST)
        scale = (s[keep] ** -0.5).astype(self.users.dtype)
        select = np.eye(len(s), dtype=scale.dtype)[:, keep] * scale
        left, right = (engine.multiply(f, select) for f in (balanced.users, balanced.items))
        return LowRank(left, s[keep], right), float(s[~keep].sum())

    def balance(self, engine: Engine, diagonal: FloatArray | None = None) -> tuple[Factors, Float64Array]:
        """Factors of the same matrix with P'P = Q'Q = diag(s), s its singular values: the least ||P||^2 + ||Q||^2.

        With P'P = E diag(g) E' and R = E diag(sqrt(g)), the squares of the singular values are the eigenvalues of
        R'(Q'Q)R = F diag(s^2) F', so P E diag(1/sqrt(g)) F diag(sqrt(s)) and Q R F diag(1/sqrt(s)) do. Where s is
        rounding, the factors are smaller than balanced ones; what is returned as s, (d,), is always the diagonal of
        Q'Q. `diagonal`, (d,), if given, is g where P'P is known to be diagonal.
        """
        nothing = _choose_cutoff(self.users.dtype)
        if diagonal is None:
            g, E = eigh_falling(engine.cross(self.users, self.users))
        else:
            g, E = diagonal, np.eye(len(diagonal))
        root = np.sqrt(np.maximum(g, nothing**2 * max(float(g.max(initial=0)), _LEAST)))
        R = E * root
        squares, F = eigh_falling(R.T @ engine.cross(self.items, self.items) @ R)
        s = np.sqrt(squares)
        s = np.maximum(s, nothing * max(float(s.max(initial=0)), _LEAST))
        dtype = self.users.dtype
        users = engine.multiply(self.users, ((E / root) @ (F * np.sqrt(s))).astype(dtype))
        items = engine.multiply(self.items, ((R @ F) / np.sqrt(s)).astype(dtype))
        # Not squares/s: where that is rounding it is far from the diagonal, and the next step would rise.
        return Factors(users, items), engine.dot_columns(items, items)

    def diagonalize(self, engine: Engine) -> tuple[Factors, FloatArray]:
        """Factors of the same matrix, turned so that Q'Q is diagonal, and that diagonal, (d,)."""
        g, E = eigh_falling(engine.cross(self.items, self.items))
        turn = E.astype(self.users.dtype)
        return Factors(engine.multiply(self.users, turn), engine.multiply(self.items, turn)), g


# Of a matrix that is nothing at all: what can still be divided by in single precision.
_LEAST = 1e-30


def _choose_cutoff(dtype: Any) -> float:
    """The share of the largest singular value below which another is rounding."""
    return 1e-6 if dtype == np.float32 else 1e-9


def descend(
    problem: Problem,
    own: FloatArray,
    other: FloatArray,
    curvature: FloatArray,
    reg: FloatArray,
    steps: int,
    relax: float = 1.0,
) -> tuple[FloatArray, float]:
    """A lower point than `own`, (n, d), with `other`, (m, d), held fixed, (n, d); and the objective at `own` itself,
    less the penalty of `other`:

        sum_i reg_i/2*||own_i||^2 + sum_obs h(u) + 1/2*sum_unobs u^2,   u = own other'.

    other'other must be diag(curvature), (d,); reg is (n,). Costs `steps` + 1 passes over the observed cells; 0 steps
    only evaluate. The last step is `relax` times as long as is best for `own` alone, which may be better for what
    follows.
    """
    # A strength too small for the type is the least one: what it is added to may be 0.
    strengths = reg.clip(np.finfo(own.dtype).tiny).astype(own.dtype)
    return problem.engine.descend_rows(problem, own, other, curvature.astype(own.dtype), strengths, steps, relax)


def compute_objective(problem: Problem, factors: Factors) -> float:
    """l1/2*(||P||^2 + ||Q||^2) + sum_obs h(P Q') + 1/2*sum_unobs (P Q')^2."""
    P, Q = factors.users, factors.items
    _, loss = problem.engine.pull_rows(problem, P, Q)
    grams = [problem.engine.cross(f, f) for f in (P, Q)]
    return loss + 0.5 * float(np.sum(grams[0] * grams[1])) + 0.5 * problem.l1 * float(sum(map(np.trace, grams)))


def find_leading_factors(
    pattern: Pattern, values: FloatArray, rank: int, threshold: float, rng: np.random.Generator, passes: int = 2
) -> Factors:
    """Balanced factors, rank `rank`, of a rough soft-thresholded SVD of the sparse matrix with `values`.

    Singular values below the threshold keep a thousandth, so that their directions can grow.
    """
    dtype, engine = values.dtype, pattern.engine
    width = min(rank + rank // 10 + 8, *pattern.shape)
    matrix = pattern.fill(values)
    right = rng.standard_normal((pattern.shape[1], width), dtype.type)
    for is_later in range(passes):
        start = orthonormalize(engine, right, rounds=1) if is_later else right
        left = orthonormalize(engine, matrix.times(start), rounds=1)
        right = matrix.transposed_times(left)
    squares, turn = eigh_falling(engine.cross(right, right))
    s = np.sqrt(squares[:rank])
    turn = turn[:, :rank]
    floor = max(float(s[0]), 1e-300) * 1e-3 if len(s) else 1.0
    kept = np.sqrt(np.maximum(s - threshold, 1e-3 * np.maximum(s, floor)))
    users = engine.multiply(left, (turn * kept).astype(dtype))
    items = engine.multiply(right, (turn * (kept / np.maximum(s, floor))).astype(dtype))
    return widen(pattern, Factors(users, items), rank, rng)


def guess_factors(problem: Problem, rank: int, rng: np.random.Generator) -> Factors:
    """Factors to begin with: one proximal step from zero, V left out, roughly."""
    scale = problem.smoothness
    values = problem.weight * problem.target / problem.target.dtype.type(scale)
    return find_leading_factors(problem.pattern, values, rank, problem.l1 / scale, rng)


def widen(pattern: Pattern, factors: Factors, rank: int, rng: np.random.Generator) -> Factors:
    """The factors with exactly `rank` columns: the last ones cut off, or small random ones added.

    A column that is zero in both would stay so.
    """
    users, items, engine = factors.users, factors.items, pattern.engine
    missing = rank - users.shape[1]
    if missing <= 0:
        return Factors(*(engine.join_columns([f[:, :rank]]) for f in (users, items)))

    def draw(f: FloatArray) -> FloatArray:
        size = 1e-2 * np.sqrt((f**2).mean()) if 0 not in f.shape else 1e-2
        return (size * rng.standard_normal((len(f), missing))).astype(f.dtype)

    more = engine.put(pattern, draw(users))
    return Factors(engine.join_columns([users, more]), engine.join_columns([items, draw(items)]))


def pick_lower(problem: Problem, start: Factors, other: Factors) -> Factors:
    """`start`, unless the objective is lower at `other`: a start at or near zero is a saddle that looks like rest.

    No objective is below zero: one that comes out so is of factors whose squares overflow.
    """
    return start if 0 <= compute_objective(problem, start) <= compute_objective(problem, other) else other


def alternate(
    problem: Problem,
    regs: tuple[FloatArray, FloatArray],
    factors: Factors,
    options: Options,
    *,
    callback: Callback | None = None,
    began: float | None = None,
) -> tuple[Factors, Status, list[Step]]:
    """Factors that lower, from `factors` on,

        sum_i regs[0]_i/2*||p_i||^2 + sum_j regs[1]_j/2*||q_j||^2 + sum_obs h(P Q') + 1/2*sum_unobs (P Q')^2

    by half-steps, P and Q in turns, until an iteration lowers it by less than options.tol of it; it never rises.
    Before a half-step the factors are turned so that the Gram matrix of the fixed side is diagonal and, where all
    regs are one number, balanced, which lowers the penalty. `callback` sees every step and may raise to stop.
    Returned with why that ended, and the steps.
    """
    trace, engine = Trace(callback, began), problem.engine
    is_uniform = min(r.min() for r in regs) == max(r.max() for r in regs)

    def prepare(factors: Factors, diagonal: FloatArray | None) -> tuple[Factors, FloatArray]:
        return factors.balance(engine, diagonal) if is_uniform else factors.diagonalize(engine)

    steps = 1 if problem.smoothness <= _ONE_STEP_UP_TO else 2
    curvature = None
    best = factors
    try:
        for iteration in range(options.max_iter + 1):
            factors, curvature = prepare(factors, curvature)
            best = factors
            value = 0.5 * float(regs[1] @ np.einsum("ik,ik->i", factors.items, factors.items, dtype=np.float64))
            users, of_users = descend(problem, factors.users, factors.items, curvature, regs[0], steps, _RELAX)
            factors, value = Factors(users, factors.items), value + of_users
            rank = int(np.count_nonzero(curvature > _choose_cutoff(factors.users.dtype) * curvature[0]))
            step = trace.add(value, float("nan"), rank)
            if iteration and trace.history[-2].objective - value <= options.tol * value:
                return factors, "converged", trace.history
            if options.time_limit is not None and step.seconds > options.time_limit:
                return factors, "timeout", trace.history
            flipped, curvature = prepare(factors.T, curvature)
            items, _ = descend(problem.T, flipped.users, flipped.items, curvature, regs[1], steps, _RELAX)
            factors = Factors(flipped.items, items)
    except np.linalg.LinAlgError:
        # With next to no penalty one side grows and the other shrinks, until their squares leave the type's range.
        if not trace.history:
            raise
        return best, "diverged", trace.history
    return factors, "max_iter", trace.history


# Up to this weight one step of conjugate gradients a half-step is the quickest way down; beyond, two.
_ONE_STEP_UP_TO = 4.0
# The other side will follow: going beyond what is best for one side alone saves about one iteration in six.
_RELAX = 1.3


@dataclass(frozen=True)
class FactoredSolution:
    """P and Q with their certificate and the trace of the solver."""

    factors: Factors
    certificate: Certificate
    history: list[Step]

    @classmethod
    def of(cls, solution: Solution) -> FactoredSolution:
        """The balanced factors of a low-rank solution."""
        return cls(Factors.of(solution.low_rank), solution.certificate, solution.history)


def solve_factored(
    problem: Problem,
    rank: int,
    options: Options,
    *,
    start: LowRank | None = None,
    callback: Callback | None = None,
) -> FactoredSolution:
    """A stationary point of the factored form of `problem`, P of (n, rank) and Q of (m, rank):

        minimize  l1/2*(||P||^2 + ||Q||^2) + sum_obs h(P Q') + 1/2*sum_unobs (P Q')^2.

    Alternates (see `alternate`) from a rough SVD of the targets, or from `start` where that is lower.
    """
    began = time.perf_counter()
    rng = np.random.default_rng(options.seed)
    factors = guess_factors(problem, rank, rng)
    if start is not None:
        factors = pick_lower(problem, widen(problem.pattern, Factors.of(start), rank, rng), factors)
    n, m = problem.pattern.shape
    regs = problem.engine.put(problem.pattern, np.full(n, problem.l1)), np.full(m, problem.l1)
    factors, status, history = alternate(problem, regs, factors, options, callback=callback, began=began)
    certificate = certify(problem, factors, options, history, status, began, rng)
    if certificate.rank == 0:
        # What is left is rounding; the certificate is that of zero.
        factors = Factors(abs(0 * factors.users), abs(0 * factors.items))
    return FactoredSolution(factors, certificate, history)


def certify(
    problem: Problem,
    factors: Factors,
    options: Options,
    history: list[Step],
    status: Status,
    began: float,
    rng: np.random.Generator,
) -> Certificate:
    """The certificate of P Q': its distance from the optimum of the convex problem, at most."""
    u, left_out = factors.split_low_rank(problem.engine)
    is_full = u.rank == factors.users.shape[1] < min(problem.pattern.shape)
    gap = compute_gap(problem, u, rng, rtol=min(0.01, 10 * options.tol), in_span=is_full)
    # What is left out of U can add so much to the objective, at most.
    more = left_out * (problem.l1 + gap.gradient_norm + 0.5 * problem.smoothness * left_out)
    gap = gap._replace(primal=gap.primal + more)
    capped = is_full and gap.relative > options.tol and gap.gradient_norm > (1 + SLACK) * problem.l1
    return gap.certify(problem, u.rank, history[-1].iteration, status, time.perf_counter() - began, capped)


# The user side given the item side: a small convex problem a user, solved for many at once


@dataclass(frozen=True, eq=False)
class ItemSide:
    """The item factors Q, (m, k), of a solution; Q'Q = turn @ diag(curvature) @ turn.T; `turned` is Q @ turn, (m, k).

    `turn` is (k, k), `curvature` (k,).
    """

    factors: FloatArray
    turned: FloatArray
    turn: FloatArray
    curvature: FloatArray
    l1: float

    @classmethod
    def of(cls, factors: FloatArray, l1: float, engine: Engine, gram: FloatArray | None = None) -> ItemSide:
        """The item side with factors Q, (m, k); `gram` is Q'Q of those that the problem has, where there are others."""
        curvature, turn = eigh_falling(engine.cross(factors, factors) if gram is None else gram)
        turn = turn.astype(factors.dtype)
        # A penalty below what rounding makes of Q'Q holds nothing back.
        least = float(np.finfo(factors.dtype).eps * curvature.max(initial=0))
        return cls(factors, engine.multiply(factors, turn), turn, curvature, max(l1, least))

    @property
    def inverse(self) -> FloatArray:
        """(Q'Q + l1*I)^-1, (k, k)."""
        scaled: FloatArray = self.turn / (self.curvature + self.l1).astype(self.turn.dtype)
        return scaled @ self.turn.T


def fold_in(
    problem: Problem, side: ItemSide, start: FloatArray | None = None, *, tol: float = 1e-3, max_iter: int = 200
) -> FloatArray:
    """The user factors P, (n, k), that minimize, Q fixed,

        l1/2*||P||^2 + sum_obs h(P Q') + 1/2*sum_unobs (P Q')^2.

    Alternates V at its best and two steps of conjugate gradients, until none moves a user by more than tol of
    the largest factor norm; at the minimum P is a sum over the user's items (see `explain_value`).
    """
    pattern, engine = problem.pattern, problem.engine
    if start is None:
        factors = engine.put(pattern, np.zeros((pattern.shape[0], len(side.turn)), side.turn.dtype))
    else:
        factors = engine.multiply(start, side.turn)
    reg = engine.put(pattern, np.full(pattern.shape[0], side.l1))
    for _ in range(max_iter):
        before = factors
        factors, _ = descend(problem, before, side.turned, side.curvature, reg, steps=2)
        moved, largest = engine.find_largest_norm(before - factors), engine.find_largest_norm(factors)
        if moved <= tol * largest or moved == 0:
            break
    return engine.multiply(factors, side.turn.T)


def explain_value(problem: Problem, side: ItemSide, factors: FloatArray, item: int) -> FloatArray:
    """The part of each observed cell of a one-user problem in that user's value for `item`, (nnz,).

    At a solution P = sum_j c_j q_j (Q'Q + l1*I)^-1, c = pull + PQ', so the value is a sum over the user's cells.
    """
    observed = problem.pattern.dots(factors, side.factors)
    weights = problem.pull(observed) + observed
    # Of factors far apart in size curvature is rounded to less than nothing: l1 alone is left, or the least there is.
    strengths = (side.curvature + side.l1).astype(side.turn.dtype)
    least = float(np.finfo(strengths.dtype).tiny)
    towards = side.turned[item] / np.where(strengths > least, strengths, strengths.dtype.type(max(side.l1, least)))
    along: FloatArray = side.turned[problem.pattern.indices] @ towards
    return weights * along
