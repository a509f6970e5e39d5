"""What attacks on processes share: a small world of files, commands in processes of their own, work in forked ones."""

from __future__ import annotations

import atexit
import os
import pickle
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import csrr
from fuzz.campaign import Finding

PROGRAM = "import os; os.write(1, b'\\n'); from csrr.cli import main; main()"
"""The command line, which first says that the interpreter is up: what comes before that is Python's own."""

COMMANDS = {
    "fit": ["fit", "{log}", "-o", "out.csrr"],
    "update": ["update", "{model}", "{log}", "-o", "out.csrr"],
    "tune": ["tune", "{log}", "--trials", "8", "--storage", "out.journal", "-o", "out.json"],
    "evaluate": ["evaluate", "{log}", "--model", "wrmf"],
    "recommend": ["recommend", "{model}", "--all", "--json"],
    "reproduce": [
        *("reproduce", "--quick", "--data", "ml-100k", "--table", "comparison", "--splits", "1", "--results", "out"),
        *("--system", "WRMF", "--system", "PopRank"),
    ],
}


@cache
def world() -> Path:
    """Return a folder with a log, a model, and a data set under the name of MovieLens-100K; removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="csrr-world-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    log = csrr.synthetic(200, 60, rank=4, events_per_user=14).log
    pairs = list(zip(log.user_rows.tolist(), log.item_rows.tolist(), strict=True))
    (folder / "log.csv").write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in pairs))
    csrr.PopRank().fit(log).save(folder / "model.csrr")
    ratings = np.random.default_rng(0).integers(1, 6, len(pairs))
    rows = (f"{u + 1}\t{i + 1}\t{r}\t{88 * 10**7}\n" for (u, i), r in zip(pairs, ratings, strict=True))
    with zipfile.ZipFile(folder / "ml-100k.zip", "w") as file:
        file.writestr("ml-100k/u.data", "".join(rows))
        file.writestr("ml-100k/u.item", "".join(f"{i + 1}|Film {i + 1}|01-Jan-1990||-|0\n" for i in range(60)))
    return folder


def start(command: str, folder: Path) -> subprocess.Popen[str]:
    """Start a command in a folder and return it once its program has begun."""
    places = {"log": world() / "log.csv", "model": world() / "model.csrr"}
    words = [word.format(**places) for word in COMMANDS[command]]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder,
        env=os.environ | {"CSRR_DATA_DIR": str(world())},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # The attacks themselves ignore Ctrl-C, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


@cache
def measure(command: str) -> float:
    """Return the seconds that a command takes undisturbed, from the beginning of its program."""
    with tempfile.TemporaryDirectory() as folder:
        process = start(command, Path(folder))
        began = time.monotonic()
        _, errors = process.communicate(timeout=300)
        if process.returncode:
            raise RuntimeError(f"{command} fails undisturbed: {errors}")
        return time.monotonic() - began


class Forked:
    """Work in a forked child, which sees all that was prepared and starts at once."""

    def __init__(self, work: Callable[[Callable[[], object]], Any]) -> None:
        """`work` is given a function that it calls at every event worth counting."""
        self._results, results = os.pipe()
        self._events, events = os.pipe()
        self.n_events = 0
        self.pid = os.fork()
        if self.pid:
            os.close(results)
            os.close(events)
            return
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            answer = ("done", work(lambda: os.write(events, b".")))
        except BaseException as error:
            answer = (type(error).__name__, str(error))
        with os.fdopen(results, "wb") as file:
            pickle.dump(answer, file)
        os._exit(0)

    def wait_for_event(self, seconds: float) -> None:
        """Wait for an event, at most so long."""
        if select.select([self._events], [], [], seconds)[0]:
            self.n_events += len(os.read(self._events, 1000))

    def kill(self) -> int:
        """Kill it at once; return the number of events that it had come to."""
        os.kill(self.pid, signal.SIGKILL)
        self._reap()
        while found := os.read(self._events, 1000):
            self.n_events += len(found)
        self._close()
        return self.n_events

    def finish(self, seconds: float = 60) -> tuple[str, Any]:
        """Return "done" and what the work returned, or the name and the words of what it raised."""
        if not select.select([self._results], [], [], seconds)[0]:
            self.kill()
            raise Finding(f"a process gave no answer in {seconds:.0f} seconds")
        with os.fdopen(os.dup(self._results), "rb") as file:
            data = file.read()
        self._reap()
        self._close()
        if not data:
            raise Finding("a process crashed")
        answer: tuple[str, Any] = pickle.loads(data)
        return answer

    def _reap(self) -> None:
        os.waitpid(self.pid, 0)

    def _close(self) -> None:
        os.close(self._results)
        os.close(self._events)


def find_parts(folder: Path) -> list[str]:
    """Return the parts of files that were left in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.part"))
