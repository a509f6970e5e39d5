"""What CSRR and its relatives say of clicks that nobody meant, and of a taste of one's own."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from csrr.data import Log
from csrr.data.ids import Id
from csrr.models.fitted_problem import FittedProblem
from csrr.models.robust import RobustModel
from csrr.models.settings import RULE, Settings
from csrr.noise.judged import STRONG
from csrr.noise.noise_scores import LeftOut, check_popularity
from csrr.noise.own_tastes import Preferences, Tastes, judge_choices
from csrr.noise.stability import Stability, find_stability
from csrr.noise.suspects import Suspects, find_suspects, score_suspects
from csrr.parameters import ParameterError, list_defaults
from csrr.threads import use_threads


class JudgingModel(RobustModel):
    """A robust model that tells which of its clicks are noise, by V or by one like it that is fit to judge."""

    _tastes: Tastes | None = None

    def _take(self, fitted: FittedProblem) -> None:
        super()._take(fitted)
        self._tastes = None

    def specific_preferences(self, user: Id) -> Preferences:
        """Return the user's entries of V, largest first: choices that the common taste does not explain.

        The first question takes another fit, unless this model is fit to judge (see `suspects`).

        Parameters
        ----------
        user
            Their id.

        Returns
        -------
        preferences
            Amounts in units of a click: 0.8 says that four fifths of this click are this user's own. Each is told to be
            taste or junk.
        """
        self.check_fitted()
        row = self.users_.row(user)
        mine = self.specific_[[row]].tocsr()
        order = np.argsort(-mine.data, kind="stable")
        chosen = mine.indices[order]
        kinds: npt.NDArray[np.str_] = np.empty(0, np.str_)
        support: npt.NDArray[np.floating[Any]] = np.empty(0)
        if len(chosen):
            kinds, support = judge_choices(self.tastes(), row, chosen)
        return Preferences(*self.name_items(chosen), mine.data[order], user, kinds, support)

    def tastes(self) -> Tastes:
        """Return the tastes by which own choices are judged; made at the first question after a fit.

        Returns
        -------
        tastes
            How alike items are to everyone but the user who is asked about.
        """
        if self._tastes is None:
            self._tastes = self.as_judge().fitted_.find_tastes(self.seen_)
        return self._tastes

    def suspects(self, *, popularity: float = 0.0, stability: bool = False) -> Suspects:
        """Return how probable it is that each click of the training data is noise, and which users and items have most.

        Judged by a model with `reg_sparse` 0.5 and the automatic `reg_low_rank`: this one, if it is such, or one fitted
        to the same clicks.

        Parameters
        ----------
        popularity
            Noise is taken to fall on an item in proportion to (its clicks + 1)^popularity: 0 finds clicks at random,
            0.5 finds more of those on popular items and of accounts that push one, and takes more of the good ones for
            noise.
        stability
            Whether to add how much of it small changes leave, at the price of some fits.

        Returns
        -------
        suspects
            A probability for each event.
        """
        self.check_fitted()
        check_popularity(popularity)
        steady = self.stability(popularity=popularity) if stability else None
        return find_suspects(self, popularity=popularity, steady=steady)

    @classmethod
    def can(cls, ability: str) -> bool:
        # Those without V cannot be fitted again as a judge.
        has_v = "reg_sparse" in list_defaults(cls)
        return super().can(ability) and (has_v or ability not in ("suspects", "stability"))

    def suspect_scores(self, *, popularity: float = 0.0) -> npt.NDArray[np.floating[Any]]:
        """Return the scores of `suspects` alone.

        Parameters
        ----------
        popularity
            As for `suspects`.

        Returns
        -------
        scores
            Shape (n_events,).
        """
        self.check_fitted()
        return score_suspects(self, popularity=popularity)

    def stability(self, *, popularity: float = 0.0) -> Stability:
        """Return how much of V and of the suspects is the same after a small change of seed, strengths or clicks.

        Parameters
        ----------
        popularity
            As for `suspects`.

        Returns
        -------
        stability
            A row a change; each takes one or two fits.
        """
        self.check_fitted()
        return find_stability(self, popularity=popularity)

    # What judging asks for

    def as_judge(self) -> Self:
        """Return the model that tells which clicks are noise: of `reg_sparse` 0.5 or less and "noise" low rank.

        The low-rank strength that ranks best is often weaker, and then U follows noise too.

        Returns
        -------
        judge
            This model, or one like it fitted to its clicks.
        """
        by_rule = {"reg_low_rank": "noise", "neighbors": 0, "reg_sparse": STRONG, "l1": None, "l2": None}
        other, log = self._copy_with(**by_rule), self.costed_log()
        is_exact = self.get_params().get("box", "none") == "none"
        is_strict = self.l2_ is not None and self.l2_ <= STRONG * self.costs_.ratio * (1 + 1e-6)
        if is_exact and is_strict and np.isclose(self.l1_, other.strength(log), rtol=1e-3):
            return self
        return other.fit(log, start=self)

    def make_strict(self, log: Log) -> Self:
        """Return a new model with these parameters, but a `reg_sparse` that is fit to judge.

        Parameters
        ----------
        log
            What is to be judged.

        Returns
        -------
        model
            Not fitted.
        """
        share = RULE.reg_sparse if self.reg_sparse == "auto" else self.reg_sparse
        if self.l2 is not None:
            share = self.l2 / self.resolve_costs(log).ratio
        return type(self)(**self._make_exact_params() | {"reg_sparse": min(share, STRONG), "l2": None})

    def leave_out(self) -> LeftOut:
        """Return U on the clicked cells less the influence of each cell's own click, and on the others.

        Returns
        -------
        values
            The values by which noise is told.

        Raises
        ------
        ParameterError
            Where U is 0.
        """
        if self.rank_ == 0 and min(self.seen_.shape) > 1 and self.seen_.nnz < math.prod(self.seen_.shape):
            raise ParameterError("this model has found no common taste (rank 0) to judge clicks by; lower reg_low_rank")
        with use_threads(self.threads, blas=1):
            return self.fitted_.leave_out(self.seen_, self.dtype)

    def explained_shares(self) -> npt.NDArray[np.float32]:
        asked = self.costs_.ratio if self.fitted_.words.loss == "II" else 1.0
        return super().explained_shares() / asked

    @property
    def own_share(self) -> float:
        """The strength by which V is told, as a fraction of what gives none."""
        return self.fitted_.own_share

    def specific_on_clicks(self) -> npt.NDArray[np.floating[Any]]:
        """Return V on the training events.

        Returns
        -------
        values
            Shape (n_events,).
        """
        rows = np.repeat(np.arange(len(self.users_)), np.diff(self.seen_.indptr))
        return np.asarray(self.specific_[rows, self.seen_.indices]).ravel()

    # The same model again

    def costed_log(self) -> Log:
        """Return the training events with what their misses cost as weights, for `refit`.

        Returns
        -------
        log
            The log.
        """
        return replace(self.training_log(), weights=self.fitted_.clicks.values)

    def refit(self, log: Log, **changes: Any) -> Self:
        """Return a model with what this one chose, but for some changes, fitted to other events.

        Parameters
        ----------
        log
            Events of `costed_log`.
        **changes
            Parameters by name.

        Returns
        -------
        model
            A new model, fitted.
        """
        changed = {name: value for name, value in changes.items() if name in Settings._fields}
        return self._copy_with(**changes).settled(self.chosen_.settings._replace(**changed)).fit(log)

    def _copy_with(self, **changes: Any) -> Self:
        """Return a new model with these parameters and some changes, to be fitted to events of `costed_log`."""
        params = self._make_exact_params()
        if self.fitted_.clicks.values is not None:
            params["event_weights"] = "cost"
        return type(self)(**params | changes)

    def _make_exact_params(self) -> dict[str, Any]:
        """Return the parameters, those of the exact solver in place of the paper's; ParameterError without V."""
        params = self.get_params()
        if "reg_sparse" not in params:
            raise ParameterError(f"{type(self).__name__} has no V to tell noise by; fit a CSRR or CSRRe")
        return params | ({"box": "none", "step": "auto"} if params.get("box", "none") != "none" else {})
