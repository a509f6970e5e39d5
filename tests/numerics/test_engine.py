"""The engine: what its operations compute, in a fixed order, and that another one leads to the same solutions."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from csrr._base.threads import map_ranges, run_ranges, use_threads
from csrr.numerics.factored import solve_factored, sum_pulls
from csrr.numerics.foldin import ItemSide, fold_in
from csrr.numerics.neighbors import Regression, Ridge, find_nearest
from csrr.numerics.problem import Pattern, Problem
from csrr.numerics.solver import Options, improve, solve, solve_path
from csrr.numerics.thread_engine import THREADS, ThreadEngine, cut_rows
from tests.numerics.test_problem import clicks, make
from tests.numerics.test_solver import full


class Serial:
    """Blocks of seven rows, one after the other, in plain numpy; S.T @ y is a sum over them.

    Arrays that go into a function of a block are read-only, and copies of the block's part alone.
    """

    SIZE = 7

    def __init__(self):
        self.asked = set()

    def cuts(self, rows):
        return pairwise([*range(0, max(rows, 1), self.SIZE), rows])

    def own(self, array):
        """A copy that cannot be changed."""
        part = array.copy()
        part.flags.writeable = False
        return part

    def put(self, x):
        self.asked.add("put")
        return x.copy()

    def rows_of(self, matrix, a, b):
        return matrix.pattern.make_matrix(matrix.values)[a:b]

    def multiply_sparse(self, matrix, x):
        self.asked.add("multiply_sparse")
        return np.concatenate([self.rows_of(matrix, a, b) @ x for a, b in self.cuts(matrix.pattern.shape[0])])

    def multiply_transposed(self, matrix, y):
        self.asked.add("multiply_transposed")
        return sum(self.rows_of(matrix, a, b).T @ y[a:b] for a, b in self.cuts(matrix.pattern.shape[0]))

    def dot_rows(self, pattern, left, right, width):
        self.asked.add("dot_rows")
        return (left[pattern.rows, :width] * right[pattern.indices, :width]).sum(1)

    def map_cells(self, work, *cells):
        self.asked.add("map_cells")
        return np.concatenate([work(*(self.own(c[a:b]) for c in cells)) for a, b in self.cuts(len(cells[0]))])

    def sum_cells(self, work, *cells):
        self.asked.add("sum_cells")
        return sum(work(*(self.own(c[a:b]) for c in cells)) for a, b in self.cuts(len(cells[0])))

    def multiply(self, x, small):
        self.asked.add("multiply")
        return x @ small

    def cross(self, x, y):
        self.asked.add("cross")
        return sum(x[a:b].T.astype(np.float64) @ y[a:b] for a, b in self.cuts(len(x)))

    def dot_columns(self, x, y):
        self.asked.add("dot_columns")
        return (x.astype(np.float64) * y).sum(0)

    def join_columns(self, arrays):
        self.asked.add("join_columns")
        return np.hstack(arrays)

    def map_rows(self, work, pattern, cells, rows):
        self.asked.add("map_rows")
        parts = []
        for a, b in self.cuts(pattern.shape[0]):
            first, last = pattern.indptr[a], pattern.indptr[b]
            block = pattern.indptr[a : b + 1] - first, pattern.indices[first:last]
            mine = (*block, *(c[first:last] for c in cells), *(r[a:b] for r in rows))
            parts.append(work(*map(self.own, mine)))
        return tuple(np.concatenate(each) for each in zip(*parts, strict=True))

    def map_ranges(self, work, bounds):
        self.asked.add("map_ranges")
        parts = [work(a, b) for a, b in pairwise([*range(bounds[0], bounds[-1], self.SIZE), bounds[-1]])]
        return tuple(np.concatenate(each) for each in zip(*parts, strict=True))

    def scatter_ranges(self, work, place, bounds, whole):
        self.asked.add("scatter_ranges")
        for a, b in pairwise([*range(bounds[0], bounds[-1], self.SIZE), bounds[-1]]):
            place(a, b, work(a, b), whole)
        return whole


OPERATIONS = {name for name in vars(ThreadEngine) if not name.startswith("_")}
IN_A_STEP = OPERATIONS - {"map_rows", "map_ranges", "scatter_ranges"}


@pytest.fixture
def no_threads(monkeypatch):
    """A thread engine that fails, whatever it is asked."""

    def fail(*_, **__):
        raise AssertionError("the engine of the problem was not asked")

    for name in OPERATIONS:
        monkeypatch.setattr(ThreadEngine, name, fail)


def with_engine(problem, engine):
    pattern = problem.pattern
    moved = Pattern(pattern.shape, pattern.indptr, pattern.indices, engine)
    return Problem(moved, problem.target, problem.weight, problem.cap, problem.l1)


class TestAnotherEngine:
    CASES = pytest.mark.parametrize(
        "kind",
        [
            {"alpha": 3.0, "l2": 1.5},
            {"alpha": 50.0, "strength": 0.1},
            {"alpha": 3.0, "l2": 0.3, "strength": 0.05},
            {"loss": "II", "alpha": 4.0},
        ],
        ids=["plain steps", "momentum", "slack", "one shot"],
    )

    @CASES
    def test_solves_to_the_same_solution(self, kind, request):
        problem, _ = make(clicks(), **kind)
        options = Options(tol=1e-6, max_iter=1000)
        mine = solve(problem, options)
        request.getfixturevalue("no_threads")
        engine = Serial()
        other = solve(with_engine(problem, engine), options)
        assert other.certificate.status == mine.certificate.status == "converged"
        assert other.certificate.primal == pytest.approx(mine.certificate.primal, rel=2e-6)
        U = full(mine.low_rank)
        np.testing.assert_allclose(full(other.low_rank), U, atol=5e-3 * np.abs(U).max())
        assert engine.asked <= IN_A_STEP

    def test_a_step_asks_for_all_of_the_operations_and_blocks_by_row_or_item_for_none(self, no_threads):
        problem, _ = make(clicks(), alpha=50.0, strength=0.1, l2=10.0)
        engine = Serial()
        moved = with_engine(problem, engine)
        found = solve(moved, Options(tol=1e-5, max_iter=500))
        improve(moved, found.low_rank, Options(max_iter=2))
        assert engine.asked == IN_A_STEP

    def test_first_steps_are_the_same_to_rounding(self):
        problem, _ = make(clicks(), alpha=3.0, l2=1.5)
        mine, other = (solve(p, Options(max_iter=3, tol=1e-12)) for p in (problem, with_engine(problem, Serial())))
        for one, two in zip(mine.history, other.history, strict=True):
            assert two.objective == pytest.approx(one.objective, rel=1e-12)
            assert two.rank == one.rank
        np.testing.assert_allclose(full(other.low_rank), full(mine.low_rank), atol=1e-9)

    def test_paths_factors_and_folding_in(self, request):
        problem, _ = make(clicks(), loss="II", alpha=2.0, strength=0.3)
        options = Options(tol=1e-5, max_iter=300)

        def run(problem):
            path = solve_path(problem, [1.5 * problem.l1, problem.l1], options)
            factors = solve_factored(problem, 12, Options(tol=1e-9, max_iter=30)).factors
            side = ItemSide.of(factors.items, problem.l1, problem.engine)
            return [*(full(each.low_rank) for each in path), factors.users @ factors.items.T, fold_in(problem, side)]

        mine = run(problem)
        request.getfixturevalue("no_threads")
        engine = Serial()
        for one, two in zip(mine, run(with_engine(problem, engine)), strict=True):
            np.testing.assert_allclose(np.abs(two), np.abs(one), atol=1e-3 * np.abs(one).max())
        assert "map_rows" in engine.asked

    def test_neighbours(self, request):
        problem, _ = make(clicks(), alpha=2.0, dtype=np.float32)
        rng = np.random.default_rng(0)
        left, right = (rng.standard_normal((n, 3)).astype(np.float32) / 9 for n in (60, 80))
        user, item = np.ones(60, np.float32), np.full(80, 0.5, np.float32)

        def run(pattern):
            regression = Regression(pattern, problem.target, user, item, find_nearest(pattern, 5))
            return regression.support, regression.solve([(left, right)], [Ridge(5, 0.5), Ridge(3, 2.0)])

        mine = run(problem.pattern)
        request.getfixturevalue("no_threads")
        engine = Serial()
        other = run(with_engine(problem, engine).pattern)
        assert {"map_ranges", "scatter_ranges", "multiply_transposed"} == engine.asked
        np.testing.assert_array_equal(other[0], mine[0])
        np.testing.assert_allclose(other[1], mine[1], atol=1e-6)


@pytest.fixture(scope="module")
def large():
    """A pattern of 3000 x 2500, so large that all work is cut, values on it and thin blocks of both sides."""
    rng = np.random.default_rng(1)
    S = sparse.random_array((3000, 2500), density=0.02, rng=rng, format="csr", dtype=np.float32)
    pattern = Pattern.of(S)
    left, right = (rng.standard_normal((n, 5)).astype(np.float32) for n in pattern.shape)
    assert min(len(cut_rows(n)) for n in pattern.shape) > 2
    assert len(cut_rows(pattern.nnz, 2**15)) > 2
    return pattern, S.data, left, right


def pulls(values, weight):
    return np.maximum(values * weight, 0.1)


def total(values, weight):
    return float(np.sum(values.astype(np.float64) * weight))


def everything(engine, pattern, values, left, right):
    """What each operation gives, by name."""
    matrix = pattern.fill(values)
    problem = Problem(pattern, values, np.full_like(values, 2), values, 1.0)
    return {
        "put": engine.put(left),
        "multiply_sparse": engine.multiply_sparse(matrix, right),
        "multiply_transposed": engine.multiply_transposed(matrix, left),
        "dot_rows": engine.dot_rows(pattern, left, right, 4),
        "map_cells": engine.map_cells(pulls, values, values),
        "sum_cells": engine.sum_cells(total, values, values),
        "multiply": engine.multiply(left, right[:5]),
        "cross": engine.cross(left, left[:, :2]),
        "dot_columns": engine.dot_columns(left, left),
        "join_columns": engine.join_columns([left, left[:, :1]]),
        "map_rows": np.column_stack(engine.map_rows(count_cells, pattern, [values], [left])),
        "map_ranges": engine.map_ranges(lambda a, b: (right[a:b] ** 2,), [5, 1000, 1000, 2500])[0],
        "scatter_ranges": engine.scatter_ranges(
            lambda a, b: right[a:b], put_last_first, [0, 700, 2500], np.zeros((2500, 5))
        ),
        "sum_pulls": sum_pulls(problem, left, right)[0],
    }


def put_last_first(start, stop, part, whole):
    whole[len(whole) - stop : len(whole) - start] = part[::-1]


def count_cells(indptr, indices, values, left):
    """Per user: their cells, the sum of values, and left[:, 0] again."""
    assert indptr[0] == 0
    assert len(indices) == len(values) == indptr[-1]
    sums = np.add.reduceat(np.append(values, 0).astype(np.float64), indptr[:-1]) * (np.diff(indptr) > 0)
    return np.diff(indptr), sums, left[:, 0]


class TestThreads:
    def test_every_operation_is_what_it_says(self, large):
        pattern, values, left, right = large
        S = pattern.make_matrix(values).toarray()
        found = everything(THREADS, *large)
        exact = {
            "put": left,
            "multiply_sparse": S @ right,
            "multiply_transposed": S.T @ left,
            "dot_rows": (left[:, :4] @ right[:, :4].T)[pattern.rows, pattern.indices],
            "map_cells": np.maximum(values**2, 0.1),
            "sum_cells": (values.astype(np.float64) ** 2).sum(),
            "multiply": left @ right[:5],
            "cross": left.T @ left[:, :2],
            "dot_columns": (left**2).sum(0),
            "join_columns": np.column_stack([left, left[:, 0]]),
            "map_rows": np.column_stack([(S != 0).sum(1), S.sum(1), left[:, 0]]),
            "map_ranges": right[5:] ** 2,
            "scatter_ranges": right[::-1],
        }
        assert set(exact) == OPERATIONS
        for name, value in exact.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=2e-4, err_msg=name)

    def test_the_number_of_threads_changes_no_bit(self, large, monkeypatch):
        monkeypatch.setattr("csrr._base.threads.available_cores", lambda: 3)
        found = []
        for threads in (1, 2, 3, 3):
            with use_threads(threads, blas=1):
                found.append(everything(THREADS, *large))
        for other in found[1:]:
            for name, value in other.items():
                np.testing.assert_array_equal(value, found[0][name], err_msg=name)

    def test_nothing_that_goes_in_is_changed(self, large):
        pattern, *arrays = large
        before = [array.copy() for array in (pattern.indptr, pattern.indices, *arrays)]
        everything(THREADS, *large)
        for one, two in zip((pattern.indptr, pattern.indices, *arrays), before, strict=True):
            np.testing.assert_array_equal(one, two)

    def test_sums_are_those_of_the_ranges_in_order(self, large):
        """Large terms that cancel only when they are added in the order of the ranges."""
        pattern, *_ = large
        values = np.zeros(pattern.nnz)
        bounds = cut_rows(pattern.nnz, 2**15)
        values[bounds[0]], values[bounds[1]], values[bounds[2]] = 1e17, -1e17, 1.0
        assert THREADS.sum_cells(total, values, np.ones_like(values)) == 1
        x = np.zeros((5000, 1))
        cuts = cut_rows(len(x))
        x[cuts[0]], x[cuts[1]], x[cuts[2]] = 1e17, -1e17, 1.0
        assert THREADS.cross(x, np.ones_like(x))[0, 0] == 1

    def test_what_a_block_raises_comes_through(self, large):
        def fail(*_):
            raise ZeroDivisionError

        pattern, values, left, _ = large
        for ask in (
            lambda: THREADS.map_cells(fail, values),
            lambda: THREADS.sum_cells(fail, values),
            lambda: THREADS.map_rows(fail, pattern, [values], [left]),
            lambda: THREADS.map_ranges(fail, [0, 5, 9]),
            lambda: THREADS.scatter_ranges(fail, put_last_first, [0, 5, 9], np.zeros(9)),
        ):
            with pytest.raises(ZeroDivisionError):
                ask()

    def test_nobody_at_all(self):
        pattern = Pattern.of(sparse.csr_array((0, 4), dtype=np.float32))
        nothing, x = np.zeros(0), np.ones((4, 2))
        assert pattern.fill(nothing).times(x).shape == (0, 2)
        np.testing.assert_array_equal(pattern.fill(nothing).transposed_times(np.ones((0, 2))), np.zeros((4, 2)))
        assert pattern.dots(np.ones((0, 2)), x).shape == (0,)
        assert THREADS.map_cells(np.negative, nothing).shape == (0,)
        assert THREADS.sum_cells(np.sum, nothing) == 0
        assert THREADS.map_rows(lambda indptr, indices, x: (2 * x,), pattern, [], [np.ones((0, 3))])[0].shape == (0, 3)


class TestParts:
    def test_they_come_in_the_order_of_the_ranges(self):
        with use_threads(2):
            assert map_ranges(lambda a, b: (a, b), [0, 3, 3, 9]) == [(0, 3), (3, 3), (3, 9)]
            seen = []
            run_ranges(lambda a, b: seen.append((a, b)), [0, 3, 3, 9])
        assert sorted(seen) == [(0, 3), (3, 9)]
