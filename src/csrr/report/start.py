"""`csrr.start`: from a log to an answer, one step after the other; after each, what is known is written."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from csrr._base.deadline import limit_time
from csrr.data import ItemTable, Log, as_log, read, read_items
from csrr.models.base import Recommender
from csrr.parameters import check_number, check_whole
from csrr.report.contest import (
    CONTESTANTS,
    FLOOR,
    PARTS,
    Contestant,
    choose_best,
    choose_personal,
    compare_contestants,
    draw_costs,
    find_left_out,
    fit_contestant,
    group_items,
    group_users,
    hold_out,
    learn_from_less,
    make_examples,
    price_lists,
)
from csrr.report.examine import examine, find_oddities
from csrr.report.page import check_folder, hold_folder, write_files
from csrr.report.result import FirstLook

MINUTES = 10.0
CONTEST = 0.6
"""The share of the time for the contest; each model but the last gets at most a third of what is left of it."""
GROUPS, LISTS, REFIT, EXAMPLES = "for whom it fails", "the cost of lists", "the fit to all events", "examples"
LEARNING, COSTS = "the effect of more data", "the cost curve"

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
) -> FirstLook:
    """Make a first report on a log: its statistics, a comparison of models, and the best model.

    A test set is held out: in time if there are times, else at random. PopRank, ItemKNN, EASE, WRMF and CSRR are fitted
    and compared on it; the best is fitted to all events, and where that is PopRank, the best of the others too. With a
    folder, the report is written after each step, so that an interrupted run leaves what is known so far.

    Parameters
    ----------
    log
        A log, or what `csrr.read` reads: a path, the name of a data set, a table or a matrix.
    minutes
        The approximate time limit; None: as long as needed, at most ten minutes.
    folder
        Where to write page.html, summary.json and model.csrr; None: nothing is written.
    items
        An item table, or what `csrr.read_items` reads, with titles to show.
    miss, false_alarm
        The cost of a wanted item that is not in the list, and of an unwanted item in the list.
    ease
        Whether to fit EASE however long that takes, in addition to `minutes`; else it is left out where items are many.
    seed
        Seed of the random numbers.
    callback
        Called with a sentence on the current step.

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
    >>> [each.name for each in look.contestants]
    ['PopRank', 'ItemKNN', 'EASE', 'WRMF', 'CSRR']
    >>> csrr.load("first-look/model.csrr").recommend(3, k=2).items.shape
    (1, 2)
    """
    source = str(log) if isinstance(log, str | os.PathLike) else None
    given = {"items": items, "miss": miss, "false_alarm": false_alarm, "ease": ease, "seed": seed}
    return look_at_log(log, minutes, folder, **given, callback=callback, source=source)


def look_at_log(
    log: Any,
    minutes: float | None,
    folder: str | os.PathLike[str] | None,
    *,
    items: Any = None,
    miss: float,
    false_alarm: float,
    ease: bool = False,
    seed: int,
    callback: Callback | None,
    source: str | None,
    options: str = "",
) -> FirstLook:
    """Return what `start` does; `source` and `options` say where the log is and how it was read."""
    check_number("minutes", MINUTES if minutes is None else minutes, above=0)
    check_number("miss", miss, above=0)
    check_number("false_alarm", false_alarm, above=0)
    check_whole("seed", seed, least=0)
    target = None if folder is None else Path(folder)
    if target is not None:
        check_folder(target)
    events = as_log(read(log) if isinstance(log, str | os.PathLike) else log)
    table = None if items is None else read_items(items)
    if table is not None:
        table.align(events.items)  # now, not after the first fit
    seconds = 60 * (MINUTES if minutes is None else minutes)
    run = Run(events, seconds, seed, callback or (lambda words: None), items=table, ease=ease)
    look = run.begin(miss, false_alarm)
    if source is not None and "://" in source:
        source = None  # an address may hold a password, and a page is passed on
    with nullcontext() if target is None else hold_folder(target):
        return run.look_at(replace(look, source=source, options=options, folder=target))


class Run:
    """A first look under way: the log, the time, and what is told."""

    def __init__(
        self, log: Log, seconds: float, seed: int, tell: Callback, *, items: ItemTable | None, ease: bool
    ) -> None:
        self.log = log
        self.seconds = seconds
        self.seed = seed
        self.tell = tell
        self.items = items
        self.ease = ease
        self.began: float = time.perf_counter()
        self.beyond: float = 0.0
        """The seconds of EASE where it was asked for, which count for nothing."""
        self.saved: str | None = None

    def left(self, share: float = 1.0) -> float:
        """Return the seconds until that share of the time is over, at least one."""
        return max(1.0, self.began + self.beyond + share * self.seconds - time.perf_counter())

    def begin(self, miss: float, false_alarm: float) -> FirstLook:
        """Return what the log itself tells."""
        self.tell("looking at the log")
        test = hold_out(self.log, self.seed)
        facts = examine(self.log)
        pending = [*CONTESTANTS, GROUPS, LISTS, REFIT, EXAMPLES, LEARNING, COSTS]
        odd = find_oddities(self.log, facts)
        return FirstLook(facts, odd, test, pending=pending, miss=miss, false_alarm=false_alarm)

    def look_at(self, look: FirstLook) -> FirstLook:
        """Return the look when all is done, or the time is up."""
        self.keep(look)
        for name in CONTESTANTS:
            look = self.keep(self.add_contestant(look, name))
        look = self.keep(self.explain_best(look))
        look = self.keep(self.refit(look))
        for part in PARTS:
            look = self.keep(self.learn(look, part))
        look = self.price(look)
        return self.keep(replace(look, pending=[each for each in look.pending if each in (LEARNING, COSTS)]))

    def keep(self, look: FirstLook) -> FirstLook:
        """Return the look with its time, and write it."""
        look = replace(look, seconds=time.perf_counter() - self.began)
        if look.folder is not None:
            state = f"{[None if each is None else each.name for each in (look.best, look.personal)]} {look.refitted}"
            write_files(look, models=state != self.saved)
            self.saved = state
        return look

    def add_contestant(self, look: FirstLook, name: str) -> FirstLook:
        """Return the look with one more model judged."""
        self.tell(f"fitting {name}")
        if name == "EASE" and self.ease:
            found = fit_contestant(name, look.test, math.inf, math.inf)
            self.beyond += found.seconds
        else:
            share = 1.0 if name == CONTESTANTS[-1] else 1 / 3
            found = fit_contestant(name, look.test, share * self.left(CONTEST), self.seconds)
        self.name_items(found.model)
        contestants = [*look.contestants, found]
        pending = [each for each in look.pending if each != name]
        look = replace(look, contestants=contestants, pending=pending)
        best, personal = choose_best(look.done), choose_personal(look.done)
        comparison = compare_contestants(look.done, best)
        other = None if personal is None or personal is best else personal.model
        return replace(
            look, best=best, personal=personal, model=best.model, personal_model=other, comparison=comparison
        )

    def name_items(self, model: Recommender | None) -> None:
        """Give a model the item table; events that come with titles of their own take the table's out of it."""
        if self.items is not None and model is not None:
            model.set_items(self.items)

    def explain_best(self, look: FirstLook) -> FirstLook:
        """Return the look with what the best personal model comes to for whom, and the best at what cost."""
        assert look.best is not None
        shown = _shown(look)
        self.tell(f"judging {shown.name}")
        floor = [each for each in look.done if each.name == FLOOR and each is not shown]
        return replace(
            look,
            by_users=group_users([shown, *floor]),
            by_items=group_items([shown, *floor], look.test),
            lists=price_lists(look.best, look.test, look.miss, look.false_alarm),
            pending=[each for each in look.pending if each not in (GROUPS, LISTS)],
        )

    def refit(self, look: FirstLook) -> FirstLook:
        """Return the look with the best model, and the best personal one, fitted to all events."""
        for model in (look.model, look.personal_model):
            if model is not None:
                self.tell(f"fitting {type(model).__name__} to all events")
                with limit_time(self.left()):
                    model.update(find_left_out(self.log, look.test.train))
                self.name_items(model)
        pending = [each for each in look.pending if each not in (REFIT, EXAMPLES)]
        assert look.shown_model is not None
        return replace(look, refitted=True, examples=make_examples(look.shown_model), pending=pending)

    def learn(self, look: FirstLook, part: str) -> FirstLook:
        """Return the look with the best kind of personal model fitted to a part of the training events."""
        shown = _shown(look)
        if shown.seconds > self.left() / 2:  # of less data it takes less, but for EASE
            return look
        self.tell(f"fitting {shown.name} to {part}")
        found = learn_from_less(shown, look.test, part, self.left() / 2, self.seed)
        if found is None:
            return look
        pending = [each for each in look.pending if each != LEARNING]
        return replace(look, learning=[*look.learning, found], pending=pending)

    def price(self, look: FirstLook) -> FirstLook:
        """Return the look with the cost curve of CSRR, where there is time for it."""
        own = next((each for each in look.done if each.name == "CSRR"), None)
        if own is None or own.seconds > self.left():
            return look
        self.tell("the cost curve")
        curve = draw_costs(self.log, look.miss, look.false_alarm, self.left(), self.seed)
        return look if curve is None else replace(look, costs=curve, pending=[p for p in look.pending if p != COSTS])


def _shown(look: FirstLook) -> Contestant:
    """Return the best personal model, or PopRank where there is none."""
    found = look.personal or look.best
    assert found is not None
    return found
