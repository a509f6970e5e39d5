"""What CSRR and its relatives share: common taste U, a user's own choices V, and the answers they give."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.data import Log, as_log
from csrr.data.ids import Id
from csrr.models.answers import Explanation, FoldedFactors, Preferences
from csrr.models.build_problem import Posed, PosedModel, Posing
from csrr.models.choose_settings import Chosen, by_rule, choose, hold_out, too_small
from csrr.models.costs import ClickCosts, Costs
from csrr.models.neighborhood import Neighborhood
from csrr.models.settings import RULE, Settings
from csrr.models.settings_search import NAMES, Wanted
from csrr.models.store import Arrays, State, sparse_arrays, sparse_from, step_arrays, steps_from
from csrr.models.strengths import ParameterError, Scaling, check_whole
from csrr.optim.certificate import Certificate
from csrr.optim.factored import Factors
from csrr.optim.foldin import ItemSide, explain_value, fold_in
from csrr.optim.lowrank import LowRank
from csrr.optim.neighbors import SingularError
from csrr.optim.pattern import Floats, Pattern
from csrr.optim.problem import Problem, build
from csrr.optim.solver import Callback, Options, Solution, Step, solve
from csrr.ranking import Neighbours
from csrr.ranking.topk import Rows
from csrr.threads import use_threads

if TYPE_CHECKING:
    from csrr.noise.stability import Stability
    from csrr.noise.suspects import Suspects

_FOLD_IN_TOL = 1e-3
_LITTLE = 1 / 3
"""A click is a user's own, where U's problem has no V, if less of it is explained than this share of the mean."""


class Fit(NamedTuple):
    """What a solver found. Of `free` factors the users are folded in once more: seen and new are treated alike."""

    factors: Factors
    certificate: Certificate
    history: list[Step]
    free: bool = True

    @classmethod
    def of(cls, solution: Solution, *, free: bool = True) -> Fit:
        return cls(Factors.of(solution.low_rank), solution.certificate, solution.history, free)


class RobustModel(PosedModel):
    """Scores U of U + V, fitted to clicks: the fit, new people, explanations, V, saving. A subclass has `_solve`."""

    certificate_: Certificate
    history_: list[Step]
    specific_: sparse.csr_array[np.float32, tuple[int, int]]
    rank_: int
    l1_: float
    l2_: float | None
    chosen_: Chosen
    _neighborhood: Neighborhood
    _settled: Settings | None = None
    _own_l2: float | None

    @property
    def neighbors_(self) -> sparse.csr_array[np.float32, tuple[int, int]]:
        """Weights between items, csr of shape (n_items, n_items): what item i in a history adds to the score of j.

        In units of a click, for a user of one click; see `Neighborhood`.
        """
        self._check_fitted()
        weights: sparse.csr_array[np.float32, tuple[int, int]] = self._neighborhood.weights
        return weights

    # Fitting

    def fit(
        self,
        data: Any,
        *,
        callback: Callback | None = None,
        start: RobustModel | None = None,
        user_costs: Any = None,
        item_costs: Any = None,
    ) -> Self:
        """Fit to a log, a table or a users x items matrix; return the model.

        `callback` sees a `Step` an iteration; what it raises ends the fit and leaves the model as it was. `start`, a
        model of this family fitted to the same users and items, is where the solver begins. `user_costs` and
        `item_costs`, numbers by id (1 for those not named) or one for each in the order of the log's ids, say how
        many times the model's cost of a miss that of a user's, or an item's, clicks is.
        """
        self._check()
        log = self._read(data)
        if start is not None:
            _check_start(start, log)
        try:
            with use_threads(self.threads, blas=1):
                chosen = self._settle(log, user_costs, item_costs)
                posing = self._pose(log, chosen.settings, user_costs, item_costs)
                self._keep(log, posing, self._solve(posing, start or chosen.start, callback), chosen)
        except SingularError as error:
            raise ParameterError(f"reg_neighbors={self.reg_neighbors!r} is too small: {error}") from None
        return self

    def strength(self, data: Any) -> float:
        """Return the l1 that a fit to `data` would have: what `reg_low_rank` comes to there."""
        self._check()
        with use_threads(self.threads, blas=1):
            log = self._read(data)
            return float(self._pose(log, self._settle(log).settings).problem.l1)

    def _settle(self, log: Log, user_costs: Any = None, item_costs: Any = None) -> Chosen:
        """What the parameters that say "auto" come to for a log: by its own held-out events, or by rule."""
        wanted = self._wanted()
        if self._settled is not None:
            return by_rule(self._settled, "as given by another fit")
        if wanted.is_complete or not self._searches:
            return by_rule(wanted.given, "nothing was left to choose" if wanted.is_complete else "chosen by rule")
        parts = hold_out(log, self.seed)
        if parts is None:
            return by_rule(wanted.given, too_small(log, wanted.given))
        posing = self._pose(parts[0], wanted.given, user_costs, item_costs)
        return choose(posing, *parts, wanted, self.time_limit and self.time_limit / 2)

    @property
    def _searches(self) -> bool:
        """Whether what is left open is chosen on held-out events."""
        return False

    def _wanted(self) -> Wanted:
        """What the parameters give, by rule where they give nothing, and what they leave to the data."""
        names = ("reg_sparse", "neighbors", "reg_neighbors")
        given = {name: getattr(self, name) for name in names if getattr(self, name) != "auto"}
        settings, left = RULE._replace(neighbor_scaling=self.neighbor_scaling, **given), set(names) - set(given)
        if self.l1 is None and self.reg_low_rank == "auto":
            left.add("strength")
        if self.l2 is not None or "strength" not in left:
            # The problem of U is given, or as good as.
            left.discard("reg_sparse")
        if {"strength", "reg_sparse"} <= left and self.loss == "I" and not self._cost_words().are_given:
            left.add("cost_ratio")
        return Wanted(settings, frozenset(left))

    @abstractmethod
    def _solve(self, posing: Posing, start: Start, callback: Callback | None) -> Fit:
        """Return the factors of U for the problem."""

    def _begin(self, start: Start) -> LowRank | None:
        """Where a solver begins: at a low-rank matrix, at that of another model, or by itself."""
        return start._as_start(self.dtype) if isinstance(start, RobustModel) else start

    def _factors(self, dtype: str) -> Factors:
        """The factors of this model's U: scores in the units of the problem."""
        users = self.user_factors_ * self._scaling.user[:, None]
        items = self.item_factors_ * self._scaling.item[:, None]
        return Factors(users.astype(dtype), items.astype(dtype))

    def _as_start(self, dtype: str) -> LowRank:
        """This model's U as a start for another problem over the same users and items."""
        return self._factors(dtype).low_rank()

    def settled(self, settings: Settings) -> Self:
        """Take these settings in place of what is left open, and return the model: its fits search nothing."""
        self._settled = settings
        return self

    def settled_params(self) -> dict[str, Any]:
        """Return the parameters that give these scores again without a search: numbers for what was chosen.

        A `reg_sparse` of 1 among them says that U was fitted without V; V is then left out altogether.
        """
        self._check_fitted()
        settings, params = self.chosen_.settings, self.get_params()
        found = {
            "reg_sparse": 1.0 if self.l2_ is None else self.l2_ / self.costs_.ratio,
            **{name: getattr(settings, name) for name in ("max_rank", "neighbors", "reg_neighbors")},
        }
        found = {name: value for name, value in found.items() if params.get(name) == "auto"}
        if params["reg_low_rank"] in ("auto", "noise") and self.l1 is None:
            found["l1"] = self.l1_
        if self.costs_.is_default:
            found["cost_ratio"] = self.costs_.ratio
        return found

    def _keep(self, log: Log, posing: Posing, fit: Fit, chosen: Chosen) -> None:
        """Add what goes from item to item and what neither explains; set the fitted attributes."""
        problem, scaling = posing.problem, posing.scaling
        users, items = fit.factors.users, fit.factors.items
        if fit.free:
            users = fold_in(problem, ItemSide.of(items, problem.l1), users, tol=_FOLD_IN_TOL)
        neighborhood = Neighborhood.of(posing, users, items, float(self.user_scaling))
        units, clicks = scaling.targets(problem.pattern), log.to_csr()
        explained = problem.pattern.dots(users, items) + neighborhood.of_own(clicks).astype(units.dtype) * units
        # V that U's problem does without still says what neither part explains.
        own_l2 = posing.l2
        if own_l2 is None and self.reg_sparse == "auto":
            own_l2 = posing.costs.ratio * (1 - _LITTLE * float(np.mean(np.clip(explained / problem.target, 0, 1))))
        own = problem if own_l2 is None else replace(problem, cap=posing.asked * units.dtype.type(own_l2))
        specific = own.specific(explained)
        self._remember(log)
        self._neighborhood, self.chosen_ = neighborhood, replace(chosen, start=None)
        self._scaling = scaling
        self._clicks, self.costs_ = posing.clicks, posing.costs
        self._posed = Posed(self.loss, posing.costs.ratio, float(self.user_scaling), fit.free, self.event_weights)
        self.l1_, self.l2_, self._own_l2 = problem.l1, posing.l2, own_l2
        self.user_factors_ = (users / scaling.user[:, None]).astype(np.float32)
        self.item_factors_ = (items / scaling.item[:, None]).astype(np.float32)
        self.specific_ = _without_zeros(problem.pattern, specific / units)
        self.rank_ = fit.certificate.rank
        self.certificate_, self.history_ = fit.certificate, fit.history
        self.__dict__.pop("_side", None)

    # Answers

    def _score_rows(self, rows: Rows) -> npt.NDArray[np.float32]:
        scores = super()._score_rows(rows)
        self._neighborhood.add(scores, self.seen_, rows)
        return scores

    def _score_pairs(self, user_rows: Rows, item_rows: Rows) -> npt.NDArray[np.float32]:
        common = super()._score_pairs(user_rows, item_rows)
        return common + self._neighborhood.of_pairs(self.seen_, user_rows, item_rows)

    def _item_side(self) -> ItemSide:
        """The item side of the fitted problem, made at first use."""
        if "_side" not in self.__dict__:
            self._side = ItemSide.of(self.item_factors_ * self._scaling.item[:, None], self.l1_)
        return self._side

    def _histories(self, pattern: Pattern, costs: Floats | None) -> tuple[Problem, Floats]:
        """The problem of users with these histories and click costs, items as in training, and their D_u^-a."""
        counts = np.maximum(np.diff(pattern.indptr), 1)
        user = (counts**-self._posed.user_scaling).astype(self._scaling.item.dtype)
        targets = Scaling(user, self._scaling.item).targets(pattern)
        loss, alpha = self._posed.loss, self._posed.alpha
        problem = build(pattern, targets, loss=loss, cost_ratio=alpha, l1=self.l1_, l2=self.l2_, costs=costs)
        return problem, user

    def _with_own(self, problem: Problem, units: Floats, costs: Floats | None) -> Problem:
        """The problem with the penalty by which V is told, whether or not U's problem has V."""
        if self._own_l2 is None:
            return problem
        asked = units if costs is None else units * costs
        return replace(problem, cap=asked * units.dtype.type(self._own_l2))

    @property
    def _weighs_histories(self) -> bool:
        return self._posed.event_weights != "ignore"

    def _read_histories(self, histories: Any) -> tuple[npt.NDArray[Any], Any]:
        log = histories if isinstance(histories, list | tuple) else as_log(histories)
        users, seen = super()._read_histories(log)
        if self._weighs_histories and (not isinstance(log, Log) or log.weights is None):
            seen.data[:] = self._clicks.typical_weight(self._posed.event_weights)
        return users, seen

    def _fold(self, users: npt.NDArray[Any], seen: Any) -> FoldedFactors:
        """The item side stays as it is; each user's own small convex problem is solved, V included."""
        pattern = Pattern.of(seen)
        with use_threads(self.threads, blas=1):
            costs = self._clicks.of_new(pattern, seen.data, self._posed.event_weights, self._posed.alpha)
            problem, user_scaling = self._histories(pattern, costs)
            factors = self._fold_factors(problem)
            units = user_scaling[pattern.rows] * self._scaling.item[pattern.indices]
            explained = problem.pattern.dots(factors, self._item_side().factors)
            explained += self._neighborhood.of_own(seen).astype(units.dtype) * units
            specific = self._with_own(problem, units, costs).specific(explained)
        mine = (factors / user_scaling[:, None]).astype(np.float32)

        def score_rows(rows: Rows) -> npt.NDArray[np.float32]:
            scores = mine[rows] @ self.item_factors_.T
            self._neighborhood.add(scores, seen, rows)
            return scores

        return FoldedFactors(users, seen, self, score_rows, mine, _without_zeros(pattern, specific / units))

    def _fold_factors(self, problem: Problem) -> Floats:
        """The factors of the users of a problem over the fitted items, (n, d), in its units."""
        return fold_in(problem, self._item_side(), tol=_FOLD_IN_TOL / 10)

    def explain(self, user: Id, item: Id) -> Explanation:
        """Return how much each item of the user's history adds to the score of `item`; the amounts sum to it.

        `neighbors` is what of an amount comes from item to item, the rest is common taste. Exact at the optimum; what
        the fit's tolerance leaves over of the common taste is spread in proportion.
        """
        self._check_fitted()
        row, column = self.users_.row(user), self.items_.row(item, "item")
        pattern = Pattern.of(self.seen_[[row]])
        problem, user_scaling = self._histories(pattern, self._clicks.of_row(self.seen_.indptr, row))
        factors = (self.user_factors_[[row]] * user_scaling[:, None]).astype(self._scaling.item.dtype)
        amounts = self._shares(problem, factors, column) / (user_scaling[0] * self._scaling.item[column])
        through = self._neighborhood.of_history(pattern.indices, column)
        return self._explanation(user, item, pattern.indices, amounts, None if self._neighborhood.is_empty else through)

    def _shares(self, problem: Problem, factors: Floats, item: int) -> npt.NDArray[Any]:
        """What each cell of a one-user problem adds to the user's value for an item row, (nnz,)."""
        return explain_value(problem, self._item_side(), factors, item)

    def similar_items(
        self, item: Id, k: int = 10, *, by: Literal["auto", "neighbors", "factors"] = "auto"
    ) -> Neighbours:
        """Return up to `k` other items that are most like `item`.

        By "neighbors", those that speak most for it where a user has them (as many as have a positive weight); by
        "factors", those of the largest cosine of common taste. "auto" is by neighbors if `item` has any.
        """
        self._check_fitted()
        if by not in ("auto", "neighbors", "factors"):
            raise ParameterError(f'by={by!r} must be "auto", "neighbors" or "factors"')
        weights = self._neighborhood.column(self.items_.row(item, "item"))
        if by == "factors" or (by == "auto" and not (weights > 0).any()):
            return super().similar_items(item, k)
        return self._heaviest(item, np.where(weights > 0, weights, 0), k)

    def specific_preferences(self, user: Id) -> Preferences:
        """Return the user's entries of V, largest first: choices that the common taste does not explain.

        In units of a click: 0.8 says that four fifths of this click are this user's own. `Preferences` tells taste from
        junk; for that, the first question takes another fit, unless this model is fit to judge (see `suspects`).
        """
        from csrr.noise.own_tastes import specific_preferences

        self._check_fitted()
        return specific_preferences(self, user)

    # Noisy clicks

    def suspects(self, *, popularity: float = 0.0, stability: bool = False) -> Suspects:
        """Return how probable it is that each click of the training data is noise, and which users and items have most.

        Judged by a model with `reg_sparse` 0.5 and the automatic `reg_low_rank`: this one, if it is such, or one fitted
        to the same clicks. Noise is taken to fall on an item in proportion to (its clicks + 1)^popularity: 0 finds
        clicks at random, 0.5 finds more of those on popular items and of accounts that push one, and takes more of
        the good ones for noise. `stability` adds how much of it small changes leave, at the price of some fits.
        """
        from csrr.noise.suspects import suspects

        self._check_fitted()
        return suspects(self, popularity=popularity, stability=stability)

    def suspect_scores(self, *, popularity: float = 0.0) -> npt.NDArray[np.floating[Any]]:
        """Return `suspects(...).scores`, shape (n_events,), alone."""
        from csrr.noise.suspects import suspect_scores

        self._check_fitted()
        return suspect_scores(self, popularity=popularity)

    def stability(self, *, popularity: float = 0.0) -> Stability:
        """Return how much of V and of the suspects is the same after a small change of seed, strengths or clicks.

        Every row takes one or two fits.
        """
        from csrr.noise.stability import stability

        self._check_fitted()
        return stability(self, popularity=popularity)

    # Saving

    def _state(self) -> State:
        arrays = {
            "user_factors": self.user_factors_,
            "item_factors": self.item_factors_,
            "user_scaling": self._scaling.user,
            "item_scaling": self._scaling.item,
            **step_arrays(self.history_),
            **sparse_arrays("specific", self.specific_),
            **sparse_arrays("neighbors", self._neighborhood.weights),
            **{f"chosen.{name}": column for name, column in self.chosen_.columns.items()},
        }
        optional = {"click_costs": self._clicks.values, "item_costs": self._clicks.item}
        arrays |= {name: array for name, array in optional.items() if array is not None}
        facts = {
            "certificate": self.certificate_.to_dict(),
            "l1": self.l1_,
            "l2": self.l2_,
            "own_l2": self._own_l2,
            "rank": self.rank_,
            "posed": self._posed._asdict(),
            "costs": asdict(self.costs_),
            "mean_weight": self._clicks.mean,
            "neighbor_power": self._neighborhood.power,
            "settings": self.chosen_.settings._asdict(),
            "chosen": self.chosen_.note,
        }
        return arrays, facts

    def _restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        self.user_factors_, self.item_factors_ = arrays["user_factors"], arrays["item_factors"]
        self._scaling = Scaling(arrays["user_scaling"], arrays["item_scaling"])
        self.specific_ = sparse_from(arrays, "specific", self.seen_.shape)
        self.history_ = steps_from(arrays)
        self.certificate_ = Certificate(**facts["certificate"])
        self._posed = Posed(**facts["posed"])
        # Models saved before costs had words have only the ratio.
        self.costs_ = Costs(**facts.get("costs", {"ratio": self._posed.alpha, "words": "as given"}))
        self._clicks = ClickCosts(arrays.get("click_costs"), arrays.get("item_costs"), facts.get("mean_weight", 1.0))
        self.l1_, self.l2_, self.rank_ = facts["l1"], facts["l2"], facts["rank"]
        self._own_l2 = facts.get("own_l2", self.l2_)
        # Models saved before there were neighbours have none.
        self._neighborhood = Neighborhood.none(len(self.items_))
        self.chosen_ = by_rule(self._wanted().given, "saved before choices were kept")
        if "neighbors.indptr" in arrays:
            shape = self._neighborhood.weights.shape
            self._neighborhood = Neighborhood(sparse_from(arrays, "neighbors", shape), facts["neighbor_power"])
            columns = {name: arrays[f"chosen.{name}"] for name in NAMES}
            self.chosen_ = Chosen(columns, Settings(**facts["settings"]), facts["chosen"])


class ConvexModel(RobustModel):
    """One whose U is the optimum of the convex problem, to a gap of `tol`, its rank bounded by `max_rank`."""

    max_rank: int | Literal["auto"] | None

    def _check(self) -> None:
        if self.max_rank is not None and self.max_rank != "auto":
            check_whole("max_rank", self.max_rank, least=1, otherwise='or None or "auto"')
        super()._check()
        smallest = 1e-5 if self.dtype == "float32" else 1e-12
        if self.tol < smallest:
            raise ParameterError(
                f"tol={self.tol!r} is beyond {self.dtype}, which resolves a relative gap of {smallest:g}"
                + ('; use dtype="float64"' if self.dtype == "float32" else "")
            )

    def _wanted(self) -> Wanted:
        wanted = super()._wanted()
        if self.max_rank != "auto":
            return replace(wanted, given=wanted.given._replace(max_rank=self.max_rank))
        return replace(wanted, open=wanted.open | {"max_rank"}) if "strength" in wanted else wanted

    def _options(self, settings: Settings) -> Options:
        """When the solver is to stop."""
        return Options(self.tol, self.max_iter, self.time_limit, settings.max_rank, self.seed)

    def _solve(self, posing: Posing, start: Start, callback: Callback | None) -> Fit:
        options = self._options(posing.settings)
        return Fit.of(solve(posing.problem, options, start=self._begin(start), callback=callback))


Start = LowRank | RobustModel | None


def _check_start(start: Any, log: Log) -> None:
    """Raise ParameterError unless `start` is a model of this family, fitted to as many users and items."""
    if not isinstance(start, RobustModel):
        raise ParameterError(f"start={start!r} must be a fitted CSRR, CSRRe, MCShift or BiasMC")
    start._check_fitted()
    if (len(start.users_), len(start.items_)) != (log.n_users, log.n_items):
        raise ParameterError(
            f"start was fitted to {len(start.users_)} users x {len(start.items_)} items, "
            f"the data has {log.n_users} x {log.n_items}"
        )


def _without_zeros(pattern: Pattern, values: Floats) -> Any:
    """The sparse (n, m) array of those values that are not 0."""
    matrix = pattern.matrix(values.astype(np.float32))
    matrix.eliminate_zeros()
    return matrix
