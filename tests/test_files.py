"""Files are whole or as they were, and a lock ends with the process that holds it."""

import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from csrr._base.files import atomic_write, try_lock, write_text

HOLDER = """
import sys, time
from csrr._base.files import try_lock

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


class Windows:
    """What Windows has in place of fcntl: locks of bytes, here of whole files by their number."""

    LK_NBLCK = 2

    def __init__(self):
        self.held = set()

    def locking(self, handle, kind, length):
        assert (kind, length, os.lseek(handle, 0, os.SEEK_CUR)) == (self.LK_NBLCK, 1, 0)
        file = os.fstat(handle).st_ino
        if file in self.held:
            raise PermissionError(errno.EACCES, "Permission denied")
        self.held.add(file)


@pytest.fixture
def windows(monkeypatch):
    """A system without fcntl, fchmod and folders that can be opened."""
    module = Windows()
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", module)
    monkeypatch.delattr(os, "fchmod")
    monkeypatch.delattr(os, "O_DIRECTORY")
    return module


def test_a_lock_without_fcntl(tmp_path, windows):
    with try_lock(tmp_path / "lock") as is_free:
        assert is_free
        with try_lock(tmp_path / "lock") as again:
            assert not again


def test_a_system_without_any_locks_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", None)
    with pytest.raises(OSError, match=r"no locks on files: .*lock"), try_lock(tmp_path / "lock"):
        pass


def test_a_file_is_written_without_fcntl(target, windows):
    write_text(target, "new")
    assert target.read_text() == "new"
    assert names(target) == ["file.txt"]


def test_csrr_is_imported_and_saves_without_fcntl(tmp_path):
    code = (
        "import sys; sys.modules['fcntl'] = sys.modules['resource'] = None\n"
        "import numpy as np, csrr\n"
        "csrr.PopRank().fit(np.eye(3)).save(sys.argv[1]); print(csrr.load(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m")], capture_output=True, text=True, timeout=60, check=True
    )
    assert "3 users x 3 items" in done.stdout


# Permissions, links, parts that were left


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_permissions_of_a_file_that_is_replaced_stay(target, mode):
    target.chmod(mode)
    write_text(target, "new")
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o7777 == mode


def test_a_part_is_never_open_to_more_people_than_the_file(target):
    target.chmod(0o600)
    with atomic_write(target) as file:
        assert os.fstat(file.fileno()).st_mode & 0o077 == 0


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_followed(tmp_path, is_there):
    (tmp_path / "far").mkdir()
    real, link = tmp_path / "far" / "real", tmp_path / "link"
    if is_there:
        real.write_text("old")
    link.symlink_to("far/real")
    write_text(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert [each.name for each in (tmp_path / "far").iterdir()] == ["real"]


def test_links_in_a_circle_and_folders_are_refused_by_their_own_name(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "folder").mkdir()
    for name in ("a", "folder"):
        with pytest.raises(OSError) as caught:
            write_text(tmp_path / name, "new")
        assert caught.value.filename == str(tmp_path / name)


def test_what_is_no_file_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE, text=True)
    write_text(tmp_path / "pipe", "new")
    assert reader.communicate(timeout=10)[0] == "new"
    assert (tmp_path / "pipe").is_fifo()


WRITER = """
import sys, time
from csrr._base.files import atomic_write

with atomic_write(sys.argv[1]) as file:
    file.write(sys.argv[2].encode())
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
print("written", flush=True)
"""


def write_slowly(path, text):
    """Return a process that is in the middle of writing; a line to it lets it end."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "writing\n"
    return child


def test_a_part_that_a_killed_process_left_is_swept(target):
    child = write_slowly(target, "half")
    assert len(names(target)) == 2
    with child:
        child.kill()
    assert len(names(target)) == 2
    (target.parent / ".file.txt.movie.part").touch()  # somebody else's
    write_text(target, "new")
    assert sorted(names(target)) == [".file.txt.movie.part", "file.txt"]
    assert target.read_text() == "new"


def test_a_part_that_is_being_written_is_not_swept(target):
    with write_slowly(target, "slow") as child:
        write_text(target, "fast")
        assert target.read_text() == "fast"
        assert len(names(target)) == 2
        child.communicate("\n", timeout=10)
        assert child.returncode == 0
    assert target.read_text() == "slow"
    assert names(target) == ["file.txt"]


def test_two_processes_that_save_at_once_do_not_sweep_each_other(tmp_path):
    code = (
        "import sys\nfrom csrr._base.files import write_text\n"
        "for turn in range(300): write_text(sys.argv[1], sys.argv[2] * 1000)"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "file")]
    children = [subprocess.Popen([*run, letter]) for letter in "abc"]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert set((tmp_path / "file").read_text()) < set("abc")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_the_folder_is_synced_after_the_move(target, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda handle: (done.append(stat.S_ISDIR(os.fstat(handle).st_mode)), fsync(handle))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("replace"), replace(a, b)))
    write_text(target, "new")
    assert done == [False, "replace", True]


@pytest.mark.parametrize("call", ["fsync", "replace", "write"])
def test_an_error_of_the_disk_names_the_target(target, monkeypatch, call):
    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    def attempt():
        with monkeypatch.context() as patch, atomic_write(target) as file:
            if call == "write":
                fail()
            patch.setattr(os, call, fail)
            file.write(b"new")

    with pytest.raises(OSError, match="No space left") as caught:
        attempt()
    assert caught.value.filename == str(target)
    assert target.read_text() == "old"
    assert names(target) == ["file.txt"]


def test_a_folder_that_is_not_there_is_told_by_the_target(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_text(tmp_path / "nowhere" / "file", "new")
    assert caught.value.filename == str(tmp_path / "nowhere" / "file")


def test_an_error_about_another_file_keeps_its_name(target):
    def attempt():
        with atomic_write(target):
            (target.parent / "other").read_bytes()

    with pytest.raises(FileNotFoundError) as caught:
        attempt()
    assert caught.value.filename == str(target.parent / "other")
