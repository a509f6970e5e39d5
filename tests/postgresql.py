"""A real PostgreSQL server in a folder of its own, from the programs of the system."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path


class NotInstalled(Exception):
    """Raised where a server cannot be started; the message says why."""


def find_program(name):
    """Return the path of one of PostgreSQL's programs, which Debian keeps off the path, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(found[-1]) if found else None)


def find_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def start_server(*, is_durable=False):
    """Give the address of a new, empty server, which ends with the block."""
    with control_server(is_durable=is_durable) as (address, _):
        yield address


@contextmanager
def control_server(*, is_durable=False):
    """Give the address of a new, empty server, which ends with the block, and what starts and stops it meanwhile."""
    initdb, pg_ctl = find_program("initdb"), find_program("pg_ctl")
    if initdb is None or pg_ctl is None:
        raise NotInstalled("initdb and pg_ctl of PostgreSQL are not installed")
    owner = {}
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        try:
            owner = {"user": pwd.getpwnam("postgres").pw_uid}
        except KeyError:
            raise NotInstalled("PostgreSQL does not run as root, and there is no user postgres") from None
    with tempfile.TemporaryDirectory(prefix="csrr-pg-") as folder:
        if owner:
            os.chown(folder, owner["user"], -1)
        data, port = f"{folder}/data", find_port()
        quiet = {"check": True, "cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | owner
        subprocess.run([initdb, "-D", data, "-U", "csrr", "-A", "trust", "-E", "UTF8", "--no-sync"], **quiet)
        options = f"-p {port} -h 127.0.0.1 -k {folder}{'' if is_durable else ' -F'}"
        verbs = {"start": ["-l", f"{folder}/log", "-o", options], "stop": ["-m", "immediate"]}

        def control(verb):
            subprocess.run([pg_ctl, "-D", data, "-w", *verbs[verb], verb], **quiet)

        control("start")
        try:
            yield f"postgresql://csrr@127.0.0.1:{port}/postgres", control
        finally:
            control("stop")
