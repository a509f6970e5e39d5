"""`csrr.start`: the first report on a log, made in steps, and written after each step."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from csrr._base.threads import limit_time
from csrr.data.features import read_features
from csrr.data.items import ItemTable
from csrr.data.log import Log, as_log
from csrr.data.read import read
from csrr.evaluation.compare import compare
from csrr.models.base import Recommender
from csrr.models.csrr import CSRR
from csrr.parameters import check_number, check_whole
from csrr.report import comparison
from csrr.report.comparison import BASELINE, COMPARED, HALVES, list_models
from csrr.report.findings import FirstLook, check_folder, hold_folder, write_files
from csrr.report.log_facts import compute_log_facts, find_anomalies

MINUTES = 10.0
COMPARISON_SHARE = 0.6
"""The share of the time for the comparison of models; each but the last gets at most a third of what is left."""
GROUPS, LISTS, REFIT, EXAMPLES = "for whom it fails", "the cost of lists", "the fit to all events", "examples"
LEARNING, COSTS, NEW = "the effect of more data", "the cost curve", "new items by the item table"

Callback = Callable[[str], object]


def start(
    log: Any,
    minutes: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    *,
    items: Any = None,
    miss: float = 10.0,
    false_alarm: float = 1.0,
    ease: bool = False,
    seed: int = 0,
    callback: Callback | None = None,
    source: str | None = None,
    options: str = "",
) -> FirstLook:
    """Make a first report on a log: its statistics, a comparison of models, and the best model.

    A test set is held out: in time if there are times, else at random. PopRank, ItemKNN, EASE, WRMF and CSRR are fitted
    and compared on it, in time also `CSRR(order="next")`; the best is fitted to all events, and where that is PopRank,
    the best of the others too. With a folder, the report is written after each step, so that an interrupted run leaves
    what is known so far.

    Parameters
    ----------
    log
        A log, or what `csrr.read` reads: a path, the name of a data set, a table or a matrix.
    minutes
        The approximate time limit; None: as long as needed, at most ten minutes.
    folder
        Where to write page.html, summary.json and model.csrr; None: nothing is written.
    items
        What items are like, with titles to show: anything that `csrr.read_features` takes.
    miss, false_alarm
        The cost of a wanted item that is not in the list, and of an unwanted item in the list.
    ease
        Whether to fit EASE however long that takes, in addition to `minutes`; else it is left out where items are many.
    seed
        Seed of the random numbers.
    callback
        Called with a sentence on the current step.
    source, options
        The file of the log and the command-line options to read it, for the commands of the report. Default: the path,
        if `log` is one.

    Returns
    -------
    look
        The report.

    Raises
    ------
    DataError
        If the log is too small for any test, or the item table has none of its items.
    ParameterError
        If a number is not valid, or the folder belongs to something else.

    Examples
    --------
    >>> look = csrr.start(csrr.synthetic(100, 40, events_per_user=15).log, minutes=1, folder="first-look")
    >>> [each.name for each in look.results]
    ['PopRank', 'ItemKNN', 'EASE', 'WRMF', 'CSRR']
    >>> csrr.load("first-look/model.csrr").recommend(3, k=2).items.shape
    (1, 2)
    """
    check_number("minutes", MINUTES if minutes is None else minutes, above=0)
    check_number("miss", miss, above=0)
    check_number("false_alarm", false_alarm, above=0)
    check_whole("seed", seed, least=0)
    target = None if folder is None else Path(folder)
    if target is not None:
        check_folder(target)
    events = as_log(read(log) if isinstance(log, str | os.PathLike) else log)
    table = None if items is None else read_features(items).to_item_table()
    if table is not None:
        table.align(events.items)  # an error now, not after the first fit
    seconds = 60 * (MINUTES if minutes is None else minutes)
    if source is None and isinstance(log, str | os.PathLike):
        source = str(log)
    if source is not None and "://" in source:
        source = None  # an address may contain a password, and people send the page to others
    run = Run(events, seconds, seed, callback or (lambda words: None), table, ease)
    look = replace(run.begin(miss, false_alarm), source=source, options=options, folder=target)
    with nullcontext() if target is None else hold_folder(target):
        return run.finish(look)


@dataclass(eq=False)
class Run:
    """A first report in progress; `tell` is called before each step.

    `beyond` are the seconds of a fit of EASE that was asked for, which do not count.
    """

    log: Log
    seconds: float
    seed: int
    tell: Callback
    items: ItemTable | None
    ease: bool
    began: float = field(default_factory=time.perf_counter)
    beyond: float = 0.0
    saved: tuple[Any, ...] = ()

    def left(self, share: float = 1.0) -> float:
        """Return the seconds until this share of the time is over, at least one."""
        return max(1.0, self.began + self.beyond + share * self.seconds - time.perf_counter())

    def begin(self, miss: float, false_alarm: float) -> FirstLook:
        """Return the statistics of the log, and the test."""
        self.tell("looking at the log")
        test, facts = comparison.hold_out(self.log, self.seed), compute_log_facts(self.log)
        pending = [*list_models(test), GROUPS, LISTS, REFIT, EXAMPLES, *([NEW] * self.has_features), LEARNING, COSTS]
        anomalies = find_anomalies(self.log, facts)
        return FirstLook(facts, anomalies, test, pending=pending, miss=miss, false_alarm=false_alarm)

    def finish(self, look: FirstLook) -> FirstLook:
        """Return the report after all steps for which there is time."""
        look = self.keep(look)
        for name in list_models(look.test):
            look = self.add_model(look, name)
        look = self.add_new_items(self.refit(self.add_groups(look)))
        for part in HALVES:
            look = self.learn(look, part)
        return self.add_cost_curve(look)

    def keep(self, look: FirstLook, *steps: str, **found: Any) -> FirstLook:
        """Return the report with the attributes that some steps found, and write it to its folder."""
        pending = [each for each in look.pending if each not in steps]
        look = replace(look, **found, pending=pending, seconds=time.perf_counter() - self.began)
        if look.folder is not None:
            models = look.model, look.personal_model, look.refitted
            write_files(look, models=models != self.saved)
            self.saved = models
        return look

    def add_model(self, look: FirstLook, name: str) -> FirstLook:
        """Return the report with one more model, fitted and evaluated."""
        self.tell(f"fitting {name}")
        if name == "EASE" and self.ease:
            found = comparison.fit_and_evaluate(name, look.test, math.inf, math.inf)
            self.beyond += found.seconds
        else:
            names = list_models(look.test)
            share = 1 / 3 if name in COMPARED[:-1] else 1 / (len(names) - names.index(name))
            found = comparison.fit_and_evaluate(name, look.test, share * self.left(COMPARISON_SHARE), self.seconds)
        self.name_items(found.model)
        look = replace(look, results=[*look.results, found])
        best, personal = comparison.choose_best(look.done), comparison.choose_personal(look.done)
        other = None if personal is None or personal is best else personal.model
        models = {"best": best, "personal": personal, "model": best.model, "personal_model": other}
        rivals = {each.name: each.with_history for each in look.done}
        tests = compare(rivals, best.metric, baseline=best.name) if len(rivals) > 1 else None
        return self.keep(look, name, **models, comparison=tests)

    def name_items(self, model: Recommender | None) -> None:
        """Give a model the item table, if there is one; an update with events that have titles drops it."""
        if self.items is not None and model is not None:
            model.set_items(self.items)

    def add_groups(self, look: FirstLook) -> FirstLook:
        """Return the report with the accuracy of the best personal model by group, and the cost of the best lists."""
        shown = look.shown
        assert look.best is not None
        assert shown is not None
        self.tell(f"judging {shown.name}")
        both = [shown, *(each for each in look.done if each.name == BASELINE and each is not shown)]
        by_users, by_items = comparison.group_users(both), comparison.group_items(both, look.test)
        lists = comparison.compute_list_costs(look.best, look.test, look.miss, look.false_alarm)
        return self.keep(look, GROUPS, LISTS, by_users=by_users, by_items=by_items, lists=lists)

    def refit(self, look: FirstLook) -> FirstLook:
        """Return the report with the best model, and the best personal one, fitted to all events."""
        for model in (look.model, look.personal_model):
            if model is not None:
                self.tell(f"fitting {type(model).__name__} to all events")
                with limit_time(self.left()):
                    model.update(comparison.subtract_log(self.log, look.test.train))
                self.name_items(model)
        assert look.shown_model is not None
        return self.keep(look, REFIT, EXAMPLES, refitted=True, examples=comparison.make_examples(look.shown_model))

    @cached_property
    def has_features(self) -> bool:
        """Whether there is an item table that says what items have in common."""
        return self.items is not None and read_features(self.items).has_features()

    def add_new_items(self, look: FirstLook) -> FirstLook:
        """Return the report with what the item table says of items without events, if there is time for a fit."""
        own = next((each for each in look.done if each.name == "CSRR"), None)
        if not self.has_features or own is None or not isinstance(own.model, CSRR) or own.seconds > self.left() / 2:
            return look
        self.tell("hiding items, to find them by the item table")
        table, params = read_features(self.items), own.model.settled_params()
        found = comparison.judge_features(self.log, table, params, self.left() / 2, self.seed)
        return self.keep(look) if found is None else self.keep(look, NEW, new_items=found)

    def learn(self, look: FirstLook, part: str) -> FirstLook:
        """Return the report with the accuracy of the best personal model after a fit to half of the training events."""
        shown = look.shown
        assert shown is not None
        if shown.seconds > self.left() / 2:  # less data takes less time, except for EASE
            return look
        self.tell(f"fitting {shown.name} to {part}")
        found = comparison.learn_from_half(shown, look.test, part, self.left() / 2, self.seed)
        return look if found is None else self.keep(look, LEARNING, learning=[*look.learning, found])

    def add_cost_curve(self, look: FirstLook) -> FirstLook:
        """Return the report with the cost curve of CSRR, if there is time for it."""
        own = next((each for each in look.done if each.name == "CSRR"), None)
        if own is None or own.seconds > self.left():
            return self.keep(look)
        self.tell("the cost curve")
        curve = comparison.compute_cost_curve(self.log, look.miss, look.false_alarm, self.left(), self.seed)
        return self.keep(look) if curve is None else self.keep(look, COSTS, costs=curve)
