"""Progress of a run, in one line on stderr."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from csrr._base.text import describe_size, make_printable

SECONDS_BETWEEN = 0.05
SECONDS_BETWEEN_LINES = 30.0
"""Where stderr is no terminal, such as a file, how often a long run says how far it is."""

_BAR_WIDTH = 24

Callback = Callable[[Any], object]


class Line:
    """One line on stderr that is written over and over; where stderr is no terminal, a new one now and then.

    With rich installed, a bar stands behind the text, in color unless NO_COLOR is set: `aim` is the gap at which it is
    full. Nothing but the line is touched: whatever ends the process leaves the terminal as it was.
    """

    def __init__(self, aim: float | None = None, every: float | None = None) -> None:
        """`every`: the seconds between lines where stderr is no terminal."""
        self.aim = aim
        self.live: bool = sys.stderr.isatty()
        self.pause: float = SECONDS_BETWEEN if self.live else SECONDS_BETWEEN_LINES if every is None else every
        self.due: float = 0.0 if self.live else time.monotonic() + self.pause
        self._draws = self.live and find_spec("rich") is not None

    def show(self, text: str, *, now: bool = True, done: float | None = None) -> None:
        """Write `text` over the line, and how much is `done`, of 1; without `now`, at most every `SECONDS_BETWEEN`."""
        if time.monotonic() < self.due and not (now and self.live):
            return
        self.due = time.monotonic() + self.pause
        text = make_printable(text)
        if self.live:
            bar = _draw_bar(done) if self._draws and done is not None else ""
            width = shutil.get_terminal_size().columns - 1 - (_BAR_WIDTH + 2 if bar else 0)
            sys.stderr.write(f"\r{text[: max(width, 0)]}{bar}\x1b[K")
        else:
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self.live:
            self.show("")

    def step(self, step: Any) -> None:
        """Show a step of a fit: its gap or, where only the end of the fit tells it, the objective; else all numbers."""
        if not hasattr(step, "gap"):
            told = {name: value for name, value in vars(step).items() if isinstance(value, int | float | str)}
            texts = [value if isinstance(value, str) else f"{name} {value:.4g}" for name, value in told.items()]
            self.show("  ".join(texts), now=False)
            return
        goal = f"objective {step.objective:.6g}" if math.isnan(step.gap) else f"gap {step.gap:.1e}"
        text = f"iteration {step.iteration}  {goal}  rank {step.rank}  {step.seconds:.1f} s"
        self.show(text, now=step.iteration <= 1, done=self._measure_done(step.gap))

    def _measure_done(self, gap: float) -> float | None:
        """Return how far a gap is on its way from 1 to the aim, by its logarithm; None where that is not known."""
        if self.aim is None or not 0 < self.aim < 1 or not gap > 0:
            return None
        return min(max(math.log(gap) / math.log(self.aim), 0.0), 1.0)

    def show_bytes(self, done: int, total: int | None) -> None:
        """Show how much has been fetched."""
        text = describe_size(done) + (f" of {describe_size(total)}" if total else "")
        self.show(text, now=done == total, done=done / total if total else None)


def _draw_bar(done: float) -> str:
    """Return a bar as rich draws it, with the terminal's own ways to say colors."""
    from rich.console import Console
    from rich.progress_bar import ProgressBar

    console = Console(file=sys.stderr)
    with console.capture() as drawn:
        console.print(ProgressBar(total=1.0, completed=done, width=_BAR_WIDTH), end="")
    return "  " + drawn.get().strip("\r\n")


@contextmanager
def show_live_line(aim: float | None = None, every: float | None = None) -> Iterator[Line]:
    """Give a `Line`, and clear it at the end, whatever the end is."""
    line = Line(aim, every)
    try:
        yield line
    finally:
        line.clear()
