"""What a first look found: facts for programs, and for people what they mean."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from csrr._base.text import format_number_of
from csrr.evaluation.compare import Comparison
from csrr.evaluation.cost_curve import CostCurve
from csrr.models.base import Recommender
from csrr.report.contest import Contestant, Example, FairTest, GroupScore, Learned, ListCost, choose_length
from csrr.report.examine import LogFacts, Oddity
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
    oddities
        What is unusual in the log, with advice.
    test
        How the test set was held out.
    contestants
        The models, in the order of fitting; those that did not finish say why.
    best
        The best model of the comparison; None before there is one.
    personal
        The best one but for PopRank, whose lists are the same for everybody; None before there is one.
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
    oddities: list[Oddity]
    test: FairTest
    contestants: list[Contestant] = field(default_factory=list)
    best: Contestant | None = None
    personal: Contestant | None = None
    comparison: Comparison | None = None
    by_users: list[GroupScore] = field(default_factory=list)
    by_items: list[GroupScore] = field(default_factory=list)
    lists: list[ListCost] = field(default_factory=list)
    costs: CostCurve | None = None
    learning: list[Learned] = field(default_factory=list)
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
    def done(self) -> list[Contestant]:
        """The models that finished."""
        return [each for each in self.contestants if each.evaluation is not None]

    @property
    def lost(self) -> list[Contestant]:
        """The models that were not run, or did not finish."""
        return [each for each in self.contestants if each.evaluation is None]

    @property
    def shown_model(self) -> Recommender | None:
        """The model of the examples: the best personal one where there is one."""
        return self.model if self.personal_model is None else self.personal_model

    @property
    def n_titled(self) -> int:
        """How many items have a title."""
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
            low, high = each.judged.interval(self.metric)
            means = {name: each.judged[name] for name in each.judged.means if name != self.metric}
            rows.append(
                {
                    "model": each.name,
                    self.metric: each.judged[self.metric],
                    "low": low,
                    "high": high,
                    **means,
                    "seconds": each.seconds,
                }
            )
        return ResultTable.from_rows(rows)

    def display_table(self) -> ResultTable:
        names = ("model", self.metric, "low", "high", f"recall@{self.length}", "seconds")
        return ResultTable.from_rows({name: row[name] for name in names} for row in self.table().rows())

    def _heading(self) -> str:
        facts = self.facts
        sizes = format_number_of(facts.n_users, "user"), format_number_of(facts.n_items, "item")
        return f"FirstLook: {' x '.join(sizes)}, {format_number_of(facts.n_events, 'event')}"

    def _remarks(self) -> list[str]:
        from csrr.report.findings import list_findings

        return list_findings(self)

    def summary(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON.

        Returns
        -------
        summary
            The attributes by name; NaN stays NaN.
        """
        from csrr.report.findings import list_commands, list_findings

        test = self.test
        return {
            "kind": KIND,
            "source": self.source,
            "seconds": self.seconds,
            "finished": not self.pending,
            "pending": self.pending,
            "findings": list_findings(self),
            "log": asdict(self.facts),
            "oddities": [asdict(each) for each in self.oddities],
            "test": {
                "how": test.how,
                "n_train": len(test.train),
                "n_test": len(test.test),
                "n_users": len(test.users),
                "n_users_with_history": test.n_judged,
                "new_item_share": test.new_item_share,
            },
            "metric": self.metric,
            "models": [_summarise_contestant(each) for each in self.contestants],
            "best": None if self.best is None else self.best.name,
            "best_personal": None if self.personal is None else self.personal.name,
            "comparison": None if self.comparison is None else self.comparison.summary(),
            "by_users": [asdict(each) for each in self.by_users],
            "by_items": [asdict(each) for each in self.by_items],
            "miss": self.miss,
            "false_alarm": self.false_alarm,
            "lists": [asdict(each) for each in self.lists],
            "cost_curve": None if self.costs is None else self.costs.to_list(),
            "cost_recommendation": None if self.costs is None else self.costs.recommendation,
            "learning": [asdict(each) for each in self.learning],
            "examples": [asdict(each) for each in self.examples],
            "refitted": self.refitted,
            "model": None if self.folder is None or self.model is None else str(self.folder / MODEL),
            "personal_model": None
            if self.folder is None or self.personal_model is None
            else str(self.folder / PERSONAL),
            "commands": [asdict(each) for each in list_commands(self)],
        }


def _summarise_contestant(each: Contestant) -> dict[str, Any]:
    found = {"model": each.name, "seconds": each.seconds, "note": each.note}
    if each.evaluation is None:
        return found | {"means": None}
    told = each.judged.summary()
    return found | {"means": told["means"], "intervals": told["intervals"], "n_users": told["n_users"]}
