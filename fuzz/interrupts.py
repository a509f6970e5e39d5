"""Ctrl-C and SIGTERM at random moments of commands, from their imports to their end."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np

import csrr
from fuzz.campaign import Finding
from fuzz.processes import COMMANDS, find_parts, measure, start, world

_SOON = 10.0
"""Seconds in which a command has to end, on a busy machine."""


class Interrupts:
    """A command gets a signal: it ends soon, with one line and the right exit code, and leaves nothing half-done."""

    name = "interrupts"
    about = "Ctrl-C and SIGTERM at random moments of commands: exit code 130 or 143, one line, nothing left, soon"
    patience = 120.0

    def prepare(self) -> None:
        """Write the files that commands read."""
        world()

    def make(self, rng: np.random.Generator) -> bytes:
        """A command, a signal, and when, as a share of the time that the command takes undisturbed."""
        drawn = {
            "command": str(rng.choice(list(COMMANDS))),
            "signal": str(rng.choice(["SIGINT", "SIGTERM"], p=[0.8, 0.2])),
            "at": round(float(rng.uniform(0, 1.05)), 4),
            "twice": bool(rng.random() < 0.2),
        }
        return json.dumps(drawn).encode()

    def check(self, case: bytes, folder: Path) -> None:
        """Start the command, send the signal, and look at how it ends."""
        drawn = json.loads(case)
        number = getattr(signal, drawn["signal"])
        delay = drawn["at"] * measure(drawn["command"])
        process = start(drawn["command"], folder)
        try:
            out, errors = process.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            if drawn["twice"]:
                time.sleep(0.001)
                process.send_signal(number)
            try:
                out, errors = process.communicate(timeout=_SOON)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise Finding(f"still running {_SOON:.0f} seconds after {drawn['signal']}") from None
        finally:
            process.kill()
            process.wait()
        _judge(process.returncode, out, errors, number, folder)


def _judge(code: int, out: str, errors: str, number: int, folder: Path) -> None:
    if parts := find_parts(folder):
        raise Finding(f"left behind: {', '.join(parts)}")
    model = folder / "out.csrr"
    if model.exists():
        csrr.load(model)
    if code == 0:
        return
    if code == -number and "in main" not in errors:
        # Known and not mended: until `main` runs, for about a hundredth of a second, Python's own handler is in force,
        # which prints a traceback and ends by the signal.
        return
    if code != 128 + number:
        raise Finding(f"exit code {code}, not {128 + number}: {errors.strip()[-300:]}")
    *before, last = errors.splitlines() or [""]
    # What columns were taken for is told before, and reproduce says what it is about to do.
    expected = all(": user '" in line or line.endswith("to go") for line in before) and len(before) <= 1
    if not expected or not errors.endswith("\n") or not last.startswith(("interrupted: ", "stopped: ")):
        raise Finding(f"not one line: {errors!r}")
    if "nothing was written" in errors and model.exists():
        raise Finding(f"{errors.strip()}, but there is a model")
