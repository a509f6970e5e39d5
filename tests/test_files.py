"""Files are whole or as they were, and a lock ends with the process that holds it."""

import os
import signal
import subprocess
import sys

import pytest

from csrr.files import atomic_write, try_lock, write_text

HOLDER = """
import sys, time
from csrr.files import try_lock

with try_lock(sys.argv[1]) as is_free:
    print(is_free, flush=True)
    if is_free:
        time.sleep(60)
"""


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    return path


def names(path):
    return [each.name for each in path.parent.iterdir()]


def test_a_whole_file_takes_the_place_of_the_old_one_at_the_end(target):
    with atomic_write(target) as file:
        file.write(b"new")
        file.flush()
        assert target.read_text() == "old"
        assert len(names(target)) == 2
    assert target.read_text() == "new"
    assert names(target) == ["file.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there(target, error):
    def half():
        with atomic_write(target) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        half()
    assert target.read_text() == "old"
    assert names(target) == ["file.txt"]


def test_an_error_leaves_nothing_where_nothing_was(tmp_path):
    with pytest.raises(ValueError, match="no"), atomic_write(tmp_path / "file.txt"):
        raise ValueError("no")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_are_those_of_any_new_file(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "file.txt", "new")
        assert (tmp_path / "file.txt").stat().st_mode & 0o777 == mode
        assert os.umask(mask) == mask
    finally:
        os.umask(before)


def test_a_text_is_written_as_utf_8_with_its_own_line_ends(target):
    write_text(target, "\u03bb\n")
    assert target.read_bytes() == b"\xce\xbb\n"


def hold(path):
    """Return a process that has tried to hold a lock, and whether it was free."""
    child = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    return child, child.stdout.readline().strip() == "True"


def test_one_process_holds_a_lock_until_it_is_killed(tmp_path):
    path = tmp_path / "lock"
    first, is_free = hold(path)
    try:
        assert is_free
        second, is_free = hold(path)
        with second:
            assert not is_free
        with try_lock(path) as is_free:
            assert not is_free
    finally:
        os.kill(first.pid, signal.SIGKILL)
        with first:
            assert first.wait(10) == -signal.SIGKILL
    with try_lock(path) as is_free:
        assert is_free


def test_a_lock_is_free_after_its_block_and_after_an_error(tmp_path):
    path = tmp_path / "lock"
    with pytest.raises(ValueError, match="no"), try_lock(path):
        raise ValueError("no")
    for _ in range(2):
        with try_lock(path) as is_free:
            assert is_free
    assert path.read_bytes() == b""


def test_without_locks_of_posix_the_message_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(OSError, match=r"a lock on .*lock needs a POSIX system"), try_lock(tmp_path / "lock"):
        pass
    assert list(tmp_path.iterdir()) == []
