"""Recommendation from implicit feedback: robust, cost-sensitive, convex, certified."""

from importlib import import_module

from csrr.registry import HOMES, read_names

# Not from typing, whose import takes longer than all the rest of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A name is imported when it is first used, so that `csrr --version` answers at once.
_HOME = read_names(__path__[0]) | HOMES

__all__ = sorted([*_HOME, "interop"])


def __getattr__(name: str) -> "Any":
    if name == "__version__":
        from importlib.metadata import version

        return version("csrr")
    if name == "interop":
        return import_module("csrr.interop")
    if name not in _HOME:
        raise AttributeError(f"module 'csrr' has no attribute {name!r}")
    from csrr.parameters import explain_names

    value = globals()[name] = explain_names(getattr(import_module(_HOME[name]), name))
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
