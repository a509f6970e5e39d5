"""What a first look found: facts for programs, and for people what they mean."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from csrr.experiments.compare import Comparison
from csrr.experiments.cost_curve import CostCurve
from csrr.first_look.contest import Contestant, choose_length
from csrr.first_look.examine import LogFacts
from csrr.first_look.examples import Example
from csrr.first_look.fair_test import FairTest
from csrr.first_look.oddities import Oddity
from csrr.first_look.prospects import Learned, ListCost
from csrr.first_look.user_groups import Group
from csrr.models.recommender import Recommender
from csrr.ranking.result_table import ResultTable, TabularResult

PAGE, SUMMARY, MODEL = "page.html", "summary.json", "model.csrr"
KIND = "csrr first look"


@dataclass(frozen=True, eq=False, repr=False)
class FirstLook(TabularResult):
    """What a first look at a log found.

    Attributes
    ----------
    facts
        What the log is: users, items, events, times, how sparse, how skewed, accounts that look like machines.
    oddities
        What is odd in it, and what to do about that.
    test
        How a test was held out.
    contestants
        The models, in the order in which they were fitted; those that did not finish say why.
    best
        The one with the best lists; None before there is one.
    comparison
        Paired tests of the others against it, where there are others.
    by_users, by_items
        What the best and the floor come to for light and heavy users, and for popular and rare items.
    lists
        What lists of several lengths cost.
    costs
        The cost curve of CSRR, where there was time for it.
    learning
        What the best kind of model comes to with a share of the training events.
    examples
        Lists of a few users, with reasons.
    model
        The best model, fitted to all events once `refitted`.
    refitted
        Whether that has been done; before, it is the one of the test.
    pending
        What has not been done, because the time was up or it is not finished.
    miss, false_alarm
        What these were taken to cost.
    seconds
        How long it took.
    source
        Where the log is, where it is a file.
    options
        How the log is read, as options of the command line.
    folder
        Where page, numbers and model are, where they are written.

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
    comparison: Comparison | None = None
    by_users: list[Group] = field(default_factory=list)
    by_items: list[Group] = field(default_factory=list)
    lists: list[ListCost] = field(default_factory=list)
    costs: CostCurve | None = None
    learning: list[Learned] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    model: Recommender | None = None
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
        """The name of what decides, such as ndcg@10."""
        return f"ndcg@{self.length}"

    @property
    def name(self) -> str:
        """What the log is called; nothing where it is no file."""
        return "" if self.source is None else Path(self.source).name

    @property
    def length(self) -> int:
        """How long the lists are that are judged."""
        return choose_length(self.test.train)

    @property
    def done(self) -> list[Contestant]:
        """The models that finished."""
        return [each for each in self.contestants if each.evaluation is not None]

    def table(self) -> ResultTable:
        """Return the models as a table.

        Returns
        -------
        table
            A row for each model that finished: model, the mean of what decides with its 95 % interval, other means,
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
        return f"FirstLook: {facts.n_users:,} users x {facts.n_items:,} items, {facts.n_events:,} events"

    def _remarks(self) -> list[str]:
        from csrr.first_look.findings import list_findings

        return list_findings(self)

    def summary(self) -> dict[str, Any]:
        """Return all of it as plain values, fit for JSON.

        Returns
        -------
        summary
            What the attributes hold; NaN stays NaN.
        """
        from csrr.first_look.findings import list_commands, list_findings

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
            "commands": [asdict(each) for each in list_commands(self)],
        }


def _summarise_contestant(each: Contestant) -> dict[str, Any]:
    found = {"model": each.name, "seconds": each.seconds, "note": each.note}
    if each.evaluation is None:
        return found | {"means": None}
    told = each.judged.summary()
    return found | {"means": told["means"], "intervals": told["intervals"], "n_users": told["n_users"]}
