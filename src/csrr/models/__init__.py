"""Models: one file each, under one contract. They are declared in `__init__.pyi`."""

from typing import Any

from csrr.registry import HOMES, MODELS


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'csrr.models' has no attribute {name!r}")
    return MODELS[name]
