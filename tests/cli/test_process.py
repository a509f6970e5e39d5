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
from tests.cli.conftest import COMMAND, PROGRAM, TOLD_OF_LOG, in_child, on_one_core, write_log

PATIENCE = 45


def test_version():
    assert in_child("--version").stdout == f"csrr {csrr.__version__}\n"


def test_without_a_command_it_helps():
    result = in_child()
    assert (result.returncode, result.stdout.startswith("csrr recommends ")) == (0, True)


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


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("csrr rec", ["plain,recommend"]),
        ("csrr data f", ["plain,fetch"]),
        ("csrr fit cli", ["file,cli"]),
        ("csrr recommend mod", ["file,mod"]),
        ("csrr recommend model.csrr --all", ["plain,--all-users", "plain,--all"]),
        ("csrr fit clicks.csv --model c", ["plain,csrr", "plain,csrr-e"]),
        ("csrr export m --to f", ["plain,faiss"]),
    ],
)
def test_the_shell_gets_completions(words, found):
    place = str(len(words.split()) - 1)
    asked = {"_CSRR_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": place}
    assert in_child(env=os.environ | asked).stdout.splitlines() == found


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
    assert terminal.left == [TOLD_OF_LOG]
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
    assert terminal.left == [TOLD_OF_LOG, "interrupted: nothing was written"]
    assert list(tmp_path.iterdir()) == ([] if old is None else [path])
    assert old is None or path.read_bytes() == old


STUCK = """
import time
import csrr.cli.cmd_start
def sleep_on(self):
    with open("began", "w"): pass
    while True:
        try:
            while True: time.sleep(0.01)
        except BaseException: pass  # as a destructor, or a callback from C, would
import csrr.models.popularity
csrr.models.popularity.PopRank.fit = lambda self, data: sleep_on(self)
"""


@pytest.mark.parametrize(("number", "times"), [("SIGINT", 1), ("SIGINT", 2), ("SIGTERM", 1), ("SIGHUP", 1)])
def test_a_signal_ends_what_swallows_it(log_file, tmp_path, number, times):
    """One signal that is lost ends the process all the same, a second one at once."""
    number = getattr(signal, number)
    with subprocess.Popen(
        [sys.executable, "-c", STUCK + PROGRAM, "fit", str(log_file), "-o", "m.csrr", "--model", "poprank"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=on_one_core,
    ) as command:
        try:
            deadline = time.monotonic() + PATIENCE
            while not (tmp_path / "began").exists():
                assert time.monotonic() < deadline
                time.sleep(0.05)
            for _ in range(times):
                command.send_signal(number)
            out, err = command.communicate(timeout=PATIENCE)
        finally:
            command.kill()
    columns, *said = err.splitlines()
    assert columns.startswith("csrr: log.csv: user 'user', item 'item'")
    assert (command.returncode, out, said) == (128 + number, "", ["interrupted: nothing was written"])


def test_a_signal_that_the_process_was_started_to_ignore_is_ignored():
    result = in_child("--version", before="import signal; signal.signal(signal.SIGINT, signal.SIG_IGN);")
    assert result.returncode == 0


def test_ctrl_c_while_it_imports_is_one_line(log_file, tmp_path):
    """The signal comes when the first thing of weight is imported, and again as another error."""
    before = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    result = in_child("fit", log_file, "-o", tmp_path / "m.csrr", before=before)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "interrupted: nothing was written\n")


def test_the_entry_of_the_command_imports_next_to_nothing():
    code = (
        "import sys; before = set(sys.modules); import csrr.cli, csrr.cli.interrupts; print(*set(sys.modules) - before)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert found.returncode == 0
    assert not {"click", "typing", "numpy", "logging", "threading"} & set(found.stdout.split())


def test_a_model_that_was_written_is_said_to_be(log_file, tmp_path):
    before = "import csrr.cli.cmd_fit as c\ndef fail(_): raise KeyboardInterrupt\nc.describe_size = fail\n"
    result = in_child("fit", log_file, "-o", tmp_path / "m.csrr", before=before)
    assert (result.returncode, result.stderr) == (130, f"interrupted: {tmp_path / 'm.csrr'} written\n")
    csrr.load(tmp_path / "m.csrr")


def test_a_second_signal_while_the_last_line_is_said_does_not_swallow_it(log_file, tmp_path):
    before = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'csrr.cli.cmd_fit':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "import click\n"
        "say = click.echo\n"
        "def echo(*args, **options):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    say(*args, **options)\n"
        "click.echo = echo\n"
    )
    result = in_child("fit", log_file, "-o", tmp_path / "m.csrr", before=before)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "interrupted: nothing was written\n")


def test_a_signal_while_the_last_line_is_being_made_does_not_take_it_away():
    program = (
        "import os, signal\n"
        "from csrr.cli import interrupts\n"
        "def words():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return 'interrupted: as told'\n"
        "interrupts.catch_signals()\n"
        "interrupts.set_last_message(words)\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "except interrupts.Stopped:\n"
        "    interrupts.end_process()\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (130, "interrupted: as told\n")


def test_an_end_at_once_removes_the_parts_that_csrr_writes_and_no_others(tmp_path):
    """Whoever calls csrr may send its output to a file that is called a part, too."""
    program = (
        "from csrr.cli import interrupts\n"
        "from csrr._base.files import atomic_write\n"
        "interrupts.catch_signals()\n"
        "with atomic_write('m.csrr'):\n"
        "    interrupts.end_process()\n"
    )
    with (tmp_path / "lists.csv.part").open("w") as file:
        result = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, stdout=file, timeout=60)
    assert result.returncode == 130
    assert os.listdir(tmp_path) == ["lists.csv.part"]


def test_the_package_is_a_program_too():
    result = subprocess.run([sys.executable, "-m", "csrr", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"csrr {csrr.__version__}\n"
