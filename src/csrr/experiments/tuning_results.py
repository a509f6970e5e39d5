"""What a search tried, and the best of it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from csrr.experiments.study import Params, Trial
from csrr.files import write_text
from csrr.models.recommender import Recommender
from csrr.parameters import ParameterError, list_defaults
from csrr.ranking.result_table import ResultTable, TabularResult

_SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False)
class Tuning(TabularResult):
    """The result of `csrr.tune`. `best_value` is a validation score and thus optimistic: expect a lower test score.

    Attributes
    ----------
    kind
        The class of the models.
    metric
        The metric that was maximized.
    seed
        Seed of splits and search.
    trials
        All trials, in order.
    params
        The fixed parameters of the model.
    total
        The maximal number of trials; None if only time limits them.

    Examples
    --------
    >>> train, test = csrr.split(csrr.synthetic(100, 40, events_per_user=10).log)
    >>> found = csrr.tune("ease", train, space={"reg": [1.0, 10.0, 100.0]}, defaults=False)
    >>> len(found.trials), found.best_value == max(trial.value for trial in found.trials)
    (3, True)
    >>> model = found.model().fit(train)
    """

    kind: type[Recommender]
    metric: str
    seed: int
    trials: list[Trial]
    params: Params = field(default_factory=dict)
    total: int | None = None

    @cached_property
    def best(self) -> Trial:
        """The trial with the best value; the first of equal ones."""
        done = [each for each in self.trials if each.state == "done" and each.value is not None]
        if not done:
            last = next((each.reason for each in reversed(self.trials) if each.reason), "none was run")
            raise ParameterError(f"all {len(self.trials)} trials failed; the last: {last}")
        return max(done, key=lambda each: each.value or 0.0)

    @property
    def best_params(self) -> Params:
        """The parameters to pass to the model; those left out have their defaults."""
        defaults = list_defaults(self.kind)
        both = {**self.params, **self.best.params}
        return {name: value for name, value in both.items() if value != defaults[name]}

    @property
    def best_value(self) -> float:
        """The validation score of the best parameters."""
        assert self.best.value is not None
        return self.best.value

    def model(self) -> Recommender:
        """Return a new model with the best parameters, not fitted.

        Returns
        -------
        model
            The model.
        """
        return self.kind(**self.best_params)

    def leaders(self, n: int = _SHOWN) -> list[Trial]:
        """Return the best completed trials.

        Parameters
        ----------
        n
            The number of trials.

        Returns
        -------
        trials
            Best first.
        """
        done = [each for each in self.trials if each.state == "done"]
        return sorted(done, key=lambda each: -(each.value or 0.0))[:n]

    def summary(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON.

        Returns
        -------
        summary
            The result, the trials, and the versions of the packages.
        """
        return {
            "model": self.kind.__name__,
            "metric": self.metric,
            "seed": self.seed,
            "best_value": self.best_value,
            "best_params": self.best_params,
            "trials": [asdict(each) for each in self.trials],
            "versions": {name: version(name) for name in ("csrr", "optuna", "numpy")},
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the summary to a JSON file, atomically.

        Parameters
        ----------
        path
            The file.
        """
        write_text(path, json.dumps(self.summary(), indent=1) + "\n")

    def table(self) -> ResultTable:
        """Return the trials as a table.

        Returns
        -------
        table
            A row for each: number, state, value, seconds, reason, then the parameters.
        """
        facts = {
            name: [getattr(each, name) for each in self.trials]
            for name in ("number", "state", "value", "seconds", "reason")
        }
        names = dict.fromkeys(name for each in self.trials for name in each.params)
        params = {name: [each.params.get(name) for each in self.trials] for name in names}
        return ResultTable.from_lists(facts | params, types={"value": pa.float64(), "reason": pa.string()})

    def display_table(self) -> ResultTable:
        """Return the best few trials, with a column for each parameter.

        Returns
        -------
        table
            What LaTeX and HTML show.
        """
        leaders = self.leaders()
        names = dict.fromkeys(name for each in leaders for name in each.params)
        params = {name: [_shorten(each.params.get(name)) for each in leaders] for name in names}
        values: dict[str, list[Any]] = {
            "trial": [each.number for each in leaders],
            self.metric: [each.value for each in leaders],
        }
        return ResultTable.from_lists(values | params)

    def _count_trials(self) -> str:
        count = {state: sum(each.state == state for each in self.trials) for state in ("done", "pruned", "failed")}
        counts = ", ".join(f"{n} {state}" for state, n in count.items() if n)
        n_trials = f"{len(self.trials)} trial{'' if len(self.trials) == 1 else 's'}"
        return f"Tuning: {n_trials} of {self.kind.__name__} ({counts})"

    def _heading(self) -> str:
        if not self.leaders():
            return self._count_trials()
        return f"{self._count_trials()}\nbest {self.metric} {self.best_value:.4f} on validation: {self.model()!r}"


def format_trials(tuning: Tuning) -> str:
    """Return the best few trials as a text, a column for each parameter."""
    return str(tuning.display_table())


def _shorten(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
