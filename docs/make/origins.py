"""Where results come from: their day, machine and versions, as letters in a table and a list below it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Origins:
    """The different origins of results, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def mark(self, results: Iterable[dict[str, Any]]) -> str:
        """The letters of where these results come from."""
        letters = []
        for result in results:
            for each in (result, *(result[name] for name in ("ours", "again") if isinstance(result.get(name), dict))):
                text = describe_origin(each)
                if text not in self._found:
                    self._found.append(text)
                letters.append(_name(self._found.index(text)))
        return ", ".join(sorted(set(letters)))

    def list_lines(self) -> str:
        """What each letter stands for, in Markdown."""
        return "\n".join(f"- {_name(place)}: {text}" for place, text in enumerate(self._found))


def describe_origin(result: dict[str, Any]) -> str:
    """The day, the machine and the versions of a result in words."""
    machine = result.get("machine") or f"{result['cores']} cores, machine not recorded"
    versions = result.get("versions") or ({"csrr": result["csrr"]} if "csrr" in result else {})
    shown = [f"{name} {value}" for name, value in versions.items()] or ["versions not recorded"]
    return f"{result['when']}, {machine}; {', '.join(shown)}"


def _name(place: int) -> str:
    """A to Z, then AA, AB and so on."""
    return (_name(place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)
