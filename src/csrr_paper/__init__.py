"""The paper's experiments: its printed numbers, our results, and a page that compares them."""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from csrr_paper import theory as theory
    from csrr_paper.noise_experiment import robustness as robustness
    from csrr_paper.robustness_results import Robustness as Robustness

_HOMES = {"Robustness": "robustness_results", "robustness": "noise_experiment"}
"""The module of each public name, which is imported when it is first used."""

__all__ = sorted([*_HOMES, "theory"])


def __getattr__(name: str) -> "Any":
    if name == "theory":
        return import_module("csrr_paper.theory")
    if name not in _HOMES:
        raise AttributeError(f"module 'csrr_paper' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"csrr_paper.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
