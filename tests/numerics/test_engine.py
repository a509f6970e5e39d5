"""The engine: what its operations compute, in a fixed order, and that another one leads to the same solutions."""

import numpy as np
import pytest
from scipy import sparse

from csrr._base.threads import map_ranges, run_ranges, use_threads
from csrr.numerics.factored import ItemSide, fold_in, solve_factored
from csrr.numerics.neighbors import Likeness, Regression, Ridge, find_nearest
from csrr.numerics.paper_solvers import algorithm2
from csrr.numerics.problem import LowRank, Pattern, Problem
from csrr.numerics.solver import Options, improve, solve, solve_path
from csrr.numerics.thread_engine import THREADS, ThreadEngine, cut_rows
from tests.numerics.test_problem import clicks, make
from tests.numerics.test_solver import full
from tests.reference.engine import BlockEngine, Blocks

OPERATIONS = {name for name in vars(ThreadEngine) if not name.startswith("_")}
OF_NEIGHBORS = {"find_nearest", "cross_targets", "gather_grams", "cross_low_rank", "solve_items"}
IN_FACTORS = {"descend_rows", "pull_rows", "find_largest_norm", "transpose_cells", "sum_rows", "dot"}
IN_A_STEP = OPERATIONS - OF_NEIGHBORS - IN_FACTORS - {"put_cells", "get", "scale_cells", "sum_columns"}


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
    target, weight, *caps = (engine.put_cells(moved, each) for each in problem.given)
    engine.asked.clear()
    return Problem(moved, target, weight, caps[0] if caps else None, problem.l1)


def fetch(low_rank, engine):
    """The matrix, (n, m)."""
    return full(LowRank(engine.get(low_rank.left), low_rank.s, low_rank.right))


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
        engine = BlockEngine()
        other = solve(with_engine(problem, engine), options)
        assert other.certificate.status == mine.certificate.status == "converged"
        assert other.certificate.primal == pytest.approx(mine.certificate.primal, rel=2e-6)
        U = full(mine.low_rank)
        assert engine.asked <= IN_A_STEP
        np.testing.assert_allclose(fetch(other.low_rank, engine), U, atol=5e-3 * np.abs(U).max())

    def test_a_step_asks_for_all_of_the_operations_and_blocks_by_row_or_item_for_none(self, no_threads):
        problem, _ = make(clicks(), alpha=50.0, strength=0.1, l2=10.0)
        engine = BlockEngine()
        moved = with_engine(problem, engine)
        found = solve(moved, Options(tol=1e-5, max_iter=500))
        improve(moved, found.low_rank, Options(max_iter=2))
        assert engine.asked == IN_A_STEP

    def test_first_steps_are_the_same_to_rounding(self):
        problem, _ = make(clicks(), alpha=3.0, l2=1.5)
        engine = BlockEngine()
        mine, other = (solve(p, Options(max_iter=3, tol=1e-12)) for p in (problem, with_engine(problem, engine)))
        for one, two in zip(mine.history, other.history, strict=True):
            assert two.objective == pytest.approx(one.objective, rel=1e-12)
            assert two.rank == one.rank
        np.testing.assert_allclose(fetch(other.low_rank, engine), full(mine.low_rank), atol=1e-9)

    def test_paths_factors_and_folding_in(self, request):
        problem, _ = make(clicks(), loss="II", alpha=2.0, strength=0.3)
        options = Options(tol=1e-5, max_iter=300)

        def run(problem):
            engine = problem.engine
            path = solve_path(problem, [1.5 * problem.l1, problem.l1], options)
            factors = solve_factored(problem, 12, Options(tol=1e-9, max_iter=30)).factors
            nonnegative = algorithm2(problem, 5, Options(tol=1e-7, max_iter=200)).factors
            side = ItemSide.of(factors.items, problem.l1, engine)
            products = [engine.get(each.users) @ each.items.T for each in (factors, nonnegative)]
            return [*(fetch(each.low_rank, engine) for each in path), *products, engine.get(fold_in(problem, side))]

        mine = run(problem)
        request.getfixturevalue("no_threads")
        engine = BlockEngine()
        for one, two in zip(mine, run(with_engine(problem, engine)), strict=True):
            np.testing.assert_allclose(np.abs(two), np.abs(one), atol=1e-3 * np.abs(one).max())
        assert engine.asked >= IN_FACTORS - {"sum_rows"}

    def test_neighbours(self, request):
        problem, _ = make(clicks(), alpha=2.0, dtype=np.float32)
        rng = np.random.default_rng(0)
        left, right = (rng.standard_normal((n, 3)).astype(np.float32) / 9 for n in (60, 80))
        user, item = np.ones(60, np.float32), np.full(80, 0.5, np.float32)

        amounts = rng.uniform(0.3, 1, problem.pattern.nnz).astype(np.float32)

        def run(problem):
            pattern, engine = problem.pattern, problem.engine
            own = engine.put_cells(pattern, amounts)
            support = find_nearest(pattern, 5, own)
            regression = Regression(pattern, problem.target, engine.put(pattern, user), item, support, own)
            found = regression.solve([(engine.put(pattern, left), right)], [Ridge(5, 0.5), Ridge(3, 2.0)])
            return find_nearest(pattern, 5), support, found, regression.mean_diagonal

        mine = run(problem)
        request.getfixturevalue("no_threads")
        engine = BlockEngine()
        other = run(with_engine(problem, engine))
        assert engine.asked >= OF_NEIGHBORS | {"scale_cells", "sum_columns", "multiply_transposed"}
        np.testing.assert_array_equal(other[0], mine[0])
        np.testing.assert_array_equal(other[1], mine[1])
        np.testing.assert_allclose(other[2], mine[2], atol=1e-6)
        assert other[3] == pytest.approx(mine[3])

    def test_its_arrays_refuse_numpy(self):
        problem = with_engine(make(clicks())[0], BlockEngine())
        for refused in (
            np.sqrt,
            np.asarray,
            lambda x: x * np.ones(len(x)),
            lambda x: x[3],
            lambda x: np.ones(len(x)) * x,
        ):
            with pytest.raises((TypeError, AssertionError)):
                refused(problem.target)
        assert isinstance(2 * problem.target + np.float32(1), Blocks)


@pytest.fixture(scope="module")
def large():
    """A pattern of 3000 x 2500, so large that all work is cut, values on it and thin blocks of both sides."""
    rng = np.random.default_rng(1)
    S = sparse.random_array((3000, 2500), density=0.02, rng=rng, format="csr", dtype=np.float32)
    pattern = Pattern.of(S, THREADS)
    left, right = (rng.standard_normal((n, 5)).astype(np.float32) for n in pattern.shape)
    assert min(len(cut_rows(n)) for n in pattern.shape) > 2
    assert len(cut_rows(pattern.nnz, 2**15)) > 2
    return pattern, S.data, left, right


def pulls(values, weight):
    return np.maximum(values * weight, 0.1)


def total(values, weight):
    return float(np.sum(values.astype(np.float64) * weight))


def everything(engine, pattern, values, left, right):
    """What each operation gives, by name, in numpy arrays."""
    pattern = Pattern(pattern.shape, pattern.indptr, pattern.indices, engine)
    cells, users = engine.put_cells(pattern, values), engine.put(pattern, left)
    matrix, gram = pattern.fill(cells), np.linspace(1, 2, 5, dtype=np.float32)
    problem = Problem(pattern, cells, cells + 1, cells, 1.0)
    likeness = Likeness(abs(engine.put(pattern, left[:, 0].astype(np.float64))), np.ones(2500), *np.ones((2, 2500)))
    support = np.random.default_rng(0).permuted(np.tile(np.arange(50, dtype=np.int32), (2500, 1)), axis=1)[:, :4]
    support[7, 2:] = -1
    scales = abs(engine.put(pattern, left[:, 1])), abs(right[:, 1])
    regression = Regression(pattern, cells, *scales, support, cells)
    along, grams = engine.cross_targets(regression), engine.gather_grams(regression, support)
    crossed = np.stack([along, 2 * along]).astype(np.float32)
    found = {
        "put": users,
        "put_cells": cells,
        "get": engine.get(users, np.array([5, 3])),
        "multiply_sparse": engine.multiply_sparse(matrix, right),
        "multiply_transposed": engine.multiply_transposed(matrix, users),
        "dot_rows": engine.dot_rows(pattern, users, right, 4),
        "scale_cells": engine.scale_cells(pattern, engine.put(pattern, left[:, 0]), right[:, 1]),
        "transpose_cells": engine.transpose_cells(pattern, cells),
        "map_cells": engine.map_cells(pulls, cells, cells),
        "sum_cells": engine.sum_cells(total, cells, cells),
        "sum_rows": engine.sum_rows(pattern, cells),
        "sum_columns": engine.sum_columns(pattern, cells),
        "multiply": engine.multiply(users, right[:5]),
        "cross": engine.cross(users, users[:, :2]),
        "dot_columns": engine.dot_columns(users, users),
        "dot": engine.dot(users, users),
        "find_largest_norm": engine.find_largest_norm(users),
        "join_columns": engine.join_columns([users, users[:, :1]]),
        "pull_rows": engine.pull_rows(problem, users, right)[0],
        "descend_rows": engine.descend_rows(problem, users, right, gram, scales[0], 2, 1.0)[0],
        "find_nearest": np.stack(engine.find_nearest(pattern, likeness, 3, cells)[:2]),
        "cross_targets": along,
        "gather_grams": grams[support[:, -1] >= 0],
        "cross_low_rank": engine.cross_low_rank(right, right, support, along),
        "solve_items": engine.solve_items(support, grams, crossed, np.array([4, 2]), np.array([9.0, 0.5]))[0],
    }
    return {name: engine.get(value) for name, value in found.items()}


class TestThreads:
    def test_every_operation_is_what_it_says(self, large):
        pattern, values, left, right = large
        S = pattern.make_matrix(values).toarray()
        found = everything(THREADS, *large)
        exact = {
            "put": left,
            "put_cells": values,
            "get": left[[5, 3]],
            "multiply_sparse": S @ right,
            "multiply_transposed": S.T @ left,
            "dot_rows": (left[:, :4] @ right[:, :4].T)[pattern.rows, pattern.indices],
            "scale_cells": np.outer(left[:, 0], right[:, 1])[S != 0],
            "transpose_cells": S.T[S.T != 0],
            "map_cells": np.maximum(values**2, 0.1),
            "sum_cells": (values.astype(np.float64) ** 2).sum(),
            "sum_rows": S.sum(1),
            "sum_columns": S.sum(0),
            "multiply": left @ right[:5],
            "cross": left.T @ left[:, :2],
            "dot_columns": (left**2).sum(0),
            "dot": (left**2).sum(),
            "find_largest_norm": np.linalg.norm(left, axis=1).max(),
            "join_columns": np.column_stack([left, left[:, 0]]),
        }
        # The others are compared with plain matrices a block at a time.
        exact = everything(BlockEngine(1000), *large) | exact
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

        _, values, *_ = large
        for ask in (
            lambda: THREADS.map_cells(fail, values),
            lambda: THREADS.sum_cells(fail, values),
        ):
            with pytest.raises(ZeroDivisionError):
                ask()

    def test_nobody_at_all(self):
        pattern = Pattern.of(sparse.csr_array((0, 4), dtype=np.float32), THREADS)
        nothing, x = np.zeros(0), np.ones((4, 2))
        assert pattern.fill(nothing).times(x).shape == (0, 2)
        np.testing.assert_array_equal(pattern.fill(nothing).transposed_times(np.ones((0, 2))), np.zeros((4, 2)))
        assert pattern.dots(np.ones((0, 2)), x).shape == (0,)
        assert THREADS.map_cells(np.negative, nothing).shape == (0,)
        assert THREADS.sum_cells(np.sum, nothing) == 0
        problem = Problem(pattern, nothing, nothing, None, 1.0)
        assert THREADS.pull_rows(problem, np.ones((0, 2)), x)[0].shape == (0, 2)


class TestParts:
    def test_they_come_in_the_order_of_the_ranges(self):
        with use_threads(2):
            assert map_ranges(lambda a, b: (a, b), [0, 3, 3, 9]) == [(0, 3), (3, 3), (3, 9)]
            seen = []
            run_ranges(lambda a, b: seen.append((a, b)), [0, 3, 3, 9])
        assert sorted(seen) == [(0, 3), (3, 9)]
