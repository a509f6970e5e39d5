"""The first report on a log: its results, sentences on them, commands to go on with; as a page and its numbers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from csrr._base import text
from csrr._base.files import try_lock, write_text
from csrr._base.text import format_number_of, format_percent, make_printable, measure_width, to_plain
from csrr.evaluation.compare import ComparedPair, Comparison
from csrr.evaluation.cost_curve import CostCurve
from csrr.evaluation.statistics import compute_mean_interval
from csrr.models.base import Recommender
from csrr.parameters import ParameterError
from csrr.report.charts import read_file
from csrr.report.comparison import (
    BASELINE,
    HALF_OF_USERS,
    NEXT,
    Example,
    GroupScore,
    HeldOutTest,
    LearningPoint,
    ListCost,
    ModelResult,
    NewItems,
    choose_length,
)
from csrr.report.log_facts import SHORT, Anomaly, LogFacts, format_day
from csrr.report.svg import Panel, Point, Series, draw_marker, draw_panel, list_series_names
from csrr.results.table import ResultTable, TabularResult

PAGE, SUMMARY, MODEL, PERSONAL = "page.html", "summary.json", "model.csrr", "personal.csrr"
KIND = "csrr first look"


@dataclass(frozen=True, eq=False, repr=False)
class FirstLook(TabularResult):
    """The result of `csrr.start`: a first report on a log.

    Attributes
    ----------
    facts
        Statistics of the log: users, items, events, times, density, skew, accounts that look like bots.
    anomalies
        What is unusual in the log, with advice.
    test
        How the test set was held out.
    results
        The models, in the order of fitting, with their evaluations; those that did not finish say why.
    best
        The best model of the comparison; None before there is one.
    personal
        The best one apart from PopRank, whose lists are the same for everybody; None before there is one.
    comparison
        Paired tests of the others against it, if there are others.
    by_users, by_items
        Accuracy of the best model and of PopRank, for light and heavy users, and for popular and rare items.
    lists
        Costs of lists by length.
    costs
        The cost curve of CSRR, if there was time for it.
    learning
        Accuracy of the best personal model if it learns from half of the users, or from half of each history.
    new_items
        What the item table says of items without events, if there is one.
    examples
        Lists of a few users, with reasons.
    model
        The best model, fitted to all events once `refitted`.
    personal_model
        The best personal model, where the best model is PopRank; else None.
    refitted
        Whether the models are fitted to all events; before, they are those of the test.
    pending
        Steps not done, for lack of time or because the run is not finished.
    miss, false_alarm
        The assumed costs.
    seconds
        The time taken.
    source
        The path of the log, if it is a file.
    options
        The command-line options to read the log.
    folder
        The folder of report, numbers and model, if they are written.

    Examples
    --------
    >>> look = csrr.start(csrr.synthetic(100, 40, events_per_user=15).log, minutes=1)
    >>> look.best.name in ("PopRank", "ItemKNN", "EASE", "WRMF", "CSRR")
    True
    >>> look.facts.n_users, look.refitted
    (100, True)
    """

    facts: LogFacts
    anomalies: list[Anomaly]
    test: HeldOutTest
    results: list[ModelResult] = field(default_factory=list)
    best: ModelResult | None = None
    personal: ModelResult | None = None
    comparison: Comparison | None = None
    by_users: list[GroupScore] = field(default_factory=list)
    by_items: list[GroupScore] = field(default_factory=list)
    lists: list[ListCost] = field(default_factory=list)
    costs: CostCurve | None = None
    learning: list[LearningPoint] = field(default_factory=list)
    new_items: NewItems | None = None
    examples: list[Example] = field(default_factory=list)
    model: Recommender | None = None
    personal_model: Recommender | None = None
    refitted: bool = False
    pending: list[str] = field(default_factory=list)
    miss: float = 10.0
    false_alarm: float = 1.0
    seconds: float = 0.0
    source: str | None = None
    options: str = ""
    folder: Path | None = None

    @property
    def metric(self) -> str:
        """The metric that ranks the models, such as ndcg@10."""
        return f"ndcg@{self.length}"

    @property
    def name(self) -> str:
        """The name of the log; empty if it is not a file."""
        return "" if self.source is None else Path(self.source).name

    @property
    def length(self) -> int:
        """The length of the evaluated lists."""
        return choose_length(self.test.train)

    @property
    def done(self) -> list[ModelResult]:
        """The models that finished."""
        return [each for each in self.results if each.evaluation is not None]

    @property
    def unfinished(self) -> list[ModelResult]:
        """The models that were not run, or did not finish."""
        return [each for each in self.results if each.evaluation is None]

    @property
    def shown(self) -> ModelResult | None:
        """The best personal model, or PopRank if there is none."""
        return self.personal or self.best

    @property
    def shown_model(self) -> Recommender | None:
        """The model of the examples: the best personal one if there is one."""
        return self.model if self.personal_model is None else self.personal_model

    @property
    def n_titled(self) -> int:
        """The number of items with a title."""
        titles = None if self.model is None else self.model.titles_
        return 0 if titles is None else sum(title is not None for title in titles)

    def table(self) -> ResultTable:
        """Return the models as a table.

        Returns
        -------
        table
            A row for each model that finished: model, the mean of the main metric with its 95 % interval, other means,
            and the seconds of the fit.
        """
        rows = []
        for each in self.done:
            means = dict(each.with_history.means)
            low, high = each.with_history.interval(self.metric)
            first = {"model": each.name, self.metric: means.pop(self.metric), "low": low, "high": high}
            rows.append(first | means | {"seconds": each.seconds})
        return ResultTable.from_rows(rows)

    def display_table(self) -> ResultTable:
        names = ("model", self.metric, "low", "high", f"recall@{self.length}", "seconds")
        return ResultTable.from_rows({name: row[name] for name in names} for row in self.table().rows())

    def _heading(self) -> str:
        facts = self.facts
        sizes = format_number_of(facts.n_users, "user"), format_number_of(facts.n_items, "item")
        return f"FirstLook: {' x '.join(sizes)}, {format_number_of(facts.n_events, 'event')}"

    def _remarks(self) -> list[str]:
        return list_findings(self)

    def summary(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON.

        Returns
        -------
        summary
            The attributes by name; NaN stays NaN.
        """
        plain = ("source", "seconds", "pending", "metric", "miss", "false_alarm", "refitted")
        lists = ("anomalies", "by_users", "by_items", "lists", "learning", "examples")
        test, folder = self.test, self.folder
        return {
            "kind": KIND,
            "finished": not self.pending,
            "findings": list_findings(self),
            "log": asdict(self.facts),
            "test": {
                "how": test.how,
                "n_train": len(test.train),
                "n_test": len(test.test),
                "n_users": len(test.users),
                "n_users_with_history": test.n_with_history,
                "new_item_share": test.new_item_share,
            },
            "models": [_summarize_result(each) for each in self.results],
            "best": None if self.best is None else self.best.name,
            "best_personal": None if self.personal is None else self.personal.name,
            "comparison": None if self.comparison is None else self.comparison.summary(),
            "cost_curve": None if self.costs is None else self.costs.to_list(),
            "cost_recommendation": None if self.costs is None else self.costs.recommendation,
            "model": None if folder is None or self.model is None else str(folder / MODEL),
            "personal_model": None if folder is None or self.personal_model is None else str(folder / PERSONAL),
            "commands": [asdict(each) for each in list_commands(self)],
            "new_items": None if self.new_items is None else asdict(self.new_items),
            **{name: getattr(self, name) for name in plain},
            **{name: [asdict(each) for each in getattr(self, name)] for name in lists},
        }


def _summarize_result(each: ModelResult) -> dict[str, Any]:
    found = {"model": each.name, "seconds": each.seconds, "note": each.note, "means": None}
    if each.evaluation is None:
        return found
    summary = each.with_history.summary()
    return found | {name: summary[name] for name in ("means", "intervals", "n_users")}


LEVEL = 0.05
WORTH_TELLING = 0.05
"""A share of events on new items from which on the report says what would help."""
FEW_USERS, LEAST_GROUP, WIDEST_ID = 200, 20, 60


@dataclass(frozen=True)
class Command:
    """A command to go on with, and its purpose."""

    what: str
    line: str


@dataclass(frozen=True)
class HitCount:
    """The number of people, out of a round number, who find something they then chose in the lists of a model.

    Attributes
    ----------
    model
        The name of the model.
    found, low, high
        The number of people, and its 95 % interval.
    of
        The round number: 100, or more if few people find something.
    """

    model: str
    found: int
    low: int
    high: int
    of: int


def count_hits(look: FirstLook) -> list[HitCount]:
    """Return for how many people the best personal model and PopRank find something, if these models are known."""
    baseline = next((each for each in look.done if each.name == BASELINE), None)
    shown = {each.name: each.with_history for each in (look.personal, baseline) if each is not None}
    name = f"hit_rate@{look.length}"
    least = min((each[name] for each in shown.values() if each[name] > 0), default=1.0)
    of = next((each for each in (100, 1000) if least * each >= 1.5), 10_000)
    shares = {model: (each[name], *each.interval(name)) for model, each in shown.items()}
    counts = {model: [round(of * min(max(share, 0.0), 1.0)) for share in own] for model, own in shares.items()}
    return [HitCount(model, found, low, high, of) for model, (found, low, high) in counts.items()]


def list_findings(look: FirstLook) -> list[str]:
    """Return the findings, a sentence or two each, the answer first."""
    first = (_tell_answer, _tell_significance, _tell_order, _tell_missing)
    parts = (*first, _tell_weakness, _tell_new_items, _tell_costs, _tell_learning)
    return [words for part in parts if (words := part(look))]


def _tell_answer(look: FirstLook) -> str:
    counts, n = count_hits(look), look.length
    if not counts:
        return "No model is fitted yet."
    lists = {each.model: f"among {n} items that {each.model} picks for each of them" for each in counts}
    lists[BASELINE] = f"among the {n} most popular items"
    first, *others = counts
    words = f"Of {first.of:,} people, {first.found:,} find something they then chose {lists[first.model]}"
    return words + "".join(f", and {each.found:,} {lists[each.model]}" for each in others) + "."


def _tell_significance(look: FirstLook) -> str:
    if look.best is None or look.comparison is None:
        return ""
    rows = look.comparison.rows
    agreeing = {row.model: _count_significant(row) for row in rows}
    verdicts = {
        2: "is more than chance (5 % level)",
        0: "may be chance",
        1: "is more than chance by one of two tests only",
    }
    groups = {n: [model for model, own in agreeing.items() if own == n] for n in verdicts}
    leads = [f"over {_join(models)} {verdicts[n]}" for n, models in groups.items() if models]
    words = (
        "No personal model makes better lists than PopRank, the most popular items"
        if look.best.name == BASELINE
        else f"Of the {len(look.done)} models that were run, {look.best.name} makes the best lists"
    )
    people = format_number_of(rows[0].paired.n, "user")
    words += f". Over {people} with a history, its lead {', that '.join(leads)}."
    if agreeing.get(BASELINE, 2) < 2:
        words += " A benefit over popularity is not shown here."
    if look.best.name == BASELINE:
        words += " Check what is unusual in the log before you trust this."
    if rows[0].paired.n < FEW_USERS:
        words += " With so few users the order may differ on other data."
    return words


def _tell_order(look: FirstLook) -> str:
    """Return what knowing the order of events is worth: CSRR with it beside CSRR without."""
    both = [each.with_history for name in ("CSRR", NEXT) for each in look.done if each.name == name]
    if len(both) < 2:
        return ""
    before, after = (each[look.metric] for each in both)
    low, high = compute_mean_interval(both[1].per_user[look.metric] - both[0].per_user[look.metric])
    change = "raises" if low > 0 else "lowers" if high < 0 else "changes"
    words = f"Knowing what came last {change} the {look.metric} of CSRR from {before:.4f} to {after:.4f}"
    return words + (", which may be chance." if change == "changes" else ".")


def _tell_new_items(look: FirstLook) -> str:
    """Return how much falls on items that are new, and what is known of these by the item table."""
    share, found, words = look.facts.new_share, look.new_items, ""
    if share is not None:
        words = f"On an average day {format_percent(share)} of the events fall on items that were new that week. "
    if found is not None:
        words += (
            f"{found.n_hidden:,} items were hidden, and known by the item table alone: lists of {found.length} of them"
            f" have {format_percent(found.recall)} of what people chose among these, and {format_percent(found.chance)}"
            " at random."
        )
    elif share is not None and share >= WORTH_TELLING:
        words += "A table of what items are like (--items) would let CSRR recommend them before their first event."
    return words.strip()


def _count_significant(row: ComparedPair) -> int:
    """Return how many of the two tests find a model worse than the best one."""
    by_rank = row.wilcoxon_p_holm < LEVEL and row.paired.better <= row.paired.worse
    return (row.t_p_holm < LEVEL) + by_rank


def _join(words: Sequence[str]) -> str:
    *some, last = words
    return f"{', '.join(some)} and {last}" if some else last


def _tell_missing(look: FirstLook) -> str:
    return " ".join(f"{each.name} was {each.note}." for each in look.unfinished)


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
    effects = [_tell_effect_of_more(each) for each in look.learning]
    return f"{_join(effects)}.".capitalize() if effects else ""


def _tell_effect_of_more(found: LearningPoint) -> str:
    """Return whether more data would help, by the loss with half of the data."""
    more, half = ("more users", "half of them") if found.part == HALF_OF_USERS else ("longer histories", "half of each")
    would = "help" if found.gain_low > 0 else "not help" if found.gain_high < 0 else "help little"
    loss = found.gain / found.whole if found.whole else 0.0
    chance = ", which may be chance" if would == "help little" else ""
    change = f"{format_percent(abs(loss))} {'worse' if loss >= 0 else 'better'}"
    return f"{more} of this kind would {would} (lists learned from {half} are {change}{chance})"


def list_commands(look: FirstLook) -> list[Command]:
    """Return commands to go on with, for the saved models; none if no model is saved."""
    fitted = look.shown_model
    if look.folder is None or fitted is None:
        return []
    model = shlex.quote(str(look.folder / (MODEL if look.personal_model is None else PERSONAL)))
    options = f" {look.options}" if look.options else ""
    log = None if look.source is None else shlex.quote(look.source) + options
    kind = type(fitted)
    order = " -p order=next" if kind.__name__ == "CSRR" and fitted.uses_order else ""
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
        Command("Search for better parameters.", f"csrr tune {log} --model {kind.__name__.lower()}{order} --minutes 10")
        if log is not None and kind.__name__ != BASELINE
        else Command("Describe the model.", f"csrr info {model}")
    )
    found.append(tune)
    if log is not None and look.facts.first is None and "--ordered" not in options:
        found.append(
            Command("Learn what comes next, if rows are in order, oldest first.", f"csrr start {log} --ordered")
        )
    return [*found, Command("Add new events.", f"csrr update {model} new.csv{options} -o {model}")]


def _quote_first(ids: Any) -> str:
    """Return the first id that can be typed and fits on a line, quoted for a shell."""
    texts = (text for text in map(str, ids) if make_printable(text) == text and measure_width(text) <= WIDEST_ID)
    return shlex.quote(next(texts, "ID"))


PHONE = 380
"""A width that fits on a phone."""


def render_template(package: str, name: str, **values: Any) -> str:
    """Return an HTML page from a template of a package, such as "csrr_paper", and values.

    All text is escaped; control characters and direction marks are written as text.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: text.make_printable(value, keep="\n\t") if type(value) is str else value,
    )
    # The charts escape their own text.
    return environment.get_template(name).render(
        style=Markup(read_file("colors.css") + read_file("page.css")),  # noqa: S704
        drawn=Markup,
        marker=lambda place: Markup(draw_marker(place)),  # noqa: S704
        text=text,
        **values,
    )


LOCK = ".lock"
"""A file that a run holds while it writes. It stays, and is free again when the process ends."""


def check_folder(folder: Path) -> None:
    """Raise an error if the folder has files that are not of a first look, or another run is writing there."""
    if (folder / LOCK).exists():
        with hold_folder(folder):
            pass
    if (
        folder.is_dir()
        and any((folder / name).exists() for name in (PAGE, SUMMARY, MODEL, PERSONAL))
        and not _is_ours(folder)
    ):
        raise ParameterError.of("folder", str(folder), "holds other files of the same names; give another")


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Reserve a folder, created if missing, for this process; raise an error if another process writes there."""
    folder.mkdir(parents=True, exist_ok=True)
    with try_lock(folder / LOCK) as is_free:
        if not is_free:
            raise ParameterError(f"{folder}: another first look is written there now; wait, or give another folder")
        yield


def _is_ours(folder: Path) -> bool:
    try:
        found = json.loads((folder / SUMMARY).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("kind") == KIND


def write_files(look: FirstLook, *, models: bool) -> None:
    """Write page and numbers, and with `models` the models, each file atomically."""
    assert look.folder is not None
    if models and look.model is not None:
        look.model.save(look.folder / MODEL)
        if look.personal_model is not None:
            look.personal_model.save(look.folder / PERSONAL)
        else:
            (look.folder / PERSONAL).unlink(missing_ok=True)
    plain = json.dumps(to_plain(look.summary()), indent=1, allow_nan=False)
    write_text(look.folder / SUMMARY, plain + "\n")
    write_text(look.folder / PAGE, render_page(look))


def render_page(look: FirstLook) -> str:
    """Return the page of a first look."""
    return render_template(
        "csrr.report",
        "first_look.html",
        look=look,
        panels=make_panels(look),
        list_names=list_series_names,
        draw=lambda panel: draw_panel(panel, list_series_names([panel]), width=PHONE).svg,
        findings=list_findings(look),
        hits=count_hits(look),
        commands=list_commands(look),
        format_day=format_day,
        short=SHORT,
        model_file=MODEL,
        personal_file=PERSONAL,
    )


def make_panels(look: FirstLook) -> dict[str, Panel]:
    """Return the charts of the page by name; "ratios" and "learning" are there only if their values are known."""
    accuracy = f"{look.metric.upper()} (larger is better)"
    models = []
    for each in look.done:
        low, high = each.with_history.interval(look.metric)
        models.append(Point(mean=each.with_history[look.metric], low=low, high=high, label=each.name))
    popularity = [Point(100 * items, 100 * events) for items, events in look.facts.popularity]
    costs = [Point(each.length, each.cost, each.low, each.high) for each in look.lists]
    list_series = [Series("" if look.best is None else look.best.name, costs)]
    labels = "items, most popular first, in %", "share of the events, in %"
    panels = {
        "popularity": Panel("Popularity", *labels, series=[Series("items", popularity)]),
        "models": Panel("Models", "", accuracy, series=[Series("mean", models)], kind="dots"),
        "users": Panel("Users", "", accuracy, series=_list_groups(look.by_users), kind="dots"),
        "items": Panel("Items", "", "share found (larger is better)", series=_list_groups(look.by_items), kind="dots"),
        "lists": Panel("Cost of lists", "length of the list", "cost per user", series=list_series),
    }
    if look.costs is not None:
        series = [Series("CSRR", [Point(each.cost_ratio, each.cost, each.low, each.high) for each in look.costs])]
        panels["ratios"] = Panel("Cost curve", "weight of clicks", "cost per user", True, series)
    if look.learning and look.shown is not None:
        gains = [Point(0.0, each.gain, each.gain_low, each.gain_high, label=each.part) for each in look.learning]
        label = f"gain of {look.metric.upper()}"
        panels["learning"] = Panel("More data", "", label, series=[Series(look.shown.name, gains)], kind="dots")
    return panels


def _list_groups(groups: Sequence[GroupScore]) -> list[Series]:
    """Return a series for each model, with a point for each group."""
    found: dict[str, list[Point]] = {}
    for each in groups:
        point = Point(mean=each.mean, low=each.low, high=each.high, label=each.name.partition(" (")[0])
        found.setdefault(each.model, []).append(point)
    return [Series(model, points) for model, points in found.items()]
