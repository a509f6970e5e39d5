"""What was found -> what it means, in sentences, and the commands to go on with."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from csrr.first_look.contest import FLOOR
from csrr.plots.number_text import format_fixed, format_p_value, format_percent

if TYPE_CHECKING:
    from csrr.first_look.result import FirstLook

LEVEL = 0.05
FEW_USERS, LEAST_GROUP = 200, 20


@dataclass(frozen=True)
class Command:
    """A command to go on with, and what it is for."""

    what: str
    line: str


def list_findings(look: FirstLook) -> list[str]:
    """Return what was found, a sentence or two each, the answer first."""
    parts = (_tell_best, _tell_sureness, _tell_weakness, _tell_costs, _tell_learning)
    return [words for part in parts if (words := part(look))]


def _tell_best(look: FirstLook) -> str:
    if look.best is None:
        return "No model is fitted yet."
    name, found = look.best.name, look.best.judged
    score, hit = found[look.metric], found[f"hit_rate@{look.length}"]
    low, high = found.interval(look.metric)
    words = (
        f"{name} ranks best: {look.metric.upper()} {score:.4f} ({low:.4f} to {high:.4f});"
        f" {format_percent(hit)} of the users have a held-out item in the first {look.length}."
    )
    floor = next((each.judged[look.metric] for each in look.done if each.name == FLOOR), None)
    if floor and name != FLOOR:
        words += f" That is {_tell_ratio(score / floor)} popularity ({floor:.4f})."
    elif name == FLOOR and len(look.done) > 1:
        words += " No personalized model does better: check what is unusual in the log before you trust this."
    return words


def _tell_ratio(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio >= 2 else f"{format_percent(ratio - 1)} above"


def _tell_sureness(look: FirstLook) -> str:
    if look.comparison is None or look.best is None:
        return ""
    rows = look.comparison.rows
    open_ = [row for row in rows if not row.t_p_holm < LEVEL]
    users = f"{rows[0].paired.n:,} users with a history"
    if not open_:
        words = f"Over {users}, it is significantly better than each of the others (5 % level, Holm)."
    else:
        *some, last = (f"{row.model} (p {format_p_value(row.t_p_holm)})" for row in open_)
        named = f"{', '.join(some)} and {last}" if some else last
        words = f"Over {users}, it does not differ significantly from {named}; use the one that suits you better."
        if any(row.model == FLOOR for row in open_):
            words += " Popularity is among these, so a benefit of personalization is not shown here."
    if rows[0].paired.n < FEW_USERS:
        words += " With so few users the order may differ on other data."
    return words


def _tell_weakness(look: FirstLook) -> str:
    if look.best is None:
        return ""
    users = [each for each in look.by_users if each.model == look.best.name and each.n >= LEAST_GROUP]
    items = [each for each in look.by_items if each.model == look.best.name]
    words = []
    if len(users) > 1:
        worst = min(users, key=lambda each: each.mean)
        words.append(f"It does worst for {worst.name}: {worst.mean:.4f}")
    if len(items) > 1:
        first, last = items[0], [each for each in items if not each.name.startswith("new")][-1]
        words.append(
            f"{'of' if words else 'Of'} what was held out, it finds"
            f" {format_percent(first.mean)} of {first.name.split(' (')[0]} and"
            f" {format_percent(last.mean)} of {last.name.split(' (')[0]}"
        )
    return "; ".join(words) + "." if words else ""


def _tell_costs(look: FirstLook) -> str:
    if not look.lists:
        return ""
    least = min(look.lists, key=lambda each: each.cost)
    prices = f"At {look.miss:g} per miss and {look.false_alarm:g} per false alarm"
    if not least.length:
        return f"{prices}, showing nothing costs least: lists of every length cost more than they save."
    longest = " (the longest tried)" if least is look.lists[-1] else ""
    return (
        f"{prices}, lists of {least.length}{longest} cost least: {least.cost:.4g} per user"
        f" ({look.lists[0].cost:.4g} without lists), with {least.found:.2g} hits and {least.in_vain:.2g} false alarms."
    )


def _tell_learning(look: FirstLook) -> str:
    half, whole = (next((each for each in look.learning if each.share == share), None) for share in (0.5, 1.0))
    if half is None or whole is None or not half.mean:
        return ""
    gain = whole.mean / half.mean - 1
    if not whole.mean > half.high:
        return (
            f"From half of the events to all of them, it goes from {format_fixed(half.mean)} to"
            f" {format_fixed(whole.mean)}, a gain that may be chance: more data of this kind would add little;"
            " another model or other data might."
        )
    return (
        f"From half of the events to all of them, it gains {format_percent(gain)}: it is still learning, and more"
        " events would help. Gains shrink as data grow, so expect less from the next doubling."
    )


def list_commands(look: FirstLook) -> list[Command]:
    """Return three commands to go on with; none where no model is kept."""
    from csrr.first_look.result import MODEL

    if look.folder is None or look.best is None:
        return []
    model = shlex.quote(str(look.folder / MODEL))
    user = shlex.quote(str(look.examples[0].user)) if look.examples else "ID"
    options = f" {look.options}" if look.options else ""
    log = None if look.source is None else shlex.quote(look.source) + options
    kind = look.best.name.lower()
    tune = (
        Command("Search for better parameters.", f"csrr tune {log} --model {kind} --minutes 10")
        if log is not None and look.best.name != FLOOR
        else Command("Describe the model.", f"csrr info {model}")
    )
    return [
        Command("Recommend items to a user.", f"csrr recommend {model} --user {user}"),
        tune,
        Command("Add new events.", f"csrr update {model} new.csv{options} -o {model}"),
    ]
