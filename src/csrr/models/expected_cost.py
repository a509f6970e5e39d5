"""What lists are expected to cost by the model's probabilities, and what they did cost on held-out events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from csrr.arrays import Float64Array
from csrr.data import as_log
from csrr.models.heldout import find_unseen_events
from csrr.parameters import ParameterError, check_number, check_whole
from csrr.ranking.result_table import ResultTable
from csrr.ranking.score_blocks import score_blocks

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender


def tabulate_costs(
    model: Recommender, heldout: Any, miss: float | None, false_alarm: float | None, lengths: Sequence[int]
) -> ResultTable:
    """Return a row for each choice: nothing, the best items, all that pay; see `Recommender.expected_cost`."""
    calibration, (price, alarm) = model.check_calibrated(), _find_prices(model, miss, false_alarm)
    for k in lengths:
        check_whole("lengths", k, least=1)
    names = ["nothing", *(f"the best {k}" for k in lengths), "all that pay"]
    n_items, rows = len(model.items_), np.arange(len(model.users_))
    activity = np.diff(model.seen_of_target.indptr)
    came = None if heldout is None else find_unseen_events(as_log(heldout), model).to_csr()
    n_shown, expected, paid = (np.zeros((len(rows), len(names))) for _ in range(3))
    for part, scores in score_blocks(model.score_rows, rows, n_items, seen=model.seen_of_target):
        is_open = scores > -np.inf
        said = np.where(is_open, calibration.probability(scores, activity[part, None], np.arange(n_items)), 0)
        lost = price * _find_factors(model, rows[part], n_items)
        order = np.argsort(-scores, axis=1, kind="stable")[:, : max([*lengths, 1])]
        shown = [np.zeros_like(is_open)]
        for k in lengths:
            best = np.zeros_like(is_open)
            np.put_along_axis(best, order[:, :k], values=True, axis=1)
            shown.append(best & is_open)
        shown.append((said * lost > (1 - said) * alarm) & is_open)
        true = None if came is None else came[rows[part]].toarray() > 0
        for at, mine in enumerate(shown):
            n_shown[part, at] = mine.sum(1)
            expected[part, at] = np.where(mine, (1 - said) * alarm, said * lost * is_open).sum(1)
            if true is not None:
                paid[part, at] = np.where(mine, ~true * alarm, true * lost).sum(1)
    lines = []
    for at, name in enumerate(names):
        line = {"choice": name, "items": float(n_shown[:, at].mean())} | _describe("expected", expected[:, at])
        lines.append(line if came is None else line | _describe("cost", paid[:, at]))
    return ResultTable.from_rows(lines)


def _find_prices(model: Recommender, miss: float | None, false_alarm: float | None) -> tuple[float, float]:
    """Return what a miss and a false alarm cost: as given, or by the model's costs."""
    if miss is None and false_alarm is None:
        params = model.get_params()
        if params.get("miss_cost") is not None:
            return float(params["miss_cost"]), float(params["false_alarm_cost"])
        if (least := model.decision_probability) is None:
            raise ParameterError(f"this {type(model).__name__} has no costs; give miss and false_alarm")
        return 1 / least - 1, 1.0
    if miss is None or false_alarm is None:
        raise ParameterError("miss and false_alarm go together")
    check_number("miss", miss, above=0)
    check_number("false_alarm", false_alarm, above=0)
    return float(miss), float(false_alarm)


def _find_factors(model: Recommender, rows: Any, n_items: int) -> Any:
    """Return how many times the cost of a miss that of each cell is, (n, n_items), or 1 for all."""
    common = model.decision_probability
    if common is None:
        return 1.0
    return (1 / model.decide_cells(rows[:, None], np.arange(n_items)) - 1) / (1 / common - 1)


def _describe(name: str, values: Float64Array) -> dict[str, float]:
    """Return the mean of users' values, (n,), and the ends of its 95 % interval."""
    mean, half = float(values.mean()), 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}
