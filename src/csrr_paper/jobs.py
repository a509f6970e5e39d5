"""The tables and figures of the paper, each as its jobs: the system to tune, the parameters to change, the fit."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from csrr_paper.printed import DATA, PRINTED_ABLATION, WITHOUT_V
from csrr_paper.systems import COMPARED, PLAIN, SYSTEMS, System

Params = dict[str, Any]
ExperimentName = Literal["comparison", "ablation", "cost", "step", "strengths"]

TABLES: tuple[ExperimentName, ...] = ("comparison", "ablation")
FIGURES: tuple[ExperimentName, ...] = ("cost", "step", "strengths")

QUICK_SPLITS, SPLITS = 2, 5
COSTS = tuple(round(0.05 * step, 2) for step in range(10, 20))
STEPS = (0.25, 0.5, 1.0, 2.0, 4.0)
L1S = tuple(10.0**power for power in range(-3, 4))
L2S = tuple(10.0**power for power in range(-5, 3))
FIXED = 0.1
"""The regularization parameter that stays fixed while the other one varies."""

STEP_ITERATIONS = 30
SAME_STRENGTHS = "CSRR-I, V = 0, all else the same"
_DENSE_SECONDS = 150
"""The time of `STEP_ITERATIONS` of Algorithm 1, in the unit of `System.seconds`."""


@dataclass(frozen=True)
class Job:
    """A result to compute: `system` is tuned, and `change` turns the chosen parameters into those of `name`."""

    data: str
    protocol: str
    split: int
    system: System
    name: str
    change: Callable[[Params], Params] = dict
    seconds: float = 0.0

    @property
    def at_least(self) -> float | None:
        """The lowest rating that counts as positive; None: all ratings do."""
        return DATA[self.data].at_least[self.protocol]


@dataclass(frozen=True)
class Experiment:
    """A table or figure on one data set, by one protocol, over the splits with these seeds."""

    name: ExperimentName
    data: str
    protocol: str
    splits: tuple[int, ...]
    systems: tuple[str, ...] = COMPARED
    quick: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """The values that identify the experiment."""
        return self.name, self.data, self.protocol

    @property
    def command(self) -> str:
        """The command that repeats the experiment."""
        return make_command([self])

    def list_jobs(self) -> list[Job]:
        """Return the jobs, split by split."""
        return [job for split in self.splits for job in _MAKERS[self.name](self, split)]

    def make_job(self, name: str, split: int) -> Job:
        """Return the job of a system with its chosen parameters unchanged."""
        return Job(self.data, self.protocol, split, SYSTEMS[name], name)


def make_command(experiments: Sequence[Experiment]) -> str:
    """Return the command that repeats experiments of one name."""
    first = experiments[0]
    words = [f"csrr reproduce --{'table' if first.name in TABLES else 'figure'} {first.name}"]
    words += [f"--data {data}" for data in dict.fromkeys(each.data for each in experiments)]
    words += [f"--protocol {protocol}" for protocol in dict.fromkeys(each.protocol for each in experiments)]
    words += [f"--system {shlex.quote(name)}" for name in first.systems if first.systems != COMPARED]
    usual = QUICK_SPLITS if first.quick else SPLITS
    words += [f"--splits {len(first.splits)}"] * (len(first.splits) != usual) + ["--quick"] * first.quick
    return " ".join(words)


def is_in_paper(name: ExperimentName, data: str, protocol: str) -> bool:
    """Return whether the paper has the table or figure for the data (or nearly), so that it is run by default."""
    if name == "comparison":
        return protocol != "all-ratings" or data == "ml-100k"
    if protocol != "numbers":
        return False
    return data in PRINTED_ABLATION if name in ("ablation", "cost") else data == "ml-100k"


def _list_comparison(experiment: Experiment, split: int) -> Iterable[Job]:
    return [experiment.make_job(name, split) for name in experiment.systems]


def _list_ablation(experiment: Experiment, split: int) -> Iterable[Job]:
    own = experiment.make_job("CSRR-I", split)
    same = replace(own, name=SAME_STRENGTHS, change=lambda chosen: {**chosen, "reg_sparse": 1.0})
    return [own, same, experiment.make_job(WITHOUT_V, split)]


def name_at_cost(cost: float) -> tuple[str, str]:
    """Return the names of the two results at a cost: with the same regularization, and with l1 tuned again."""
    return f"CSRR-I, c_p = {cost:g}", f"CSRR-I, c_p = {cost:g}, tuned"


def _list_costs(experiment: Experiment, split: int) -> Iterable[Job]:
    own = experiment.make_job("CSRR-I", split)
    walk = own.system.quick if experiment.quick else own.system.space
    for cost in COSTS[::3] if experiment.quick else COSTS:
        kept, tuned = name_at_cost(cost)
        yield replace(own, name=kept, change=partial(change_cost, cost))
        again = replace(
            own.system,
            name=tuned,
            fixed={**own.system.fixed, "positive_cost": cost, "reg_sparse": 0.85},
            space={"reg_low_rank": walk["reg_low_rank"]},
            quick={},
        )
        yield replace(own, name=tuned, system=again)


def change_cost(cost: float, chosen: Params) -> Params:
    """Return parameters with another c_p and the same l1 and l2, which is a fraction of alpha."""
    l2 = chosen["reg_sparse"] * _compute_alpha(chosen["positive_cost"])
    return {**chosen, "reg_sparse": l2 / _compute_alpha(cost), "positive_cost": cost}


def _compute_alpha(cost: float) -> float:
    return cost / (1 - cost)


def name_at_step(factor: float) -> str:
    """Return the name of the result with a multiple of the safe step."""
    return f"CSRR-I, Algorithm 1, step x {factor:g}"


def _list_steps(experiment: Experiment, split: int) -> Iterable[Job]:
    own = experiment.make_job("CSRR-I", split)
    for factor in STEPS[::2] if experiment.quick else STEPS:
        change = partial(_change_step, factor, experiment.quick)
        yield replace(own, name=name_at_step(factor), change=change, seconds=_DENSE_SECONDS)


def _change_step(factor: float, quick: bool, chosen: Params) -> Params:
    # The gradient in (U, V) has the Lipschitz constant 2*max(alpha, 1).
    step = factor / (2 * max(_compute_alpha(chosen["positive_cost"]), 1.0))
    return {**chosen, "box": "paper", "step": step, "max_iter": STEP_ITERATIONS // (3 if quick else 1)}


def name_at_strength(which: str, value: float) -> str:
    """Return the name of the result at a regularization parameter."""
    other = "l2" if which == "l1" else "l1"
    return f"CSRR-I, {which} = {value:g}, {other} = {FIXED:g}"


def _list_strengths(experiment: Experiment, split: int) -> Iterable[Job]:
    own = experiment.make_job("CSRR-I", split)
    for which, values in (("l1", L1S), ("l2", L2S)):
        for value in values[::3] if experiment.quick else values:
            change = partial(_change_strength, which, value, experiment.quick)
            yield replace(own, name=name_at_strength(which, value), change=change, seconds=100)


def _change_strength(which: str, value: float, quick: bool, chosen: Params) -> Params:
    strengths = {"l1": FIXED, "l2": FIXED, which: value}
    plain = {"loss": "I", **PLAIN, "positive_cost": chosen["positive_cost"], **strengths}
    return {**plain, "max_iter": 20} if quick else plain


_MAKERS: dict[ExperimentName, Callable[[Experiment, int], Iterable[Job]]] = {
    "comparison": _list_comparison,
    "ablation": _list_ablation,
    "cost": _list_costs,
    "step": _list_steps,
    "strengths": _list_strengths,
}
