"""kill -9 at random moments of a save, a search and a reproduction."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import csrr
from fuzz.campaign import Finding, set_environment
from fuzz.processes import Forked, world


class Kills:
    """What was finished before a kill is there after it, whole; what was not can be taken up again."""

    name = "kills"
    about = "kill -9 during save, tune and reproduce: the old or the new file, whole; no finished trial or result lost"
    patience = 120.0

    def prepare(self) -> None:
        """Do all of it once undisturbed: what a run that was killed has to come to, and how long that takes."""
        folder = world()
        self.log = csrr.read(folder / "log.csv")
        self.models = [csrr.PopRank().fit(self.log), csrr.EASE(reg=20.0).fit(self.log)]
        # Compiled once, here, not in every child.
        search(self.log, None, lambda: None)

    @cached_property
    def searched(self) -> tuple[list[Any], float]:
        """The trials of the search, undisturbed, and its seconds."""
        began = time.monotonic()
        found = search(self.log, world() / "search.journal", lambda: None)
        return found, time.monotonic() - began

    @cached_property
    def reproduced(self) -> tuple[dict[str, Any], float]:
        """The results of the reproduction, undisturbed, and its seconds."""
        reproduce(world() / "first", lambda: None)
        began = time.monotonic()
        found = reproduce(world() / "results", lambda: None)
        return found, time.monotonic() - began

    def make(self, rng: np.random.Generator) -> bytes:
        """What is killed, and when: of saves in milliseconds, otherwise as shares of the whole, one for each kill."""
        what = str(rng.choice(["save", "tune", "reproduce"], p=[0.5, 0.25, 0.25]))
        if what == "save":
            return json.dumps({"what": what, "ms": [round(float(rng.uniform(0, 30)), 2)]}).encode()
        shares = rng.uniform(0, 1.05, int(rng.integers(1, 4))).round(3)
        return json.dumps({"what": what, "at": shares.tolist()}).encode()

    def check(self, case: bytes, folder: Path) -> None:
        """Kill, look at what is there, go on, and compare the end with that of an undisturbed run."""
        drawn = json.loads(case)
        if drawn["what"] == "save":
            self._check_save(drawn["ms"], folder / "model.csrr")
        elif drawn["what"] == "tune":
            self._check_tune(drawn["at"], folder / "search.journal")
        else:
            self._check_reproduce(drawn["at"], folder / "results")

    def _check_save(self, delays: list[float], path: Path) -> None:
        self.models[0].save(path)

        def save_for_ever(_: Callable[[], object]) -> None:
            while True:
                for model in self.models:
                    model.save(path)

        for delay in delays:
            child = Forked(save_for_ever)
            time.sleep(delay / 1000)
            child.kill()
            kind = type(csrr.load(path))
            if kind not in map(type, self.models):
                raise Finding(f"a {kind.__name__} was loaded, which nobody saved")

    def _check_tune(self, shares: list[float], path: Path) -> None:
        expected, seconds = self.searched
        before = 0
        for share in shares:
            child = Forked(lambda tell: search(self.log, path, tell))
            time.sleep(share * seconds)
            before = max(before, child.kill())
            if path.exists():
                kept = Forked(lambda _: search(self.log, path, lambda: None, trials=1)).finish()
                if kept[0] != "done":
                    raise Finding(f"the search cannot be taken up again: {kept}")
                if len(kept[1]) < before:
                    raise Finding(f"{before} trials were done, {len(kept[1])} are left")
                if kept[1] != expected[: len(kept[1])]:
                    raise Finding("a trial is not what it was")
        found = Forked(lambda _: search(self.log, path, lambda: None)).finish()
        if found != ("done", expected):
            raise Finding(f"the search ends elsewhere after kills: {found}")

    def _check_reproduce(self, shares: list[float], folder: Path) -> None:
        from csrr_paper.results import ResultStore

        expected, seconds = self.reproduced
        rows = 0
        for share in shares:
            child = Forked(lambda tell: reproduce(folder, tell))
            time.sleep(share * seconds)
            child.kill()
            store = ResultStore(folder)
            kept = store.read_all()
            for result in kept:
                store.read_lists(result.task)
            if len(kept) < rows:
                raise Finding(f"{rows} results were there, {len(kept)} are left")
            rows = len(kept)
        found = Forked(lambda _: reproduce(folder, lambda: None)).finish()
        if found != ("done", expected):
            raise Finding(f"the reproduction ends elsewhere after kills: {found}")


def search(log: csrr.Log, storage: Path | None, tell: Callable[[], object], trials: int = 6) -> list[Any]:
    """Return what a small search tried and found; `tell` is called after every trial."""
    found = csrr.tune(
        csrr.ItemKNN,
        log,
        space={"neighbors": (2, 50), "shrink": (0.0, 100.0)},
        trials=trials,
        storage=storage,
        callback=lambda _: tell(),
    )
    return [(each.state, each.value, each.params) for each in found.trials]


def reproduce(folder: Path, tell: Callable[[], object]) -> dict[str, Any]:
    """Return the means of a small reproduction by the names of their results."""
    from csrr_paper.reproduce import Reproduction, plan
    from csrr_paper.results import ResultStore

    asked = plan(["comparison"], data=["ml-100k"], systems=["PopRank", "WRMF"], splits=2, quick=True)
    with set_environment({"CSRR_DATA_DIR": str(world())}), ResultStore.open(folder) as store:
        run = Reproduction(store, asked)
        if failed := run.run(lambda _: tell()):
            raise RuntimeError(f"{failed[0][1]}")
        return {result.task.key: result.means for result in run.list_results()}
