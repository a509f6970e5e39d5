"""Writes what declarations say into docstrings: python docs/write_docstrings.py.

They are the Parameters section of every model, and the rules of `Recommender.recommend`."""

import ast
import inspect
import re
import textwrap
from pathlib import Path

from csrr.models.base import Recommender
from csrr.parameters import list_parameters
from csrr.registry import HOMES, MODELS
from csrr.rules import RULES

WIDTH, INDENT = 120, " " * 4
RULES_ENTRY = re.compile(r"(?<=        \*\*rules\n)(?:            .*\n+)+", re.MULTILINE)
HEADING = re.compile(r"^    [A-Z][A-Za-z ]+\n    -{3,}$", re.MULTILINE)


def write_section(kind: type) -> str:
    """Return the section, as it stands in the source of a class: an entry a parameter, its meaning broken to width."""
    lines = ["Parameters", "----------"]
    for name, declared in list_parameters(kind).items():
        meaning = textwrap.wrap(
            declared.meaning, WIDTH - 2 * len(INDENT), break_long_words=False, break_on_hyphens=False
        )
        lines += [name, *(INDENT + line for line in meaning)]
    return textwrap.indent("\n".join(lines), INDENT) + "\n\n"


def replace_section(docstring: str, section: str) -> str:
    """Return a docstring, as it stands in the source, with this section in place of its own, or before Attributes."""
    starts = {found[0].split()[0]: found.start() for found in HEADING.finditer(docstring)}
    first = starts.get("Parameters", starts["Attributes"])
    last = min(start for name, start in starts.items() if name != "Parameters" and start >= first)
    return docstring[:first] + section + docstring[last:]


def rewrite(name: str, source: str) -> str:
    """Return the source of a model's module with the section of its class; what declares no parameters needs none."""
    if not list_parameters(MODELS[name]):
        return source
    kind = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name)
    lines = source.splitlines(keepends=True)
    first, last = kind.body[0].lineno - 1, kind.body[0].end_lineno
    docstring = replace_section("".join(lines[first:last]), write_section(MODELS[name]))
    return "".join([*lines[:first], docstring, *lines[last:]])


def rewrite_rules(source: str) -> str:
    """Return the source of `Recommender` with the entry of the rules, a point for each."""
    lines = ["Business rules, mostly by columns of the item table. The scores returned are those of the model.", ""]
    for rule in RULES.values():
        lines += textwrap.wrap(
            f"- {rule.meaning}",
            WIDTH - 3 * len(INDENT),
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    entry = textwrap.indent("\n".join(lines), 3 * INDENT) + "\n\n"
    return RULES_ENTRY.sub(lambda _: entry, source, count=1)


def main() -> None:
    """Rewrite the sections of all models of csrr, and the rules of `Recommender`."""
    base = Path(inspect.getfile(Recommender))
    base.write_text(rewrite_rules(base.read_text("utf-8")), "utf-8")
    for name in HOMES:
        file = Path(inspect.getfile(MODELS[name]))
        file.write_text(rewrite(name, file.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
