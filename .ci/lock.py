"""Writes requirements-dev.txt and requirements-audit.txt: all that checks install, with version and checksum.

`make lock` runs it, on the Python and the system that the checks run on. pip resolves and names the files that it
would install; where they come from is not written down.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAD = "# Made by `make lock`; installed with --require-hashes. Python {version}, {platform}.\n"
AUDIT = ["pip-audit>=2.7", "cyclonedx-bom>=5"]


def write_lock(target: Path, asked: list[str]) -> None:
    """Ask pip what it would install and write that."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        subprocess.run([*command, "--report", str(report), *asked], check=True, cwd=ROOT)
        found = json.loads(report.read_text())["install"]
    lines = []
    for each in found:
        name, version = each["metadata"]["name"].lower().replace("_", "-"), each["metadata"]["version"]
        if name == "csrr":
            continue
        hashes = each["download_info"]["archive_info"]["hashes"]
        lines.append(f"{name}=={version} --hash=sha256:{hashes['sha256']}\n")
    version = ".".join(map(str, sys.version_info[:2]))
    target.write_text(HEAD.format(version=version, platform=sys.platform) + "".join(sorted(lines)))


def main() -> None:
    """Write both files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    # What builds csrr itself is locked too: it runs code on the machine like everything else.
    write_lock(ROOT / "requirements-dev.txt", [".[dev]", *project["build-system"]["requires"], "editables"])
    write_lock(ROOT / "requirements-audit.txt", AUDIT)


if __name__ == "__main__":
    main()
