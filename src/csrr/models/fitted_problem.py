"""The problem that a model was fitted to, as later answers need it: new people, reasons, and what is noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr._base.arrays import AnyArray, Float32Array, FloatArray, Rows
from csrr.models.build_problem import ClickProblem, ProblemSpec, leave_out_own
from csrr.models.costs import ClickCosts, Costs
from csrr.models.scaling import RULE, Scaling, Settings, count_clicks, solve_penalized
from csrr.models.schema import FLOATS, Arrays, FilePart, ModelFileError, SparseArray, Values, sparse_arrays, sparse_from
from csrr.models.store import ModelState, factors
from csrr.noise.scores import LeaveOneOut
from csrr.noise.tastes import Tastes
from csrr.numerics.algorithm2 import compute_upper_bound, fold_in_nonnegative
from csrr.numerics.factored import Factors
from csrr.numerics.foldin import ItemSide, explain_value, fold_in
from csrr.numerics.neighbors import (
    Factored,
    Regression,
    Ridge,
    find_nearest,
    find_nearest_known,
    make_weights,
    weigh_neighbors,
)
from csrr.numerics.problem import Pattern, Problem, build
from csrr.parameters import Number
from csrr.ranking.topk import add_products, multiply_own, multiply_pairs


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """`weights`, csr float32 of shape (n_items, n_items): what item i in a history adds to the score of item j.

    In units of a click, times the number of clicks of the history to the power `power`.
    """

    weights: Any
    power: float = 0.0

    @classmethod
    def none(cls, n_items: int) -> Neighborhood:
        """No neighbors at all."""
        return cls(sparse.csr_array((n_items, n_items), dtype=np.float32))

    @classmethod
    def of(cls, built: ClickProblem, u: Factored, user_scaling: float) -> Neighborhood:
        """The weights that explain best what U, fitted to the balanced problem, leaves over."""
        n_items, settings = built.problem.pattern.shape[1], built.settings
        if settings.neighbors == 0:
            return cls.none(n_items)
        regression = built.build_regression(
            find_nearest(built.problem.pattern, settings.neighbors, built.genuine), settings.neighbor_scaling
        )
        ridge = Ridge(settings.neighbors, settings.reg_neighbors * regression.mean_diagonal)
        weights = make_click_weights(regression, regression.solve([u], [ridge])[0, 0], built.scaling.item)
        return cls(weights, user_scaling - settings.neighbor_scaling)

    @property
    def is_empty(self) -> bool:
        """Whether no item has a neighbor."""
        return bool(self.weights.nnz == 0)

    def scale(self, clicks: Any, amounts: FloatArray | None = None) -> npt.NDArray[np.float32]:
        """What the weights are multiplied by for each user of `clicks`, csr: shape (n_users,).

        Here and below, `amounts`, (nnz,), are what clicks count for; None: 1.
        """
        scale: npt.NDArray[np.float32] = (count_clicks(clicks, amounts) ** self.power).astype(np.float32)
        return scale

    def add(self, scores: npt.NDArray[np.float32], clicks: Any, rows: Rows, amounts: FloatArray | None = None) -> None:
        """Add what neighbors say to the scores of all items, (len(rows), n_items), of the users at these rows."""
        if not self.is_empty:
            add_products(scores, clicks, rows, self.weights, self.scale(clicks, amounts), amounts)

    def score_pairs(
        self, clicks: Any, user_rows: Rows, item_rows: Rows, amounts: FloatArray | None = None
    ) -> npt.NDArray[np.float32]:
        """What neighbors say of pairs of a user and an item, (n,)."""
        if self.is_empty:
            return np.zeros(len(user_rows), np.float32)
        return multiply_pairs(clicks, user_rows, item_rows, self.weights, self.scale(clicks, amounts), amounts)

    def score_clicks(self, clicks: Any, amounts: FloatArray | None = None) -> npt.NDArray[np.float32]:
        """What neighbors say of every click itself, (nnz,)."""
        if self.is_empty:
            return np.zeros(len(clicks.indices), np.float32)
        return multiply_own(clicks, self.weights, self.scale(clicks, amounts), amounts)

    def explain_history(self, clicks: Any, row: int, item: int, amounts: FloatArray | None = None) -> AnyArray:
        """What each click of the user at a row of `clicks` adds to the score of an item row, (number of clicks,)."""
        mine = slice(clicks.indptr[row], clicks.indptr[row + 1])
        found: AnyArray = self.get_column(item)[clicks.indices[mine]] * self.scale(
            clicks[[row]], None if amounts is None else amounts[mine]
        )
        return found if amounts is None else found * amounts[mine]

    def get_column(self, item: int) -> npt.NDArray[np.float32]:
        """The weights for one item, (n_items,)."""
        column: npt.NDArray[np.float32] = self.weights[:, [item]].toarray()[:, 0]
        return column


def make_click_weights(regression: Regression, solved: Float32Array, item: FloatArray) -> Any:
    """Return weights on the support, (m, K), in units of a click: csr, (m, m); `item`, (m,), is D_i^-b."""
    weights = regression.make_matrix(solved)
    weights.data *= np.repeat(item, np.diff(weights.indptr)) / item[weights.indices]
    return weights


def fold_neighbors(
    problem: Problem, u: Factored, scaling: FloatArray, seen: Any, item: FloatArray, settings: Settings
) -> Any:
    """Return the weights for new items, csr (n_items, new), that explain best what their common taste leaves over.

    `problem` has the new items as rows over the users, U = users @ items.T of `u`, and `scaling`, (new,), is their
    D_i^-b; `item`, (n_items,), that of the known ones, whose events are
    `seen`, csr, with what they count for.
    """
    user = np.maximum(seen.sum(axis=1), 1) ** -settings.neighbor_scaling
    x = sparse.csr_array(sparse.diags_array(item) @ (sparse.diags_array(user) @ seen).T)
    diagonal = np.asarray(x.multiply(x).sum(axis=1))
    ridge = Ridge(settings.neighbors, settings.reg_neighbors * float(diagonal[diagonal > 0].mean()))
    targets = problem.pattern.make_matrix(problem.target)
    support = find_nearest_known(seen, targets, settings.neighbors)
    found = weigh_neighbors(x, targets, *u, support, ridge)
    scaled = [item[rows] * s / mine for rows, s, mine in zip(support, found, scaling, strict=True)]
    return make_weights(support, scaled, seen.shape[1])


FOLD_IN_TOL = 1e-3

KEPT: tuple[FilePart, ...] = (
    *factors(),
    Values("user_scaling", ("users",), FLOATS, above=0, most=1),
    Values("item_scaling", ("items",), FLOATS, above=0, most=1),
    SparseArray.of("neighbors", ("items", "items"), optional=True),
    Values("click_costs", ("events",), FLOATS, above=0, optional=True),
    Values("item_costs", ("items",), FLOATS, above=0, optional=True),
    Values("user_costs", ("users",), FLOATS, above=0, optional=True),
    Values("genuine", ("events",), FLOATS, above=0, most=1, optional=True),
)
"""The arrays that a file keeps of a problem."""


@dataclass(frozen=True, kw_only=True)
class ProblemFacts:
    """What a file keeps of a problem beside arrays; the defaults are those of files from before there were others."""

    l1: Annotated[float, Number("l1", "The strength on the rank.", above=0)]
    l2: Annotated[float | None, Number("l2", "The strength on V; None for no V.", least=0, optional=True)]
    own_l2: Annotated[
        float | str | None,
        Number("own_l2", 'The strength by which V is told; "l2" for the same.', least=0, optional=True, words=("l2",)),
    ] = "l2"
    posed: ProblemSpec
    costs: Costs
    mean_weight: Annotated[float, Number("mean_weight", "What weights were divided by.", above=0)] = 1.0
    neighbor_power: Annotated[float, Number("neighbor_power", "That of a neighborhood.", least=-1, most=1)] = 0.0


@dataclass(frozen=True, eq=False)
class FittedProblem:
    """Factors, float32 of shapes (n, d) and (m, d), in units of a click, and what their problem was made of.

    `own_l2` is the strength by which V is told, whether or not U's problem has V; None for no V. `is_bounded` says that
    the factors are those of the paper's CSRR-e, in [0, 1/sqrt(d)]. `genuine`, (nnz,), is what each training event
    counts for; None: 1, as events of new histories do.
    """

    words: ProblemSpec
    users: npt.NDArray[np.float32]
    items: npt.NDArray[np.float32]
    scaling: Scaling
    clicks: ClickCosts
    costs: Costs
    neighborhood: Neighborhood
    l1: float
    l2: float | None
    own_l2: float | None
    is_bounded: bool = False
    genuine: FloatArray | None = None

    @cached_property
    def side(self) -> ItemSide:
        """The item side, in the units of the problem."""
        return ItemSide.of(self.items * self.scaling.item[:, None], self.l1)

    @cached_property
    def own_share(self) -> float:
        """The strength by which V is told, as a fraction of what gives none."""
        return 1.0 if self.own_l2 is None else self.own_l2 / self.costs.alpha

    def weigh(self, seen: Any) -> Any:
        """Return the training events, csr, with what they count for as values."""
        return seen if self.genuine is None else sparse.csr_array((self.genuine, seen.indices, seen.indptr), seen.shape)

    def make_factors(self, dtype: str) -> Factors:
        """Return the factors in the units of the problem."""
        users, items = self.users * self.scaling.user[:, None], self.items * self.scaling.item[:, None]
        return Factors(users.astype(dtype), items.astype(dtype))

    # People and their histories

    def build_problem(
        self, pattern: Pattern, costs: FloatArray | None, genuine: FloatArray | None = None
    ) -> tuple[Problem, FloatArray]:
        """Return the problem of users with these histories and click costs, items as in training, and their D_u^-a."""
        user = (count_clicks(pattern, genuine) ** -self.words.user_scaling).astype(self.scaling.item.dtype)
        targets = Scaling(user, self.scaling.item).make_targets(pattern)
        if genuine is not None:
            targets *= genuine
        loss, alpha = self.words.loss, self.words.alpha
        return build(pattern, targets, loss=loss, cost_ratio=alpha, l1=self.l1, l2=self.l2, costs=costs), user

    def fold_histories(self, seen: Any) -> tuple[npt.NDArray[np.float32], Any]:
        """Return the factors of people by their histories, csr, in units of a click, and V of these.

        The items stay as they are; each one's own small convex problem is solved, V included.
        """
        pattern = Pattern.of(seen)
        costs = self.clicks.resolve_new(pattern, seen.data, self.words.event_weights, self.words.alpha)
        problem, user_scaling = self.build_problem(pattern, costs)
        if self.is_bounded:
            factors = fold_in_nonnegative(problem, self.side.factors)
        else:
            factors = fold_in(problem, self.side, tol=FOLD_IN_TOL / 10)
        units = user_scaling[pattern.rows] * self.scaling.item[pattern.indices]
        explained = problem.pattern.dots(factors, self.side.factors)
        explained += self.neighborhood.score_clicks(seen).astype(units.dtype) * units
        if self.own_l2 is not None:
            asked = units if costs is None else units * costs
            problem = replace(problem, cap=asked * units.dtype.type(self.own_l2))
        specific = keep_nonzero(pattern, problem.find_specific(explained) / units)
        return (factors / user_scaling[:, None]).astype(np.float32), specific

    # Items and who chose them

    def fold_items(self, seen: Any, chosen: Any, settings: Settings) -> tuple[npt.NDArray[np.float32], Any]:
        """Return the factors of new items, (new, d), in units of a click, by who chose them, csr of shape (new, n), and
        their weights from known items, csr of shape (m, new), or None for a model without neighbors.

        The users, and what was learned of known items, stay as they are: each item's own small problems are solved.
        """
        pattern = Pattern.of(chosen)
        counts = np.maximum(np.diff(pattern.indptr), 1)
        item = (counts ** -self._find_item_power(seen)).astype(self.scaling.item.dtype)
        targets = Scaling(item, self.scaling.user).make_targets(pattern)
        words, histories = self.words, self.weigh(seen)
        # The cost of an item is 1, unless one says otherwise, and one cannot of a new one.
        costs = replace(self.clicks, item=None).resolve_new(pattern, chosen.data, words.event_weights, words.alpha)
        problem = build(pattern, targets, loss=words.loss, cost_ratio=words.alpha, l1=self.l1, l2=self.l2, costs=costs)
        users = self.users * self.scaling.user[:, None]
        if self.is_bounded:
            factors = fold_in_nonnegative(problem, users)
        else:
            factors = fold_in(problem, ItemSide.of(users, self.l1), tol=FOLD_IN_TOL / 10)
        weights = None
        if not self.neighborhood.is_empty:
            base, level = factors, words.alpha * self.clicks.level
            if words.loss == "I" and (words.alpha > RULE.cost_ratio or costs is not None):
                # Beside what the users' tastes say when clicks weigh as other cells do.
                even = replace(problem, weight=np.ones_like(problem.weight), cap=None, l1=self.l1 / level)
                base = fold_in(even, ItemSide.of(users, even.l1), tol=FOLD_IN_TOL / 10)
            weights = fold_neighbors(problem, (users, base), item, histories, self.scaling.item, settings)
        return (factors / item[:, None]).astype(np.float32), weights

    def _find_item_power(self, seen: Any) -> float:
        """Return the power of their number of clicks by which items were scaled: that of the most popular tells it."""
        counts = np.bincount(seen.indices, self.genuine, seen.shape[1])
        most = int(counts.argmax())
        return -float(np.log(self.scaling.item[most]) / np.log(counts[most])) if counts[most] > 1 else 0.0

    def explain(self, seen: Any, row: int, item: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the item rows of a user's history, (k,), and what each adds to the common taste for an item row."""
        pattern, mine = Pattern.of(seen[[row]]), slice(seen.indptr[row], seen.indptr[row + 1])
        genuine = None if self.genuine is None else self.genuine[mine]
        problem, user_scaling = self.build_problem(pattern, self.clicks.select_row(seen.indptr, row), genuine)
        factors = (self.users[[row]] * user_scaling[:, None]).astype(self.scaling.item.dtype)
        if self.is_bounded:
            found = self._share_inside(problem, factors, item)
        else:
            found = explain_value(problem, self.side, factors, item)
        return pattern.indices, found / (user_scaling[0] * self.scaling.item[item])

    def _share_inside(self, problem: Problem, factors: FloatArray, item: int) -> npt.NDArray[Any]:
        """What `explain_value` gives, of bounded factors: the coordinates that no bound holds answer to it."""
        Q = self.side.factors
        inside = (factors[0] > 0) & (factors[0] < (1 - 1e-6) * compute_upper_bound(Q.shape[1]))
        observed = problem.pattern.dots(factors, Q)
        weights = problem.pull(observed) + observed
        part = Q[:, inside].astype(np.float64)
        gram = part.T @ part + problem.l1 * np.eye(int(inside.sum()))
        along = part[problem.pattern.indices] @ solve_penalized(gram, part[item])
        return np.asarray(weights * along)

    # Noise

    def leave_out(self, seen: Any, dtype: str) -> LeaveOneOut:
        """Return U on the clicked cells less the influence of each cell's own click."""
        problem, _ = self.build_problem(Pattern.of(seen), self.clicks.values, self.genuine)
        return leave_out_own(problem, self.make_factors(dtype))

    def find_tastes(self, seen: Any) -> Tastes:
        """Return how alike items are, without the user who is asked about."""
        pattern = Pattern.of(seen)
        problem, _ = self.build_problem(pattern, self.clicks.values, self.genuine)
        factors = self.make_factors("float64")
        users, items = factors.users, factors.items
        u = pattern.dots(users, items)
        return Tastes.of(pattern, users, items, problem.pull(u) + u, self.l1)

    # Saving

    def state(self) -> ModelState:
        """Return arrays and plain facts, for saving."""
        arrays = {
            "user_factors": self.users,
            "item_factors": self.items,
            "user_scaling": self.scaling.user,
            "item_scaling": self.scaling.item,
            **sparse_arrays("neighbors", self.neighborhood.weights),
        }
        clicks = self.clicks
        optional = {
            "click_costs": clicks.values,
            "item_costs": clicks.item,
            "user_costs": clicks.user,
            "genuine": self.genuine,
        }
        arrays |= {name: array for name, array in optional.items() if array is not None}
        facts = ProblemFacts(
            l1=self.l1,
            l2=self.l2,
            own_l2=self.own_l2,
            posed=self.words,
            costs=self.costs,
            mean_weight=self.clicks.mean,
            neighbor_power=self.neighborhood.power,
        )
        return arrays, vars(facts)

    @classmethod
    def from_state(cls, arrays: Arrays, facts: ProblemFacts, *, is_bounded: bool) -> FittedProblem:
        """Return what `state` was made of."""
        words, items = facts.posed, arrays["item_factors"]
        costs = facts.costs
        if costs.weight is None:
            raise ModelFileError("the costs of a fitted model need the weight of clicks")
        named = [arrays.get(name) for name in ("click_costs", "item_costs", "user_costs")]
        clicks = ClickCosts(named[0], named[1], facts.mean_weight, named[2], costs.decides_only)
        neighborhood = Neighborhood.none(len(items))
        if "neighbors.indptr" in arrays:
            weights = sparse_from(arrays, "neighbors", neighborhood.weights.shape)
            neighborhood = Neighborhood(weights, facts.neighbor_power)
        users, scaling = arrays["user_factors"], Scaling(arrays["user_scaling"], arrays["item_scaling"])
        if is_bounded:
            _check_bounds("user_factors", users, scaling.user)
            _check_bounds("item_factors", items, scaling.item)
        return cls(
            words,
            users,
            items,
            scaling,
            clicks,
            costs,
            neighborhood,
            facts.l1,
            facts.l2,
            facts.l2 if isinstance(facts.own_l2, str) else facts.own_l2,
            is_bounded,
            arrays.get("genuine"),
        )


def _check_bounds(name: str, factors: FloatArray, scaling: FloatArray) -> None:
    """Raise ModelFileError unless factors, (n, d), in units of a click, lie in [0, 1/sqrt(d)] once scaled, (n,)."""
    rank = factors.shape[1]
    largest = (factors.max(axis=1, initial=0) * scaling).max(initial=0)
    if rank == 0 or factors.min(initial=0) < 0 or largest * rank**0.5 > 1.001:
        raise ModelFileError(f"array {name!r} leaves the bounds of the paper's form")


def keep_nonzero(pattern: Pattern, values: FloatArray) -> Any:
    """Return the sparse (n, m) array of those values that are not 0."""
    matrix = pattern.make_matrix(values.astype(np.float32))
    matrix.eliminate_zeros()
    return matrix
