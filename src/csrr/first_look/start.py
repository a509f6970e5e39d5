"""`csrr.start`: from a log to an answer, one step after the other; after each, what is known is written."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from csrr.data import Log, as_log, read
from csrr.deadline import limit_time
from csrr.first_look.contest import CONTESTANTS, FLOOR, choose_best, compare_contestants, fit_contestant
from csrr.first_look.examine import examine
from csrr.first_look.examples import make_examples
from csrr.first_look.fair_test import find_left_out, hold_out
from csrr.first_look.oddities import find_oddities
from csrr.first_look.prospects import SHARES, draw_costs, learn_from_less, price_lists, summarise_whole
from csrr.first_look.result import FirstLook
from csrr.first_look.user_groups import group_items, group_users
from csrr.first_look.write_page import check_folder, write_files
from csrr.parameters import check_number, check_whole

MINUTES = 10.0
CONTEST = 0.6
"""The share of the time for the contest; each model but the last gets at most a third of what is left of it."""
GROUPS, LISTS, REFIT, EXAMPLES = "for whom it fails", "the cost of lists", "the fit to all events", "examples"
LEARNING, COSTS = "learning from less", "the cost curve"

Callback = Callable[[str], object]


def start(
    log: Any,
    minutes: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    *,
    miss: float = 10.0,
    false_alarm: float = 1.0,
    seed: int = 0,
    callback: Callback | None = None,
) -> FirstLook:
    """Make a first report on a log: its statistics, a comparison of models, and the best model.

    A test set is held out: in time if there are times, else at random. PopRank, ItemKNN, EASE, WRMF and CSRR are fitted
    and compared on it; the best is fitted to all events. With a folder, the report is written after each step, so that
    an interrupted run leaves what is known so far.

    Parameters
    ----------
    log
        A log, or what `csrr.read` reads: a path, the name of a data set, a table or a matrix.
    minutes
        The approximate time limit; None: as long as needed, at most ten minutes.
    folder
        Where to write page.html, summary.json and model.csrr; None: nothing is written.
    miss, false_alarm
        The cost of a wanted item that is not in the list, and of an unwanted item in the list.
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
        If the log is too small for any test.
    ParameterError
        If a number is not valid.

    Examples
    --------
    >>> look = csrr.start(csrr.synthetic(100, 40, events_per_user=15).log, minutes=1, folder="first-look")
    >>> [each.name for each in look.contestants]
    ['PopRank', 'ItemKNN', 'EASE', 'WRMF', 'CSRR']
    >>> csrr.load("first-look/model.csrr").recommend(3, k=2).items.shape
    (1, 2)
    """
    source = str(log) if isinstance(log, str | os.PathLike) else None
    return look_at_log(
        log, minutes, folder, miss=miss, false_alarm=false_alarm, seed=seed, callback=callback, source=source
    )


def look_at_log(
    log: Any,
    minutes: float | None,
    folder: str | os.PathLike[str] | None,
    *,
    miss: float,
    false_alarm: float,
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
    run = Run(events, 60 * (MINUTES if minutes is None else minutes), seed, callback or (lambda words: None))
    look = run.begin(miss, false_alarm)
    if source is not None and "://" in source:
        source = None  # an address may hold a password, and a page is passed on
    return run.look_at(replace(look, source=source, options=options, folder=target))


class Run:
    """A first look under way: the log, the time, and what is told."""

    def __init__(self, log: Log, seconds: float, seed: int, tell: Callback) -> None:
        self.log = log
        self.seconds = seconds
        self.seed = seed
        self.tell = tell
        self.began: float = time.perf_counter()
        self.saved: str | None = None

    def left(self, share: float = 1.0) -> float:
        """Return the seconds until that share of the time is over, at least one."""
        return max(1.0, self.began + share * self.seconds - time.perf_counter())

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
        for share in SHARES:
            look = self.keep(self.learn(look, share))
        look = self.price(look)
        return self.keep(replace(look, pending=[each for each in look.pending if each in (LEARNING, COSTS)]))

    def keep(self, look: FirstLook) -> FirstLook:
        """Return the look with its time, and write it."""
        look = replace(look, seconds=time.perf_counter() - self.began)
        if look.folder is not None:
            state = f"{None if look.best is None else look.best.name} {look.refitted}"
            write_files(look, model=state != self.saved)
            self.saved = state
        return look

    def add_contestant(self, look: FirstLook, name: str) -> FirstLook:
        """Return the look with one more model judged."""
        self.tell(f"fitting {name}")
        share = 1.0 if name == CONTESTANTS[-1] else 1 / 3
        found = fit_contestant(name, look.test, share * self.left(CONTEST), self.seconds)
        contestants = [*look.contestants, found]
        pending = [each for each in look.pending if each != name]
        look = replace(look, contestants=contestants, pending=pending)
        best = choose_best(look.done)
        comparison = compare_contestants(look.done, best)
        return replace(look, best=best, model=best.model, comparison=comparison)

    def explain_best(self, look: FirstLook) -> FirstLook:
        """Return the look with what the best comes to for whom, and at what cost."""
        assert look.best is not None
        self.tell(f"judging {look.best.name}")
        floor = [each for each in look.done if each.name == FLOOR and each is not look.best]
        return replace(
            look,
            by_users=group_users([look.best, *floor]),
            by_items=group_items([look.best, *floor], look.test),
            lists=price_lists(look.best, look.test, look.miss, look.false_alarm),
            learning=[summarise_whole(look.best, look.test)],
            pending=[each for each in look.pending if each not in (GROUPS, LISTS)],
        )

    def refit(self, look: FirstLook) -> FirstLook:
        """Return the look with the best model fitted to all events."""
        assert look.best is not None
        assert look.model is not None
        self.tell(f"fitting {look.best.name} to all events")
        with limit_time(self.left()):
            look.model.update(find_left_out(self.log, look.test.train))
        pending = [each for each in look.pending if each not in (REFIT, EXAMPLES)]
        return replace(look, refitted=True, examples=make_examples(look.model), pending=pending)

    def learn(self, look: FirstLook, share: float) -> FirstLook:
        """Return the look with the best kind of model fitted to a share of the training events."""
        assert look.best is not None
        if look.best.seconds > self.left() / 2:  # of less data it takes less, but for EASE
            return look
        self.tell(f"fitting {look.best.name} to {share:.0%} of the events")
        found = learn_from_less(look.best, look.test, share, self.left() / 2, self.seed)
        if found is None:
            return look
        pending = [each for each in look.pending if each != LEARNING]
        return replace(look, learning=sorted([*look.learning, found], key=lambda each: each.share), pending=pending)

    def price(self, look: FirstLook) -> FirstLook:
        """Return the look with the cost curve of CSRR, where there is time for it."""
        own = next((each for each in look.done if each.name == "CSRR"), None)
        if own is None or own.seconds > self.left():
            return look
        self.tell("the cost curve")
        curve = draw_costs(self.log, look.miss, look.false_alarm, self.left(), self.seed)
        return look if curve is None else replace(look, costs=curve, pending=[p for p in look.pending if p != COSTS])
