"""What the parameters of CSRR and its relatives ask for: costs, strengths, and what is left to the data."""

from __future__ import annotations

from typing import Any, Literal, Self

from csrr.data import Log
from csrr.models.build_problem import build_problem
from csrr.models.choose_settings import choose_settings
from csrr.models.costs import Costs, CostWords, EventWeights
from csrr.models.recommender import Recommender
from csrr.models.settings import RULE, Settings
from csrr.models.settings_search import Wanted
from csrr.optim.problem import Loss
from csrr.optim.solver import Options
from csrr.parameters import ParameterError, list_defaults
from csrr.threads import use_threads


class RobustParameters(Recommender):
    """A model that is fitted to clicks with costs. A subclass has the parameters, as arguments or as constants."""

    loss: Loss
    cost_ratio: float | None = None
    positive_cost: float | None = None
    miss_cost: float | None = None
    false_alarm_cost: float | None = None
    recall_weight: float | None = None
    event_weights: EventWeights = "ignore"
    reg_low_rank: float | Literal["auto", "noise"]
    reg_sparse: float | Literal["auto"]
    neighbors: int | Literal["auto"] = 0
    reg_neighbors: float | Literal["auto"] = "auto"
    neighbor_scaling: float = 0.0
    l1: float | None
    l2: float | None
    user_scaling: float
    item_scaling: float
    max_rank: int | Literal["auto"] | None = None
    tol: float
    max_iter: int
    time_limit: float | None
    dtype: Literal["float32", "float64"]
    threads: int
    seed: int
    _settled: Settings | None = None

    @classmethod
    def from_costs(
        cls,
        miss: float | None = None,
        false_alarm: float | None = None,
        *,
        positive_cost: float | None = None,
        recall_weight: float | None = None,
        **params: Any,
    ) -> Self:
        """Return a model for costs in your own units: what a miss costs you, and what a false alarm.

        They set the cost ratio of the fit (alpha = miss/false_alarm, Lemma 1) and where it pays to recommend: above the
        probability false_alarm/(miss + false_alarm), `decision_probability`.

        Parameters
        ----------
        miss, false_alarm
            What either costs.
        positive_cost
            Instead, c_p of c_p + c_n = 1.
        recall_weight
            Instead, mu_p of mu_p*recall + mu_n*specificity, with T_n/T_p estimated from the clicks of the fit.
        **params
            Other parameters of the model.

        Returns
        -------
        model
            A new model, not fitted.

        Raises
        ------
        ParameterError
            Where no costs are given, or the model takes none.
        """
        words = CostWords(None, positive_cost, miss, false_alarm, recall_weight)
        if not words.are_given:
            raise ParameterError("give miss and false_alarm, or positive_cost, or recall_weight")
        given = {name: value for name, value in words._asdict().items() if value is not None}
        if not given.keys() <= list_defaults(cls).keys():
            raise ParameterError(f"{cls.__name__} takes no costs: its rho says what a miss weighs; take CSRR or CSRRe")
        model = cls(**given, **params)
        model.check_params()
        return model

    def check_params(self) -> None:
        super().check_params()
        if self.reg_low_rank == 0 and self.l1 is None:
            raise ParameterError("reg_low_rank=0 keeps every click as it is; give a number > 0")
        self.cost_words.check()

    # Costs

    @property
    def cost_words(self) -> CostWords:
        """What was said of costs, in which words."""
        return CostWords(self.cost_ratio, self.positive_cost, self.miss_cost, self.false_alarm_cost, self.recall_weight)

    def resolve_costs(self, log: Log) -> Costs:
        """Return what a miss costs, in false alarms.

        Parameters
        ----------
        log
            The training log.

        Returns
        -------
        costs
            The cost ratio, and where it comes from.
        """
        return self.cost_words.resolve(log)

    # What is left open

    @property
    def searches(self) -> bool:
        """Whether what is left open is chosen on held-out events."""
        return False

    def wanted(self) -> Wanted:
        """Return what the parameters give, by rule where they give nothing, and what they leave to the data.

        Returns
        -------
        wanted
            The settings, and the names of those that are open.
        """
        names = ("reg_sparse", "neighbors", "reg_neighbors")
        given = {name: getattr(self, name) for name in names if getattr(self, name) != "auto"}
        settings, left = RULE._replace(neighbor_scaling=self.neighbor_scaling, **given), set(names) - set(given)
        if self.l1 is None and self.reg_low_rank == "auto":
            left.add("strength")
        if self.l2 is not None or "strength" not in left:
            # The problem of U is given, or as good as.
            left.discard("reg_sparse")
        if {"strength", "reg_sparse"} <= left and self.loss == "I" and not self.cost_words.are_given:
            left.add("cost_ratio")
        if self.max_rank != "auto":
            settings = settings._replace(max_rank=self.max_rank)
        elif "strength" in left:
            left.add("max_rank")
        return Wanted(settings, frozenset(left), self._settled)

    def strength(self, data: Any) -> float:
        """Return the l1 that a fit would have: what `reg_low_rank` comes to there.

        Parameters
        ----------
        data
            A log, a table or a matrix, as for `fit`.

        Returns
        -------
        l1
            The strength on the rank.
        """
        self.check_params()
        with use_threads(self.threads, blas=1):
            log = self.read(data)
            return float(build_problem(self, log, choose_settings(self, log).settings).problem.l1)

    def settled(self, settings: Settings) -> Self:
        """Take settings in place of what is left open, and return the model: its fits search nothing.

        Parameters
        ----------
        settings
            Those of another fit.

        Returns
        -------
        model
            The model itself.
        """
        self._settled = settings
        return self

    # The solver

    def solver_options(self, settings: Settings) -> Options:
        """Return when the solver is to stop.

        Parameters
        ----------
        settings
            What the fit takes for parameters that are left open.

        Returns
        -------
        options
            Gap, iterations, time and rank.
        """
        return Options(self.tol, self.max_iter, self.time_limit, settings.max_rank, self.seed)


def check_precision(tol: float, dtype: str) -> None:
    """Raise ParameterError for a gap that a precision cannot resolve."""
    smallest = 1e-5 if dtype == "float32" else 1e-12
    if tol < smallest:
        raise ParameterError(
            f"tol={tol!r} is beyond {dtype}, which resolves a relative gap of {smallest:g}"
            + ('; use dtype="float64"' if dtype == "float32" else "")
        )
