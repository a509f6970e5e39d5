"""What was found -> what it means, in sentences, and the commands to go on with."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from csrr._base.text import format_number_of, format_percent, make_printable, measure_width
from csrr.evaluation.compare import ComparedPair
from csrr.report.contest import FLOOR, HALF_OF_USERS, Learned

if TYPE_CHECKING:
    from csrr.report.contest import Contestant
    from csrr.report.result import FirstLook

LEVEL = 0.05
FEW_USERS, LEAST_GROUP, WIDEST_ID = 200, 20, 60


@dataclass(frozen=True)
class Command:
    """A command to go on with, and what it is for."""

    what: str
    line: str


@dataclass(frozen=True)
class Served:
    """How many people of a round number find something they then chose in the lists of a model.

    Attributes
    ----------
    model
        Whose lists.
    found, low, high
        How many, and the 95 % interval.
    of
        The round number: 100, or more where few do.
    """

    model: str
    found: int
    low: int
    high: int
    of: int


def count_served(look: FirstLook) -> list[Served]:
    """Return for how many people the best personal model and PopRank find something, where they are known."""
    floor = next((each for each in look.done if each.name == FLOOR), None)
    shown = [each for each in (look.personal, floor) if each is not None]
    name = f"hit_rate@{look.length}"
    least = min((each.judged[name] for each in shown if each.judged[name] > 0), default=1.0)
    of = next((each for each in (100, 1000) if least * each >= 1.5), 10_000)
    return [_count_people(each, name, of) for each in shown]


def _count_people(each: Contestant, name: str, of: int) -> Served:
    low, high = (round(of * min(max(end, 0.0), 1.0)) for end in each.judged.interval(name))
    return Served(each.name, round(of * each.judged[name]), low, high, of)


def list_findings(look: FirstLook) -> list[str]:
    """Return what was found, a sentence or two each, the answer first."""
    parts = (_tell_answer, _tell_sureness, _tell_missing, _tell_weakness, _tell_costs, _tell_learning)
    return [words for part in parts if (words := part(look))]


def _tell_answer(look: FirstLook) -> str:
    served = count_served(look)
    if not served:
        return "No model is fitted yet."
    own, floor = f"{look.length} items that {{}} picks for each of them", f"the {look.length} most popular items"
    among = [f"among {floor if each.model == FLOOR else own.format(each.model)}" for each in served]
    words = f"Of {served[0].of:,} people, {served[0].found:,} find something they then chose {among[0]}"
    return (
        words
        + "".join(f", and {each.found:,} {where}" for each, where in zip(served[1:], among[1:], strict=True))
        + "."
    )


def _tell_sureness(look: FirstLook) -> str:
    if look.best is None or look.comparison is None:
        return ""
    rows = look.comparison.rows
    sure, open_, mixed = _sort_by_sureness(rows)
    told = [f"over {_join(sure)} is more than chance (5 % level)"] if sure else []
    if open_:
        told.append(f"over {_join(open_)} may be chance")
    if mixed:
        told.append(f"over {_join(mixed)} is more than chance by one of two tests only")
    words = (
        "No personal model makes better lists than PopRank, the most popular items"
        if look.best.name == FLOOR
        else f"Of the {len(look.done)} models that were run, {look.best.name} makes the best lists"
    )
    people = format_number_of(rows[0].paired.n, "user")
    words += f". Over {people} with a history, its lead {', that '.join(told)}."
    if any(row.model == FLOOR for row in [*open_, *mixed]):
        words += " A benefit over popularity is not shown here."
    if look.best.name == FLOOR:
        words += " Check what is unusual in the log before you trust this."
    if rows[0].paired.n < FEW_USERS:
        words += " With so few users the order may differ on other data."
    return words


def _sort_by_sureness(rows: Sequence[ComparedPair]) -> tuple[list[ComparedPair], ...]:
    """Return the models that both tests set below the best, those that neither does, and those that only one does."""
    found: dict[int, list[ComparedPair]] = {2: [], 0: [], 1: []}
    for row in rows:
        by_rank = row.wilcoxon_p_holm < LEVEL and row.paired.better <= row.paired.worse
        found[(row.t_p_holm < LEVEL) + by_rank].append(row)
    return tuple(found.values())


def _join(words: Sequence[Any]) -> str:
    *some, last = (word.model if isinstance(word, ComparedPair) else str(word) for word in words)
    return f"{', '.join(some)} and {last}" if some else last


def _tell_missing(look: FirstLook) -> str:
    return " ".join(f"{each.name} was {each.note}." for each in look.lost)


def _tell_weakness(look: FirstLook) -> str:
    if not look.by_users:
        return ""
    name = look.by_users[0].model
    users = [each for each in look.by_users if each.model == name and each.n >= LEAST_GROUP]
    items = [each for each in look.by_items if each.model == name]
    words = []
    if len(users) > 1:
        worst = min(users, key=lambda each: each.mean)
        words.append(f"{name} does worst for {worst.name}")
    if len(items) > 1:
        first, last = items[0], [each for each in items if not each.name.startswith("new")][-1]
        words.append(
            f"{'of' if words else 'Of'} what people then chose, {'it' if words else name} finds"
            f" {format_percent(first.mean)} of {first.name.split(' (')[0]} and"
            f" {format_percent(last.mean)} of {last.name.split(' (')[0]}"
        )
    return "; ".join(words) + "." if words else ""


def _tell_costs(look: FirstLook) -> str:
    if not look.lists:
        return ""
    least = min(look.lists, key=lambda each: each.cost)
    prices = f"If a wanted item that is left out costs {look.miss:g}, and an unwanted one shown {look.false_alarm:g}"
    if not least.length:
        return f"{prices}, showing nothing costs least: lists of every length cost more than they save."
    longest = " (the longest tried)" if least is look.lists[-1] else ""
    return f"{prices}, lists of {least.length}{longest} cost least."


def _tell_learning(look: FirstLook) -> str:
    told = [_tell_more(each) for each in look.learning]
    return f"{_join(told)}.".capitalize() if told else ""


def _tell_more(found: Learned) -> str:
    """Return what half of the data says of more of it."""
    more, half = ("more users", "half of them") if found.part == HALF_OF_USERS else ("longer histories", "half of each")
    would = "help" if found.gain_low > 0 else "not help" if found.gain_high < 0 else "help little"
    loss = found.gain / found.whole if found.whole else 0.0
    chance = ", which may be chance" if would == "help little" else ""
    change = f"{format_percent(abs(loss))} {'worse' if loss >= 0 else 'better'}"
    return f"{more} of this kind would {would} (lists learned from {half} are {change}{chance})"


def list_commands(look: FirstLook) -> list[Command]:
    """Return commands to go on with, which the kept models can follow; none where no model is kept."""
    from csrr.report.result import MODEL, PERSONAL

    fitted = look.shown_model
    if look.folder is None or fitted is None:
        return []
    model = shlex.quote(str(look.folder / (MODEL if look.personal_model is None else PERSONAL)))
    options = f" {look.options}" if look.options else ""
    log = None if look.source is None else shlex.quote(look.source) + options
    kind = type(fitted)
    reasons = " --explain" if kind.can("explain") else ""
    found = [
        Command(
            f"Recommend items to a user{', with reasons' if reasons else ''}.",
            f"csrr recommend {model} --user {_quote_first(each.user for each in look.examples)}{reasons}",
        )
    ]
    if kind.can("similar_items"):
        by_popularity = fitted.items_.ids[(-fitted.popularity).argsort(kind="stable")[:50]].tolist()
        found.append(Command("Find similar items.", f"csrr similar {model} --item {_quote_first(by_popularity)}"))
    tune = (
        Command("Search for better parameters.", f"csrr tune {log} --model {kind.__name__.lower()} --minutes 10")
        if log is not None and kind.__name__ != FLOOR
        else Command("Describe the model.", f"csrr info {model}")
    )
    return [*found, tune, Command("Add new events.", f"csrr update {model} new.csv{options} -o {model}")]


def _quote_first(ids: Any) -> str:
    """Return the first id that can be typed and fits a line, for a shell."""
    texts = (text for text in map(str, ids) if make_printable(text) == text and measure_width(text) <= WIDEST_ID)
    return shlex.quote(next(texts, "ID"))
