"""Ctrl-C, SIGTERM and a closed terminal: soon, one line, 128 + the signal as exit code, and nothing half-written.

The first signal raises `Stopped` in the main thread, so that files and locks are cleaned up on the way out. A second
one ends the process at once, and so does the watch where the first has led nowhere for a while: compiled code may run
on for minutes, and an exception that comes in a destructor or a callback from C is lost.

This module imports little: it is in force before anything of weight is imported.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

NOTHING_WRITTEN = "interrupted: nothing was written"
"""The message of a command that has set none. Files are written atomically, so no part of one is left."""

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_GRACE = 2.0
"""Seconds that cleaning up may take."""


class Stopped(BaseException):
    """A signal asks this process to end. It is no KeyboardInterrupt, of which click makes an empty line."""


_caught: list[int] = []
_messages: list[Callable[[], str]] = []
_last_word = _thread.allocate_lock()


def catch_signals() -> None:
    """Catch the signals that end a process from now on, but for those that it was started to ignore."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    sys.unraisablehook = _end_if_signal
    _thread.start_new_thread(_watch, (reader,))


def hand_over() -> None:
    """Leave the signals to a command that catches them itself."""
    signal.set_wakeup_fd(-1)


def is_caught() -> bool:
    """Return whether a signal has come."""
    return bool(_caught)


def exit_code() -> int:
    """Return the exit code of a process that was interrupted: 130 for Ctrl-C."""
    return 128 + (_caught[0] if _caught else signal.SIGINT)


def set_last_message(message: Callable[[], str]) -> None:
    """Print `message()` if the process is stopped from now on; `clear_messages` removes it."""
    _messages.append(message)


def clear_messages(*messages: Callable[[], str]) -> None:
    """Remove messages that were set; without arguments, all of them."""
    for each in messages or [*_messages]:
        if each in _messages:
            _messages.remove(each)


def find_message() -> str:
    """Return the message for a process that is stopped now."""
    return _messages[-1]() if _messages else NOTHING_WRITTEN


def take_last_word() -> None:
    """Return if the main thread may print the last line; where the watch prints it, wait for the end of the process."""
    if _caught:
        _ignore_signals()
        _last_word.acquire()


def end_process() -> NoReturn:
    """End the process now: print the last message, and remove files that are not finished."""
    with suppress(ValueError):  # not the main thread, which alone gets signals
        # One that came between taking the last word and saying it would wait for itself.
        _ignore_signals()
    if _last_word.acquire(timeout=_GRACE):  # or another thread is saying it, and cannot get it out
        try:
            message = " ".join(find_message().split())
        except BaseException:
            message = NOTHING_WRITTEN
        _remove_parts()
        _say(message)
    os._exit(exit_code())


def exit_process(code: Any) -> NoReturn:
    """End the process without its usual clean-up, which can abort it while threads of libraries are ending.

    Arrow's readers do that now and then (apache/arrow#39862, "terminate called without an active exception").
    """
    _ignore_signals()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = 141
    os._exit(code if isinstance(code, int) else int(code is not None))


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _stop(number: int, _frame: object) -> None:
    if len(_caught) > 0:
        end_process()
    _caught.append(number)
    raise Stopped


def _watch(reader: int) -> None:
    """End the process at the second signal, or a while after the first; in a thread of its own."""
    first = os.read(reader, 1)[0]
    select.select([reader], [], [], _GRACE)
    if not _caught:
        # The main thread has not come out of compiled code since.
        _caught.append(first)
    end_process()


def _end_if_signal(lost: Any) -> None:
    """End the process if an exception that was lost, as in a destructor, came from a signal."""
    if _caught:
        end_process()
    sys.__unraisablehook__(lost)


def _say(message: str) -> None:
    # Not by sys.stderr: the main thread may hold its lock.
    clear = "\r\x1b[K" if os.isatty(2) else ""
    _write(2, f"{clear}{message}\n")
    if "--json" in sys.argv:
        import json

        _write(1, json.dumps({"error": message}) + "\n")


def _write(stream: int, text: str) -> None:
    with suppress(OSError):  # the stream is closed
        os.write(stream, text.encode("utf-8", "backslashreplace"))


def _remove_parts() -> None:
    """Remove files that are being written, by the names that `files.py` has given them."""
    if (files := sys.modules.get("csrr._base.files")) is not None:
        for part in list(getattr(files, "PARTS", ())):
            with suppress(OSError):
                os.unlink(part)
