"""Model files that a command reads or writes over: what is there, and what to do where it is something else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from csrr.cli.failures import Failure, suggest_near

KEPT = "model.csrr"
"""What `csrr start` calls the model in its folder."""


def load_model(path: Path) -> Any:
    """Return the model in a file; where there is none, an error says what to do."""
    import csrr

    if path.is_dir():
        inside = path / KEPT
        hint = f"did you mean {inside}?" if inside.exists() else "give the path of a file that csrr fit wrote"
        raise Failure(f"{path} is a folder, not a model file; {hint}")
    if not path.exists():
        folder = path.parent
        beside = [each.name for each in folder.iterdir() if each.suffix == path.suffix] if folder.is_dir() else []
        near = suggest_near(path.name, beside, 0.8)
        raise Failure(f"there is no model file {path}{near or f'; csrr fit LOG -o {path} makes one'}")
    return csrr.load(path)


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like a model."""
    from csrr.models.model_file import MAGIC

    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def check_expendable(path: Path, otherwise: str = "") -> None:
    """Raise an error if `path` holds something that is not a model: perhaps the log; `otherwise` is what else to do."""
    if path.exists() and path.stat().st_size and not is_model_file(path):
        raise Failure(f"{path} exists and is no model; give another name{otherwise}")
