"""The help of commands: options under headings, examples at the end, and a hint where a word is mistyped."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

import click

from csrr.cli.output import suggest_near

OPTIONS = "Options"


class SectionOption(click.Option):
    """An option under a heading other than "Options"."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class Documented(click.Command):
    """A command whose help ends with examples: in its docstring, under "Examples:", a comment and a line each."""

    def __init__(self, *args: Any, help: str | None = None, **kwargs: Any) -> None:
        help, _, lines = inspect.cleandoc(help or "").partition("\n\nExamples:\n")
        kwargs["help"] = help
        super().__init__(*args, **kwargs)
        self.examples: list[tuple[str, str]] = re.findall(r"^  # (.*)\n  (.*)$", lines, re.MULTILINE)
        """For each example a few words on it, and the command line."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, each as it is to be typed."""
        with formatter.section("Examples"):
            for place, (what, line) in enumerate(self.examples):
                formatter.write("\n" if place else "")
                formatter.write(f"{'':{formatter.current_indent}}# {what}\n")
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class Command(Documented):
    """A command with options under headings, whose errors say what was meant, or how it is done."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _add_hint(error, ctx, words, self.examples[0][1]) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each option does; those without a heading of their own come first."""
        sections: dict[str, list[tuple[str, str]]] = {OPTIONS: []}
        for each in self.get_params(ctx):
            if isinstance(each, click.Option) and (record := each.get_help_record(ctx)) is not None:
                sections.setdefault(getattr(each, "section", OPTIONS), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Group(Documented, click.Group):
    """A group of commands whose help ends with examples."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names, and the other words; an error says which was meant."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(f"there is no command {args[0]!r}{self.suggest(ctx, args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def suggest(self, ctx: click.Context, name: str) -> str:
        """Return an addition to the message that there is no such command."""
        return suggest_near(name, self.list_commands(ctx))


def _add_hint(error: click.UsageError, ctx: click.Context, words: Sequence[str], example: str) -> click.UsageError:
    """Return the error, with the command that it is about, and with a hint where there is one."""
    error.ctx = error.ctx or ctx
    if isinstance(error, click.MissingParameter):
        return click.UsageError(f"{error.format_message().rstrip('.')}, as in: {example}", error.ctx)
    if isinstance(error, click.NoSuchOption) and not error.option_name.startswith("--"):
        known = {name for param in ctx.command.params for name in param.opts}
        # -user is read as -u, -s, -e and -r.
        for word in words:
            if len(word) > 2 and f"-{word.partition('=')[0]}" in known:
                return click.UsageError(f"there is no option {word}; did you mean -{word}?", error.ctx)
    return error
