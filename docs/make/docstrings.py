"""Docstrings as the site shows them: written as plain text, with `names` and indented formulas, and without types."""

from __future__ import annotations

import inspect
import re
from typing import Any, get_type_hints

from sphinx.util.typing import stringify_annotation

RULE = re.compile(r"^-{3,}$")
MODULES = re.compile(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")
CHOICES = re.compile(r"Literal\[([^\[\]]*)\]")
NAME = re.compile(r"^\*{0,2}(\w+)$")


def escape_bars(line: str) -> str:
    """Return a line whose |bars| are bars and refer to nothing."""
    return line if line.lstrip().startswith((">>>", "...")) else line.replace("|", r"\|")


def mark_formulas(lines: list[str]) -> list[str]:
    """Return the lines of a docstring with its indented formulas as literal blocks; its sections are numpydoc's."""
    end = next((at - 1 for at, line in enumerate(lines) if RULE.match(line)), len(lines))
    found: list[str] = []
    inside = False
    for at, line in enumerate(lines[:end]):
        indented = line.startswith("    ")
        if indented and not inside and (at == 0 or not lines[at - 1].strip()):
            found += ["::", ""]
            inside = True
        elif line.strip() and not indented:
            inside = False
        found.append(line if inside else escape_bars(line))
    return found + [escape_bars(line) for line in lines[end:]]


def spell_type(kind: Any) -> str:
    """Return a type as one would say it: without modules."""
    text = kind if isinstance(kind, str) else stringify_annotation(kind, "fully-qualified-except-typing")
    return CHOICES.sub(r"{\1}", MODULES.sub("", text)).replace("_", r"\_")


def describe_parameters(value: Any) -> dict[str, str]:
    """Return type and default of each parameter of a function or class, from its signature."""
    try:
        parameters = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return {}
    try:
        hints = get_type_hints(value.__init__ if inspect.isclass(value) else value)
    except NameError:  # a type that is only imported where types are checked
        hints = {}
    found = {}
    for name, parameter in parameters.items():
        kind = hints.get(name, parameter.annotation)
        words = [] if kind is parameter.empty else [spell_type(kind)]
        if parameter.default is not parameter.empty:
            words.append(f"default {parameter.default!r}")
        found[name] = ", ".join(words)
    return found


def name_types(lines: list[str], described: dict[str, str]) -> list[str]:
    """Return the lines with type and default beside each name of the section Parameters."""
    found, section = [], ""
    for at, line in enumerate(lines):
        if at + 1 < len(lines) and RULE.match(lines[at + 1]):
            section = line
        name = NAME.match(line)
        known = section == "Parameters" and name and described.get(name[1])
        found.append(f"{line} : {escape_bars(known)}" if known else line)
    return found


def process_docstring(app: object, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Change a docstring in place, before numpydoc reads it."""
    lines[:] = name_types(mark_formulas(lines), describe_parameters(value))
