"""The problem that a model was fitted to, with its solution: for new users and items, explanations, and noise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, FloatArray, Int32Array, Rows
from csrr._base.threads import TimeUpError, cut_off, seconds_left
from csrr.data.ids import Id
from csrr.data.log import Log
from csrr.models.build_problem import (
    ClickCosts,
    ClickProblem,
    Costs,
    ProblemSpec,
    Scaling,
    Settings,
    is_balanced,
    leave_out_own,
    make_targets,
)
from csrr.models.estimator import count_clicks
from csrr.models.features import FeatureFacts, declare_parts
from csrr.models.foldin import FoldedFactors, FoldedItems, make_scorer
from csrr.models.order import (
    IN_NO_ORDER,
    ORDER_PARTS,
    FadedScores,
    OrderFacts,
    OrderSettings,
    fit_faded,
    list_sequences,
)
from csrr.models.schema import FLOATS, Arrays, FilePart, ModelFileError, SparseArray, Values, sparse_arrays, sparse_from
from csrr.models.scorer import explain_score, solve_penalized
from csrr.models.store import ModelState, factors
from csrr.noise.scores import LeaveOneOut, Tastes
from csrr.numerics.certificate import Certificate
from csrr.numerics.engine import Engine
from csrr.numerics.factored import Factors, ItemSide, explain_value, fold_in
from csrr.numerics.neighbors import (
    Factored,
    Regression,
    Ridge,
    SingularError,
    find_nearest_known,
    make_weights,
    weigh_neighbors,
)
from csrr.numerics.paper_solvers import compute_upper_bound, fold_in_nonnegative
from csrr.numerics.problem import LowRank, Pattern, Problem, build, select_rows
from csrr.numerics.thread_engine import THREADS
from csrr.parameters import Number, ParameterError, Whole
from csrr.ranking.topk import Products, ScoredItems, multiply_own, multiply_pairs
from csrr.registry import find_engine
from csrr.results.recommendations import Explanation

if TYPE_CHECKING:
    from csrr.models.auto import Chosen
    from csrr.models.csrr_base import CSRRBase


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """`weights`, csr float32 of shape (n_items, n_items): what item i in a history adds to the score of item j.

    In units of a click, times the number of clicks of the history to the power `power`.
    """

    weights: Any
    power: float = 0.0

    @classmethod
    def none(cls, n_items: int) -> Neighborhood:
        """Return weights that are all 0."""
        return cls(sparse.csr_array((n_items, n_items), dtype=np.float32))

    @classmethod
    def of(cls, built: ClickProblem, u: Factored, user_scaling: float) -> Neighborhood:
        """Return the weights that best explain the residual of U, the solution of the balanced problem."""
        n_items, settings = built.problem.pattern.shape[1], built.settings
        if settings.neighbors == 0:
            return cls.none(n_items)
        regression = built.build_regression(settings.neighbors, settings.neighbor_scaling)
        ridge = Ridge(settings.neighbors, settings.reg_neighbors * regression.mean_diagonal)
        weights = make_click_weights(
            regression, built.problem.engine.get(regression.solve([u], [ridge])[0, 0]), built.scaling.item
        )
        return cls(weights, user_scaling - settings.neighbor_scaling)

    @property
    def is_empty(self) -> bool:
        """Whether no item has a neighbor."""
        return bool(self.weights.nnz == 0)

    @cached_property
    def by_item(self) -> Any:
        """The weights by scored item: the transposed matrix, csr, of which rows are quick to take."""
        return self.weights.T.tocsr()

    def scale(self, clicks: Any, amounts: FloatArray | None = None) -> npt.NDArray[np.float32]:
        """Return the factor on the weights for each user of `clicks`, csr: shape (n_users,).

        Here and below, `amounts`, (nnz,), are what clicks count for; None: 1.
        """
        scale: npt.NDArray[np.float32] = (count_clicks(clicks, amounts) ** self.power).astype(np.float32)
        return scale

    def score_pairs(
        self, clicks: Any, user_rows: Rows, item_rows: Rows, amounts: FloatArray | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the part of neighbors in the scores of pairs of a user and an item, (n,)."""
        if self.is_empty:
            return np.zeros(len(user_rows), np.float32)
        return multiply_pairs(clicks, user_rows, item_rows, self.weights, self.scale(clicks, amounts), amounts)

    def score_clicks(self, clicks: Any, amounts: FloatArray | None = None) -> npt.NDArray[np.float32]:
        """Return the part of neighbors in the score of each click, (nnz,)."""
        if self.is_empty:
            return np.zeros(len(clicks.indices), np.float32)
        return multiply_own(clicks, self.weights, self.scale(clicks, amounts), amounts)

    def explain_history(self, clicks: Any, row: int, item: int, amounts: FloatArray | None = None) -> AnyArray:
        """Return the contribution of each click of a user row to the score of an item row, (number of clicks,)."""
        mine = slice(clicks.indptr[row], clicks.indptr[row + 1])
        own = None if amounts is None else amounts[mine]
        weights: AnyArray = self.by_item[[item]].toarray()[0, clicks.indices[mine]]
        found = weights * self.scale(clicks[[row]], own)
        return found if own is None else found * own


def make_click_weights(regression: Regression, solved: Float32Array, item: FloatArray) -> Any:
    """Return weights on the support, (m, K), in units of a click: csr, (m, m); `item`, (m,), is D_i^-b."""
    weights = regression.by_neighbor.make_matrix(solved)
    weights.data *= np.repeat(item, np.diff(weights.indptr)) / item[weights.indices]
    return weights


def fold_neighbors(
    problem: Problem, u: Factored, scaling: FloatArray, seen: Any, item: FloatArray, settings: Settings
) -> Any:
    """Return the weights for new items, csr (n_items, new), that best explain the residual of their common taste.

    `problem` has the new items as rows and the users as columns; `u` are the factors of users and new items. `scaling`,
    (new,), is D_i^-b of the new items, `item`, (n_items,), that of the known ones, and `seen`, csr, has the events of
    these, with what they count for.
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


FOLD_IN_TOL, ROUGH_TOL = 1e-3, 1e-2
"""The accuracy of factors that are folded in, and of those that a solver only starts from."""
BEFORE_NEIGHBORS = 0.6
"""The share of the remaining time that the fit of U may take where neighbors follow."""
LITTLE = 1 / 3
"""The share of the mean explained part below which a click is in V, where U's problem has no V."""

KEPT: tuple[FilePart, ...] = (
    *factors(),
    Values("user_scaling", ("users",), FLOATS, above=0, most=1),
    Values("item_scaling", ("items",), FLOATS, above=0, most=1),
    SparseArray.of("neighbors", ("items", "items")),
    SparseArray.of("specific", ("users", "items"), inside="seen"),
    Values("click_costs", ("events",), FLOATS, above=0, optional=True),
    Values("item_costs", ("items",), FLOATS, above=0, optional=True),
    Values("user_costs", ("users",), FLOATS, above=0, optional=True),
    Values("genuine", ("events",), FLOATS, above=0, most=1, optional=True),
    Values("item_gram", ("rank", "rank"), FLOATS, optional=True),
    ORDER_PARTS,
    declare_parts("features", "items"),
    declare_parts("user_features", "users"),
)
"""The arrays of a problem in a file."""


@dataclass(frozen=True, kw_only=True)
class CSRRFacts:
    """The contents of a file of a CSRR or a relative besides arrays."""

    certificate: Certificate
    rank: Annotated[int, Whole("The rank of U.")]
    settings: Settings
    chosen: str
    chosen_events: Annotated[int, Whole("The size of the log at the choice.")]
    l1: Annotated[float, Number("The strength on the rank.", above=0)]
    l2: Annotated[float | None, Number("The strength on V; None for no V.", least=0)]
    own_l2: Annotated[float | None, Number("The regularization of V.", least=0)]
    posed: ProblemSpec
    costs: Costs
    mean_weight: Annotated[float, Number("What weights were divided by.", above=0)]
    neighbor_power: Annotated[float, Number("That of a neighborhood.", least=-1, most=1)]
    order: OrderFacts = IN_NO_ORDER
    features: FeatureFacts | None = None
    user_features: FeatureFacts | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedProblem:
    """The factors of U, float32 of shapes (n, d) and (m, d), in units of a click, and the data of their problem.

    `specific` is V in units of a click, csr (n, m). `seen`, csr, are the training events, `ages` the numbers of later
    events where their order is known, and `faded` the scores of a model that uses the order. `own_l2` is the
    regularization of V, whether or not U's problem has V; None for no V. `is_bounded` says that the factors are those
    of the paper's CSRR-e, in [0, 1/sqrt(d)]. `genuine`, (nnz,), is what each training event counts for; None: 1, as for
    events of new histories. `gram`, (d, d), is Q'Q of the items that U was fitted to, where others were added; None: of
    all. With `has_described`, users without events have factors by their features.
    """

    spec: ProblemSpec
    users: npt.NDArray[np.float32]
    items: npt.NDArray[np.float32]
    specific: Any
    seen: Any
    ages: Int32Array | None
    scaling: Scaling
    clicks: ClickCosts
    costs: Costs
    neighborhood: Neighborhood
    faded: FadedScores | None
    l1: float
    l2: float | None
    own_l2: float | None
    engine: Engine
    is_bounded: bool = False
    genuine: FloatArray | None = None
    gram: FloatArray | None = None
    has_described: bool = False

    @classmethod
    def of(
        cls,
        model: CSRRBase,
        log: Log,
        built: ClickProblem,
        factors: Factors,
        neighborhood: Neighborhood,
        order: OrderSettings,
    ) -> FittedProblem:
        """Return the problem of a model that has this training log, with its solution.

        `factors` are U in the units of the problem. If the model's `reg_sparse` is "auto", V also exists where U's
        problem has none: it is what neither U nor neighbors explain.
        """
        problem, scaling, engine, faded = built.problem, built.scaling, built.problem.engine, None
        if order.kind != "ignore":
            faded = fit_faded(partial(list_sequences, log), built, engine.get(factors.items), neighborhood, order)
            neighborhood = Neighborhood.none(log.n_items)
        units, free = scaling.make_targets(problem.pattern), not model.is_paper_form
        explained = _explain_clicks(problem, factors, neighborhood.score_clicks(model.seen_, built.genuine), units)
        own_l2 = built.l2
        if own_l2 is None and model.reg_sparse == "auto":
            own_l2 = built.costs.alpha * (1 - LITTLE * float((explained / problem.target).clip(0, 1).mean()))
        return cls(
            spec=ProblemSpec(built.loss, built.costs.alpha, float(model.user_scaling), free, built.weighing),
            users=_divide_rows(engine.get(factors.users), scaling.user),
            items=_divide_rows(engine.get(factors.items), scaling.item),
            specific=_find_specific(problem, explained, units, built.weighted_targets, own_l2),
            seen=model.seen_,
            ages=model.seen_ages_,
            scaling=scaling,
            clicks=built.clicks,
            costs=built.costs,
            neighborhood=neighborhood,
            faded=faded,
            l1=problem.l1,
            l2=built.l2,
            own_l2=own_l2,
            engine=engine,
            is_bounded=not (model.is_convex or free),
            genuine=built.genuine,
        )

    @cached_property
    def side(self) -> ItemSide:
        """The item side, in the units of the problem."""
        return ItemSide.of(self.items * self.scaling.item[:, None], self.l1, self.engine, self.gram)

    @cached_property
    def _side_here(self) -> ItemSide:
        """The same on this machine, for answers on one user."""
        return ItemSide.of(self.side.factors, self.l1, THREADS, self.gram)

    @cached_property
    def own_share(self) -> float:
        """The regularization of V, as a fraction of the value that gives V = 0."""
        return 1.0 if self.own_l2 is None else self.own_l2 / self.costs.alpha

    @property
    def has_neighbors(self) -> bool:
        """Whether scores have a part from item to item."""
        return not self.neighborhood.is_empty or (self.faded is not None and self.faded.weights.nnz > 0)

    @property
    def weighed_seen(self) -> Any:
        """The training events, csr, with what they count for as values."""
        if self.genuine is None:
            return self.seen
        return sparse.csr_array((self.genuine, self.seen.indices, self.seen.indptr), self.seen.shape)

    # Scores

    @cached_property
    def factors(self) -> tuple[Float32Array, Float32Array]:
        """The factors of users and of items whose products are the common taste of scores, (n, d) and (m, d)."""
        if self.faded is None:
            return self.users, self.items
        assert self.ages is not None
        users = self.faded.find_users(self.seen, self.ages)
        if self.has_described:
            is_new = np.diff(self.seen.indptr) == 0
            users[is_new] = self.users[is_new]
        return users, self.faded.right

    @cached_property
    def neighbors(self) -> Any:
        """Weights between items, csr (m, m): what an item in a history, or had last, adds to the scores of others."""
        return self.neighborhood.weights if self.faded is None else self.faded.latest

    @cached_property
    def _faded_seen(self) -> Any:
        """The histories of all users, faded, csr of shape (n, C*m)."""
        assert self.faded is not None
        assert self.ages is not None
        return self.faded.fade(self.seen, self.ages)

    @cached_property
    def _scored_items(self) -> ScoredItems:
        """The items' part of scores without order."""
        return ScoredItems(self.items, self.neighborhood.weights)

    @cached_property
    def _scale(self) -> npt.NDArray[np.float32]:
        """The factor on the weights of neighbors for each user, (n,)."""
        return self.neighborhood.scale(self.seen, self.genuine)

    def make_products(self, model: CSRRBase) -> Products:
        """Return the scores of the model's users."""
        if self.faded is not None:
            return self.faded.make_products(model, self.factors[0], self._faded_seen)
        lists = partial(find_engine, model.engine)
        return Products(self._scored_items, self.users, self.seen, self._scale, self.genuine, lists)

    def score_pairs(self, user_rows: Rows, item_rows: Rows) -> Float32Array:
        """Return what neighbors add to the scores of pairs of a user row and an item row, (n,)."""
        if self.faded is not None:
            return self.faded.score_pairs(self._faded_seen, user_rows, item_rows)
        return self.neighborhood.score_pairs(self.seen, user_rows, item_rows, self.genuine)

    def get_history_weight(self, *, has_weights: bool) -> float | None:
        """Return the weight of a click in a new history without weights; None if weights are not used.

        `has_weights` says that the training events had weights: else these come from their age alone, and clicks of a
        new history are of today.
        """
        kind = self.spec.event_weights
        if kind == "linear" and not has_weights:
            return 1.0
        return None if kind == "ignore" else self.clicks.get_typical_weight(kind)

    def make_factors(self, dtype: str) -> Factors:
        """Return the factors in the units of the problem."""
        users, items = self.users * self.scaling.user[:, None], self.items * self.scaling.item[:, None]
        return Factors(users.astype(dtype), items.astype(dtype))

    def make_start(
        self, built: ClickProblem, old_users: tuple[AnyArray, BoolArray], old_items: tuple[AnyArray, BoolArray]
    ) -> LowRank | None:
        """Return U for a problem of more users and items: the factors at their rows, and which rows are new.

        New rows are folded in. None where there is no U, or where its penalty alone makes it worse than 0, as may be in
        any file.
        """
        if self.users.shape[1] == 0:
            return None
        problem = built.problem
        (P, new_users), (Q, new_items) = old_users, old_items
        P = (P * built.scaling.user[:, None]).astype(problem.target.dtype)
        Q = (Q * built.scaling.item[:, None]).astype(problem.target.dtype)
        engine = problem.engine
        P[new_users] = _fold_rows(problem, new_users, Q)
        users = engine.put(problem.pattern, P)
        Q[new_items] = _fold_rows(problem.T, new_items, users)
        start = Factors(users, Q).to_low_rank(engine)
        return start if problem.l1 * float(start.s.sum()) < problem.value_at_zero else None

    # Users and their histories

    def build_problem(
        self, pattern: Pattern, costs: FloatArray | None, genuine: FloatArray | None = None
    ) -> tuple[Problem, FloatArray]:
        """Return the problem of users with these histories and click costs, items as in training, and their D_u^-a."""
        user = (count_clicks(pattern, genuine) ** -self.spec.user_scaling).astype(self.scaling.item.dtype)
        targets = make_targets(pattern, Scaling(user, self.scaling.item), genuine)
        loss, alpha = self.spec.loss, self.spec.alpha
        return build(pattern, targets, loss=loss, cost_ratio=alpha, l1=self.l1, l2=self.l2, costs=costs), user

    def fold_users(self, model: CSRRBase, users: npt.NDArray[Any], seen: Any) -> FoldedFactors:
        """Return new users by their histories, csr. For each a small convex problem is solved, V included."""
        if self.faded is not None:
            return self.faded.fold(model, users, seen)
        pattern = Pattern.of(seen, self.engine)
        costs = self.clicks.resolve_new(pattern, seen.data, self.spec.event_weights, self.spec.alpha)
        problem, user_scaling = self.build_problem(pattern, costs)
        factors = self._fold_in(problem, self.side)
        units = Scaling(user_scaling, self.scaling.item).make_targets(pattern)
        own = Factors(factors, self.side.factors)
        explained = _explain_clicks(problem, own, self.neighborhood.score_clicks(seen), units)
        weighted = units if costs is None else units * self.engine.put_cells(pattern, costs)
        specific = _find_specific(problem, explained, units, weighted, self.own_l2)
        factors = (self.engine.get(factors) / user_scaling[:, None]).astype(np.float32)
        products = Products(self._scored_items, factors, seen, self.neighborhood.scale(seen))
        return FoldedFactors(users, seen, model, products, factors, specific)

    def _fold_in(self, problem: Problem, side: ItemSide) -> FloatArray:
        """The best factors of the rows of a problem, (n, d), given those of the other side."""
        if self.is_bounded:
            return fold_in_nonnegative(problem, side.factors)
        return fold_in(problem, side, tol=FOLD_IN_TOL / 10)

    # Items and their users

    def fold_items(self, model: CSRRBase, log: Log, chosen: Any) -> FoldedItems:
        """Return the new items of a log, given the users who chose them, csr (new, n).

        Users and known items stay as they are: for each new item small problems are solved.
        """
        pattern, engine, spec = Pattern.of(chosen, self.engine), self.engine, self.spec
        counts = np.maximum(np.diff(pattern.indptr), 1)
        item = (counts ** -self._compute_item_power()).astype(self.scaling.item.dtype)
        targets = Scaling(item, self.scaling.user).make_targets(pattern)
        # New items have no costs of their own.
        costs = replace(self.clicks, item=None).resolve_new(pattern, chosen.data, spec.event_weights, spec.alpha)
        problem = build(pattern, targets, loss=spec.loss, cost_ratio=spec.alpha, l1=self.l1, l2=self.l2, costs=costs)
        users = self.users * self.scaling.user[:, None]
        factors = engine.get(self._fold_in(problem, ItemSide.of(users, self.l1, engine)))
        weights = None
        if not self.neighborhood.is_empty:
            base, level = factors, spec.alpha * self.clicks.level
            if not is_balanced(spec.loss, spec.alpha, costs):
                # The weights are fitted to the residual of factors of the balanced problem.
                even = replace(problem, weight=0 * problem.weight + 1, v_penalty=None, l1=self.l1 / level)
                base = engine.get(fold_in(even, ItemSide.of(users, even.l1, engine), tol=FOLD_IN_TOL / 10))
            given = self.weighed_seen, self.scaling.item, model.chosen_.settings
            weights = fold_neighbors(problem, (users, base), item, *given)
        factors = (factors / item[:, None]).astype(np.float32)
        if self.faded is not None:
            factors *= (counts ** -float(model.chosen_.order.rare_scaling)).astype(np.float32)[:, None]
            factors = np.hstack([np.float32(share) * factors for share in self.faded.shares])
        score_rows = make_scorer(model, factors, weights, self._scale, self.genuine)
        return FoldedItems.of(model, log, chosen, score_rows, factors, weights)

    def _compute_item_power(self) -> float:
        """Return the power of their number of clicks by which items were scaled, from the most popular item."""
        counts = np.bincount(self.seen.indices, self.genuine, self.seen.shape[1])
        most = int(counts.argmax())
        return -float(np.log(self.scaling.item[most]) / np.log(counts[most])) if counts[most] > 1 else 0.0

    def explain(self, model: CSRRBase, user: Id, item: Id) -> Explanation:
        """Return what each item of a user's history adds to the score of an item, by common taste and by neighbors."""
        row, column = model.users_.row(user), model.items_.row(item, "item")
        seen, mine = self.seen, slice(self.seen.indptr[row], self.seen.indptr[row + 1])
        if self.faded is not None and self.ages is not None:
            history, ages = seen.indices[mine], self.ages[mine]
            return explain_score(model, user, item, history, *self.faded.explain(history, ages, column), ages)
        # The problem of one user, on this machine.
        pattern = Pattern.of(seen[[row]], THREADS)
        genuine = None if self.genuine is None else self.genuine[mine]
        problem, user_scaling = self.build_problem(pattern, self.clicks.select_row(seen.indptr, row), genuine)
        factors = (self.users[[row]] * user_scaling[:, None]).astype(self.scaling.item.dtype)
        if self.is_bounded:
            found = self._share_inside(problem, factors, column)
        else:
            found = explain_value(problem, self._side_here, factors, column)
        through = None
        if not self.neighborhood.is_empty:
            through = self.neighborhood.explain_history(seen, row, column, self.genuine)
        amounts = found / (user_scaling[0] * self.scaling.item[column])
        return explain_score(model, user, item, pattern.indices, amounts, through)

    def _share_inside(self, problem: Problem, factors: FloatArray, item: int) -> npt.NDArray[Any]:
        """The parts of `explain_value` for bounded factors: only coordinates inside their bounds depend on clicks."""
        Q = self.side.factors
        inside = (factors[0] > 0) & (factors[0] < (1 - 1e-6) * compute_upper_bound(Q.shape[1]))
        observed = problem.pattern.dots(factors, Q)
        weights = problem.pull(observed) + observed
        part = Q[:, inside].astype(np.float64)
        gram = part.T @ part + problem.l1 * np.eye(int(inside.sum()))
        along = part[problem.pattern.indices] @ solve_penalized(gram, part[item])
        return np.asarray(weights * along)

    # Noise

    def leave_out(self, dtype: str) -> LeaveOneOut:
        """Return U on the clicked cells without the influence of each cell's own click."""
        problem, _ = self.build_problem(Pattern.of(self.seen, self.engine), self.clicks.values, self.genuine)
        factors = self.make_factors(dtype)
        return leave_out_own(problem, Factors(self.engine.put(problem.pattern, factors.users), factors.items))

    def make_tastes(self) -> Tastes:
        """Return the similarities of items, from which a user's own influence can be removed."""
        pattern = Pattern.of(self.seen, THREADS)
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
        costs = {"click_costs": clicks.values, "item_costs": clicks.item, "user_costs": clicks.user}
        optional = costs | {"genuine": self.genuine, "item_gram": self.gram}
        arrays |= {name: array for name, array in optional.items() if array is not None}
        facts = {"l1": self.l1, "l2": self.l2, "own_l2": self.own_l2, "posed": self.spec, "costs": self.costs}
        facts |= {"mean_weight": clicks.mean, "neighbor_power": self.neighborhood.power}
        return arrays, facts

    @classmethod
    def from_state(cls, arrays: Arrays, facts: dict[str, Any], model: CSRRBase) -> FittedProblem:
        """Return the problem whose `state` these are, of a model that has the rest of its file."""
        faded = FadedScores.from_state(arrays, facts["order"].kind, model.seen_ages_)
        users, items, costs = arrays["user_factors"], arrays["item_factors"], facts["costs"]
        if costs.weight is None:
            raise ModelFileError("the costs of a fitted model need the weight of clicks")
        of_clicks, of_items, of_users = (arrays.get(name) for name in ("click_costs", "item_costs", "user_costs"))
        weights = sparse_from(arrays, "neighbors", (len(items), len(items)))
        scaling = Scaling(arrays["user_scaling"], arrays["item_scaling"])
        if is_bounded := not (model.is_convex or facts["posed"].free):
            _check_bounds("user_factors", users, scaling.user)
            _check_bounds("item_factors", items, scaling.item)
        return cls(
            spec=facts["posed"],
            users=users,
            items=items,
            specific=sparse_from(arrays, "specific", model.seen_.shape),
            seen=model.seen_,
            ages=model.seen_ages_,
            scaling=scaling,
            clicks=ClickCosts(of_clicks, of_items, facts["mean_weight"], of_users, costs.decides_only),
            costs=costs,
            neighborhood=Neighborhood(weights, facts["neighbor_power"]),
            faded=faded,
            engine=find_engine(model.engine),
            is_bounded=is_bounded,
            genuine=arrays.get("genuine"),
            gram=arrays.get("item_gram"),
            has_described=facts["user_features"] is not None,
            **{name: facts[name] for name in ("l1", "l2", "own_l2")},
        )


def _check_bounds(name: str, factors: FloatArray, scaling: FloatArray) -> None:
    """Raise ModelFileError unless factors, (n, d), times their scaling, (n,), lie in [0, 1/sqrt(d)]."""
    rank = factors.shape[1]
    largest = (factors.max(axis=1, initial=0) * scaling).max(initial=0)
    if rank == 0 or factors.min(initial=0) < 0 or largest * rank**0.5 > 1.001:
        raise ModelFileError(f"array {name!r} leaves the bounds of the paper's form")


def _divide_rows(factors: FloatArray, scaling: FloatArray) -> Float32Array:
    """Factors, (rows, d), over the scaling of their rows, (rows,)."""
    return (factors / scaling[:, None]).astype(np.float32, order="C", copy=False)


def refold_users(problem: Problem, factors: Factors) -> Factors:
    """Return the factors with the best users for their items."""
    side = ItemSide.of(factors.items, problem.l1, problem.engine)
    return Factors(fold_in(problem, side, factors.users, tol=FOLD_IN_TOL), factors.items)


def fit_neighborhood(
    model: CSRRBase, built: ClickProblem, own: Factors, balanced: LowRank | None, chosen: Chosen
) -> tuple[Neighborhood, Chosen]:
    """Return the neighbors, fitted to the residual of a balanced U, the fit's `own` or another; and what was chosen.

    There are none with order "next", and where the time is up, unless their number was given.
    """
    none = Neighborhood.none(built.problem.pattern.shape[1])
    if chosen.order.kind == "next":
        return none, chosen
    try:
        with cut_off(seconds_left() if model.neighbors == "auto" else None):
            u = own.users, own.items
            if built.settings.neighbors and not built.is_balanced:
                u = (built.compute_balanced() if balanced is None else balanced).split()
            return Neighborhood.of(built, u, float(model.user_scaling)), chosen
    except TimeUpError:
        note = f"{chosen.note}; then none: the time limit left no time for neighbors"
        return none, replace(chosen, settings=chosen.settings._replace(neighbors=0), note=note)


def _fold_rows(problem: Problem, which: BoolArray, other: FloatArray) -> FloatArray:
    """The best factors of some rows of a problem, a numpy array, (rows, k), given those of the other side, (m, k)."""
    if not which.any():
        return np.zeros((0, other.shape[1]), other.dtype)
    side = ItemSide.of(other, problem.l1, problem.engine)
    return problem.engine.get(fold_in(select_rows(problem, which), side, tol=ROUGH_TOL))


def _explain_clicks(problem: Problem, factors: Factors, of_neighbors: AnyArray, units: FloatArray) -> FloatArray:
    """The part of each click that U and neighbors explain, (nnz,); `of_neighbors`, (nnz,), is in units of a click."""
    pattern, engine = problem.pattern, problem.engine
    more = engine.put_cells(pattern, of_neighbors.astype(units.dtype))
    return pattern.dots(factors.users, factors.items) + more * units


def _find_specific(
    problem: Problem, explained: FloatArray, units: FloatArray, weighted_targets: FloatArray, own_l2: float | None
) -> Any:
    """V in units of a click, sparse (n, m), given what the other parts explain of each click; all others are (nnz,)."""
    if own_l2 is not None:
        problem = replace(problem, v_penalty=weighted_targets * units.dtype.type(own_l2))
    specific = problem.pattern.make_matrix((problem.find_specific(explained) / units).astype(np.float32))
    specific.eliminate_zeros()
    return specific


@contextmanager
def name_parameter(reg_neighbors: Any) -> Iterator[None]:
    """Raise ParameterError for a singular system, with the parameter that makes it singular."""
    try:
        yield
    except SingularError as error:
        raise ParameterError.of("reg_neighbors", reg_neighbors, f"is too small: {error}") from None
