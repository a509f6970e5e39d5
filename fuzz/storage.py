"""Disks that are full, folders that may not be written to, and two processes at one file."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import csrr
from fuzz.campaign import Finding
from fuzz.kills import Kills, reproduce, search
from fuzz.processes import Forked, find_parts

_NOBODY = 65534
_SAID = {"OSError", "PermissionError", "DataError", "ResultsError", "FileNotFoundError"}
"""What may be raised where nothing can be written."""


class Storage:
    """Where a file cannot be written, that is said, and what was there stays."""

    name = "storage"
    about = (
        "full disks, read-only folders, two processes at one file: an error that says so, nothing lost, no parts left"
    )
    patience = 120.0

    def prepare(self) -> None:
        """Do all of it once undisturbed."""
        self.done = Kills()
        self.done.prepare()

    def make(self, rng: np.random.Generator) -> bytes:
        """What is done, and what stands in its way; a full disk has room for so many bytes of a file."""
        drawn: dict[str, Any] = {
            "what": str(rng.choice(["save", "tune", "reproduce"], p=[0.6, 0.2, 0.2])),
            "trouble": str(rng.choice(["full", "read-only", "two"], p=[0.6, 0.1, 0.3])),
        }
        if drawn["trouble"] == "full":
            drawn["room"] = int(10 ** rng.uniform(0, 5))
        return json.dumps(drawn).encode()

    def check(self, case: bytes, folder: Path) -> None:
        """Do it, and look at what is there afterwards."""
        drawn = json.loads(case)
        place = folder / "place"
        place.mkdir()
        target = place / "it"
        work = self._find_work(drawn["what"], target)
        if drawn["what"] == "save":
            self.done.models[0].save(target)
        if drawn["trouble"] == "two":
            self._check_two(work, drawn["what"], target)
            return
        if drawn["trouble"] == "full":
            answer = Forked(lambda tell: _limited(drawn["room"], lambda: work(tell))).finish()
        else:
            place.chmod(0o555)
            folder.chmod(0o755)
            answer = Forked(lambda tell: _unprivileged(lambda: work(tell))).finish()
            place.chmod(0o755)
        if answer[0] != "done" and answer[0] not in _SAID:
            raise Finding(f"{drawn['trouble']}: {answer}")
        if parts := find_parts(folder):
            raise Finding(f"left behind: {', '.join(parts)}")
        if drawn["what"] == "save":
            csrr.load(target)
        self._check_end(drawn["what"], Forked(work).finish())

    def _find_work(self, what: str, target: Path) -> Callable[[Callable[[], object]], Any]:
        if what == "save":
            return lambda tell: [model.save(target) for model in self.done.models for _ in range(3)] and None
        if what == "tune":
            return lambda tell: search(self.done.log, target, tell)
        return lambda tell: reproduce(target, tell)

    def _check_two(self, work: Callable[[Callable[[], object]], Any], what: str, target: Path) -> None:
        """Both at once: saves both succeed, of the others one may be refused, and the end is that of one alone."""
        both = [Forked(work), Forked(work)]
        answers = [each.finish() for each in both]
        refused = [each for each in answers if each[0] != "done"]
        if what == "save":
            if refused:
                raise Finding(f"of two saves one failed: {refused[0]}")
            csrr.load(target)
        if len(refused) == 2 or any(name not in ("DataError", "ResultsError") for name, _ in refused):
            raise Finding(f"of two processes at once: {refused}")
        if parts := find_parts(target.parent):
            raise Finding(f"left behind: {', '.join(parts)}")
        self._check_end(what, Forked(work).finish())

    def _check_end(self, what: str, answer: tuple[str, Any]) -> None:
        """Once nothing is in the way it comes to the same end as ever."""
        ends = {
            "save": lambda: None,
            "tune": lambda: self.done.searched[0],
            "reproduce": lambda: self.done.reproduced[0],
        }
        if answer != ("done", ends[what]()):
            raise Finding(f"afterwards, {what} ends with {answer}")


def _limited(room: int, work: Callable[[], Any]) -> Any:
    """Work where no file grows beyond `room` bytes: to a program, that is a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    return work()


def _unprivileged(work: Callable[[], Any]) -> Any:
    """Work as nobody where this is root, whom no mode keeps from writing."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setuid(_NOBODY)
    return work()
