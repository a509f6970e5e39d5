"""The tables and figures of the paper, each as the jobs that it takes: what to tune, what to change, what to fit."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from csrr.paper.printed import DATA, PRINTED_ABLATION, WITHOUT_V
from csrr.paper.systems import COMPARED, PLAIN, SYSTEMS, System

Params = dict[str, Any]
PartName = Literal["comparison", "ablation", "cost", "step", "strengths"]

TABLES: tuple[PartName, ...] = ("comparison", "ablation")
FIGURES: tuple[PartName, ...] = ("cost", "step", "strengths")

QUICK_SPLITS, SPLITS = 2, 5
COSTS = tuple(round(0.05 * step, 2) for step in range(10, 20))
STEPS = (0.25, 0.5, 1.0, 2.0, 4.0)
L1S = tuple(10.0**power for power in range(-3, 4))
L2S = tuple(10.0**power for power in range(-5, 3))
FIXED = 0.1
"""The strength that stays where the other one varies."""

STEP_ITERATIONS = 30
SAME_STRENGTHS = "CSRR-I, V = 0, all else the same"
_DENSE_SECONDS = 150
"""What `STEP_ITERATIONS` of Algorithm 1 take, in the unit of `System.seconds`."""


@dataclass(frozen=True)
class Job:
    """A result to obtain: `system` is tuned, `change` makes the parameters of `name` of those that were chosen."""

    data: str
    protocol: str
    split: int
    system: System
    name: str
    change: Callable[[Params], Params] = dict
    seconds: float = 0.0

    @property
    def at_least(self) -> float | None:
        """The lowest rating that counts; None: all do."""
        return DATA[self.data].at_least[self.protocol]


@dataclass(frozen=True)
class Part:
    """A table or figure on one data set, by one protocol, over the splits with these seeds."""

    name: PartName
    data: str
    protocol: str
    splits: tuple[int, ...]
    systems: tuple[str, ...] = COMPARED
    quick: bool = False

    @property
    def command(self) -> str:
        """The command that makes it again."""
        return command_of([self])

    def jobs(self) -> list[Job]:
        """Return what it takes, split by split."""
        return [job for split in self.splits for job in _MAKERS[self.name](self, split)]

    def of(self, name: str, split: int) -> Job:
        """Return the job of a system as it is."""
        return Job(self.data, self.protocol, split, SYSTEMS[name], name)


def command_of(parts: Sequence[Part]) -> str:
    """Return the command that makes parts of one name again."""
    first = parts[0]
    words = [f"csrr reproduce --{'table' if first.name in TABLES else 'figure'} {first.name}"]
    words += [f"--data {data}" for data in dict.fromkeys(part.data for part in parts)]
    words += [f"--protocol {protocol}" for protocol in dict.fromkeys(part.protocol for part in parts)]
    words += [f"--system {shlex.quote(name)}" for name in first.systems if first.systems != COMPARED]
    usual = QUICK_SPLITS if first.quick else SPLITS
    words += [f"--splits {len(first.splits)}"] * (len(first.splits) != usual) + ["--quick"] * first.quick
    return " ".join(words)


def available(name: PartName, data: str, protocol: str) -> bool:
    """Return whether the paper has that table or figure for the data (or nearly), so that it is run unasked."""
    if name == "comparison":
        return protocol != "all-ratings" or data == "ml-100k"
    if protocol != "numbers":
        return False
    return data in PRINTED_ABLATION if name in ("ablation", "cost") else data == "ml-100k"


def _comparison(part: Part, split: int) -> Iterable[Job]:
    return [part.of(name, split) for name in part.systems]


def _ablation(part: Part, split: int) -> Iterable[Job]:
    same = replace(part.of("CSRR-I", split), name=SAME_STRENGTHS, change=lambda chosen: {**chosen, "reg_sparse": 1.0})
    return [part.of("CSRR-I", split), same, part.of(WITHOUT_V, split)]


def cost_names(cost: float) -> tuple[str, str]:
    """Return what the two results at a cost are called: strengths kept, and the low-rank strength tuned again."""
    return f"CSRR-I, c_p = {cost:g}", f"CSRR-I, c_p = {cost:g}, tuned"


def _cost(part: Part, split: int) -> Iterable[Job]:
    own = part.of("CSRR-I", split)
    walk = own.system.quick if part.quick else own.system.space
    for cost in COSTS[::3] if part.quick else COSTS:
        kept, tuned = cost_names(cost)
        yield replace(own, name=kept, change=partial(at_cost, cost))
        again = replace(
            own.system,
            name=tuned,
            fixed={**own.system.fixed, "positive_cost": cost, "reg_sparse": 0.85},
            space={"reg_low_rank": walk["reg_low_rank"]},
            quick={},
        )
        yield replace(own, name=tuned, system=again)


def at_cost(cost: float, chosen: Params) -> Params:
    """Return parameters with another c_p and the same l1 and l2, which is a fraction of alpha."""
    l2 = chosen["reg_sparse"] * _alpha(chosen["positive_cost"])
    return {**chosen, "reg_sparse": l2 / _alpha(cost), "positive_cost": cost}


def _alpha(cost: float) -> float:
    return cost / (1 - cost)


def step_name(factor: float) -> str:
    """Return what the result with a multiple of the safe step is called."""
    return f"CSRR-I, Algorithm 1, step x {factor:g}"


def _step(part: Part, split: int) -> Iterable[Job]:
    for factor in STEPS[::2] if part.quick else STEPS:
        yield replace(
            part.of("CSRR-I", split),
            name=step_name(factor),
            change=partial(_stepping, factor, part.quick),
            seconds=_DENSE_SECONDS,
        )


def _stepping(factor: float, quick: bool, chosen: Params) -> Params:
    # The gradient in (U, V) has the Lipschitz constant 2*max(alpha, 1).
    step = factor / (2 * max(_alpha(chosen["positive_cost"]), 1.0))
    return {**chosen, "box": "paper", "step": step, "max_iter": STEP_ITERATIONS // (3 if quick else 1)}


def strength_name(which: str, value: float) -> str:
    """Return what the result at a strength is called."""
    other = "l2" if which == "l1" else "l1"
    return f"CSRR-I, {which} = {value:g}, {other} = {FIXED:g}"


def _strengths(part: Part, split: int) -> Iterable[Job]:
    for which, values in (("l1", L1S), ("l2", L2S)):
        for value in values[::3] if part.quick else values:
            yield replace(
                part.of("CSRR-I", split),
                name=strength_name(which, value),
                change=partial(_strong, which, value, part.quick),
                seconds=100,
            )


def _strong(which: str, value: float, quick: bool, chosen: Params) -> Params:
    strengths = {"l1": FIXED, "l2": FIXED, which: value}
    plain = {"loss": "I", **PLAIN, "positive_cost": chosen["positive_cost"], **strengths}
    return {**plain, "max_iter": 20} if quick else plain


_MAKERS: dict[PartName, Callable[[Part, int], Iterable[Job]]] = {
    "comparison": _comparison,
    "ablation": _ablation,
    "cost": _cost,
    "step": _step,
    "strengths": _strengths,
}
