"""What only a real process shows: what it imports, terminals, signals and pipes."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest

import csrr
from tests.cli.conftest import COMMAND, in_child, on_one_core, write_log

PATIENCE = 45


def test_version():
    assert in_child("--version").stdout == f"csrr {csrr.__version__}\n"


def test_without_a_command_it_helps():
    result = in_child()
    assert (result.returncode, result.stdout.startswith("Usage: csrr")) == (0, True)


@pytest.mark.parametrize("args", [["--version"], ["--help"], ["fit", "--help"], ["completion", "bash"]])
def test_it_imports_nothing_of_weight_to_answer_at_once(args):
    code = (
        "import sys\nfrom csrr.cli import app\n"
        f"try: app.main({args!r})\n"
        "finally: print(sorted({'numpy', 'scipy', 'numba', 'pyarrow'} & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stderr == "[]\n"


@pytest.mark.parametrize(
    ("shell", "mark"),
    [("bash", "complete -o nosort"), ("zsh", "#compdef csrr"), ("fish", "complete --no-files")],
)
def test_completion_prints_the_script(shell, mark):
    result = in_child("completion", shell)
    assert (result.returncode, result.stderr) == (0, "")
    assert mark in result.stdout
    assert "_CSRR_COMPLETE" in result.stdout


def test_the_shell_gets_completions():
    asked = {"_CSRR_COMPLETE": "bash_complete", "COMP_WORDS": "csrr rec", "COMP_CWORD": "1"}
    assert in_child(env=os.environ | asked).stdout == "plain,recommend\n"


def test_a_closed_pipe_is_quiet(model_file):
    with subprocess.Popen(
        [*COMMAND, "recommend", str(model_file), "--all", "--json", "-k", "60"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=on_one_core,
    ) as command:
        command.stdout.close()
        assert command.stderr.read() == b""
        assert command.wait(PATIENCE) == 141


class Terminal:
    """A command whose stderr is a terminal, and what it has shown there."""

    def __init__(self, *args):
        self.side, other = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=other,
            text=True,
            preexec_fn=on_one_core,
        )
        os.close(other)
        self.shown = ""

    def read_until(self, text):
        """Read until `text` was shown; without one, to the end."""
        deadline = time.monotonic() + PATIENCE
        while text is None or text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if not select.select([self.side], [], [], 1)[0]:
                continue
            try:
                part = os.read(self.side, 4096).decode()
            except OSError:  # the other side is closed
                part = ""
            if not part:
                assert text is None, self.shown
                return
            self.shown += part

    def close(self):
        """Wait for the end; return the exit code and what came on stdout."""
        out, _ = self.process.communicate(timeout=PATIENCE)
        os.close(self.side)
        return self.process.returncode, out

    @property
    def left(self):
        """What stays on the terminal once lines have been written over."""
        lines = [line.rpartition("\r")[2] for line in self.shown.replace("\r\n", "\n").split("\n")]
        lines = [line.replace("\x1b[K", "") for line in lines]
        return lines[:-1] if lines[-1] == "" else lines


def test_a_terminal_sees_progress_on_one_line_that_goes_away(log_file, tmp_path):
    terminal = Terminal("fit", log_file, "-o", tmp_path / "m.csrr")
    terminal.read_until(None)
    code, out = terminal.close()
    assert code == 0
    assert re.search(r"\riteration \d+  gap \S+  rank \d+  \S+ s", terminal.shown)
    assert "reading" in terminal.shown
    assert terminal.left == []
    assert out.splitlines()[-1] == str(csrr.load(tmp_path / "m.csrr").certificate_)


@pytest.fixture(scope="module")
def slow_log(tmp_path_factory):
    """Return a log that, with SLOW, takes longer to fit than anyone waits."""
    log = csrr.synthetic(1500, 1200, events_per_user=40).log
    return write_log(tmp_path_factory.mktemp("slow") / "log.csv", log)


SLOW = ("--cost-ratio", 9000, "--tol", "1e-5", "--reg-low-rank", "0.001", "--max-iter", 100000)


@pytest.mark.parametrize("old", [None, b"CSRRMODL an old model"])
def test_ctrl_c_during_a_fit_writes_nothing(slow_log, tmp_path, old):
    path = tmp_path / "m.csrr"
    if old is not None:
        path.write_bytes(old)
    terminal = Terminal("fit", slow_log, "-o", path, *SLOW)
    terminal.read_until("iteration 1 ")
    terminal.process.send_signal(signal.SIGINT)
    terminal.read_until(None)
    code, out = terminal.close()
    assert (code, out) == (130, "")
    assert terminal.left == ["interrupted: nothing was written"]
    assert list(tmp_path.iterdir()) == ([] if old is None else [path])
    assert old is None or path.read_bytes() == old
