"""How far a run is: one line on a terminal, lines now and then elsewhere, nothing left behind."""

import io
import re
from types import SimpleNamespace

import pytest

import csrr
from csrr._base import progress
from csrr._base.progress import Line, show_live_line


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    own = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=own))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return own


def step(gap, iteration=1):
    return SimpleNamespace(iteration=iteration, objective=7.5, gap=gap, rank=12, seconds=1.25)


def drawn(text):
    """Return what is seen of a line: without its escapes."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).strip("\r")


def test_a_step_has_a_bar_that_is_full_at_the_aim(terminal):
    lengths = []
    for gap in (1.0, 0.1, 0.01, 1e-5):
        terminal.truncate(0)
        terminal.seek(0)
        Line(aim=0.01).step(step(gap))
        text = terminal.getvalue()
        assert drawn(text).startswith(f"iteration 1  gap {gap:.1e}  rank 12  1.2 s  ")
        lengths.append(re.sub(r"\x1b\[38;5;237m.*", "", text).count("\N{BOX DRAWINGS HEAVY HORIZONTAL}"))
    assert lengths[0] < lengths[1] < lengths[2] == lengths[3] == 24


def test_colors_go_with_the_terminal_and_not_against_the_user(terminal, monkeypatch):
    Line(aim=0.01).step(step(0.1))
    assert "\x1b[38;5;" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.truncate(0)
    Line(aim=0.01).step(step(0.1))
    assert "\x1b[38;5;" not in terminal.getvalue()
    assert "\N{BOX DRAWINGS HEAVY HORIZONTAL}" in terminal.getvalue()


def test_without_rich_there_is_the_text_alone(terminal, monkeypatch):
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    Line(aim=0.01).step(step(0.1))
    assert terminal.getvalue() == "\riteration 1  gap 1.0e-01  rank 12  1.2 s\x1b[K"


@pytest.mark.parametrize(("aim", "gap"), [(None, 0.1), (0.01, float("nan")), (0.01, -1e-9), (1.0, 0.5)])
def test_where_the_end_is_not_known_there_is_no_bar(terminal, aim, gap):
    Line(aim).step(step(gap))
    assert "\N{BOX DRAWINGS HEAVY HORIZONTAL}" not in terminal.getvalue()


def test_a_line_never_wraps_and_is_gone_at_the_end(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    with show_live_line(0.01) as line:
        line.show("x" * 200, done=0.5)
        assert len(drawn(terminal.getvalue())) <= 39
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert "\n" not in terminal.getvalue()


def test_into_a_file_goes_a_line_now_and_then(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=file))
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with show_live_line(0.01) as line:
        for second in range(100):
            now[0] = float(second)
            line.step(step(0.1, iteration=second))
    lines = file.getvalue().splitlines()
    assert [each.split()[1] for each in lines] == ["30", "60", "90"]
    assert "\x1b" not in file.getvalue()


@pytest.mark.parametrize("kind", [csrr.CSRR, csrr.CSRRe, csrr.WRMF, csrr.BPRMF])
def test_a_verbose_fit_shows_its_steps_and_still_tells_them(kind, terminal):
    told = []
    model = kind(threads=1).fit(csrr.synthetic(60, 40, events_per_user=8).log, callback=told.append, verbose=True)
    assert told
    assert ("number 1" if kind is csrr.BPRMF else "iteration ") in drawn(terminal.getvalue())
    assert terminal.getvalue().endswith("\r\x1b[K")
    before = len(terminal.getvalue())
    model.fit(csrr.synthetic(60, 40, events_per_user=8).log)
    assert len(terminal.getvalue()) == before
