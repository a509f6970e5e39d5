"""`csrr`: finds a command, runs it, and turns its errors into one line and an exit code."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from csrr._base.text import fit_tables, spell_arguments
from csrr.cli import interrupts
from csrr.cli.help import Command, Group
from csrr.cli.output import (
    Failure,
    Interrupted,
    discard_output,
    explain,
    find_width,
    report,
    say,
    show_option,
    stoppable,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS = {
    "Start": {"start": "cmd_start", "demo": "cmd_start", "data": "cmd_start", "completion": "commands"},
    "Every day": {
        "fit": "cmd_fit",
        "recommend": "cmd_recommend",
        "similar": "cmd_recommend",
        "update": "cmd_fit",
        "serve": "cmd_serve",
        "publish": "cmd_recommend",
        "export": "cmd_recommend",
        "info": "cmd_recommend",
    },
    "Judge": {
        "evaluate": "cmd_evaluate",
        "tune": "cmd_evaluate",
        "calibrate": "cmd_judge",
        "costs": "cmd_judge",
        "suspects": "cmd_judge",
        "clean": "cmd_judge",
    },
}
"""The module of each command, imported when it is needed, so that `csrr --version` answers at once."""
COMMANDS = {name: home for group in GROUPS.values() for name, home in group.items()}
PLUGINS = "csrr.commands"
"""The group of entry points by which other packages add commands."""


class App(Group):
    """The group of commands, whose errors are one line each."""

    def list_commands(self, ctx: click.Context | None) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return [*COMMANDS, *find_plugins()]

    def get_command(self, ctx: click.Context | None, name: str) -> click.Command | None:
        """Return the command of that name, or None."""
        if name in COMMANDS:
            command = getattr(import_module(f"csrr.cli.{COMMANDS[name]}"), name)
        elif (plugin := find_plugins().get(name)) is not None:
            command = _load_plugin(plugin)
        else:
            return None
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command is for, in groups."""
        groups: dict[str, Iterable[str]] = {**GROUPS, "More": find_plugins()}
        width = max(map(len, self.list_commands(ctx)))
        for title, names in groups.items():
            found = {name: self.get_command(ctx, name) for name in names}
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:{width}}", each.get_short_help_str(limit=1000)) for name, each in found.items() if each]
                )

    def suggest(self, ctx: click.Context, name: str) -> str:
        """Return which command was meant; of a file, what to do with it."""
        if os.path.isfile(name):
            from csrr.cli.options import is_model_file

            file = shlex.quote(name)
            return (
                f"; to use that file: csrr {f'recommend {file} --user ID' if is_model_file(name) else f'start {file}'}"
            )
        return super().suggest(ctx, name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error that its user can correct becomes a `Failure`."""
        try:
            interrupts.clear_messages()
            with stoppable(), fit_tables(find_width()), spell_arguments(show_option):
                return super().invoke(ctx)
        except BrokenPipeError:
            discard_output()
            ctx.exit(141)
        except Exception as error:
            if (message := explain(error)) is None:
                raise
            raise Failure(message) from error

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> NoReturn:
        """Run the command line `args` (by default the process's own) and exit."""
        words = list(sys.argv[1:] if args is None else args)
        extra = {name: value for name, value in extra.items() if name not in ("prog_name", "standalone_mode")}
        sys.exit(self._run(words, extra))

    def _run(self, words: list[str], extra: dict[str, Any]) -> int:
        as_json = "--json" in words
        try:
            code = super().main(words, "csrr", standalone_mode=False, **extra)
        except click.Abort:
            return report(Interrupted(), as_json)
        except click.ClickException as error:
            return report(error, as_json)
        return code if isinstance(code, int) else 0


@click.group(
    cls=App, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(package_name="csrr", message="csrr %(version)s", help="Print the version.")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Recommend from what people chose: clicks, plays, purchases.

    LOG is a file, folder or archive with a row for each event, or the name of a data set. MODEL is a file that csrr
    start, fit or update wrote. Every command takes --help, and nearly all --json.

    Examples:
      # See it work, on made-up data
      csrr demo

      # Find the best model for your log, with a user and an item in each row
      csrr start clicks.csv

      # Recommend with that model, and say why
      csrr recommend first-look/model.csrr --user 42 --explain
    """
    if ctx.invoked_subcommand is None:
        say("csrr recommends from what people chose: clicks, plays, purchases.\n")
        for what, line in app.examples:
            say(f"  {what}:\n    {line}\n")
        say("All commands: csrr --help. More about one of them: csrr start --help.")


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="SHELL")
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    SHELL is bash, zsh or fish. For bash, put `eval "$(csrr completion bash)"` into ~/.bashrc.

    Examples:
      # Complete commands, options and files in this bash
      eval "$(csrr completion bash)"

      # The same for every zsh
      csrr completion zsh >> ~/.zshrc

      # For fish
      csrr completion fish > ~/.config/fish/completions/csrr.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # ShellComplete.source, not the bash class's own: that one starts a bash to ask for its version.
    click.echo(ShellComplete.source(kind(ctx.find_root().command, {}, "csrr", "_CSRR_COMPLETE")))


@cache
def find_plugins() -> dict[str, EntryPoint]:
    """Return the commands that other packages add, by name; a name of ours stays ours."""
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=PLUGINS), key=lambda each: each.name)
    return {each.name: each for each in found if each.name not in COMMANDS}


def _load_plugin(plugin: EntryPoint) -> click.Command:
    """Return the command of a plug-in; one that cannot be loaded is a command that says so."""
    try:
        command = plugin.load()
        if isinstance(command, click.Command):
            return command
        reason = f"it is {type(command).__name__}, not a click command"
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    package = plugin.dist.name if plugin.dist is not None else plugin.value

    def fail() -> None:
        raise Failure(f"the command {plugin.name} of the package {package} cannot be loaded: {reason}")

    return click.Command(plugin.name, callback=fail, help=f"(cannot be loaded: {reason})")


class _PrintingHandler(logging.Handler):
    """Prints log records to stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        say(f"csrr: {record.getMessage()}", err=True)


def run() -> Any:
    """Run the command line of this process; return its exit code."""
    logging.getLogger("csrr").addHandler(logging.NullHandler())
    logging.getLogger("csrr._base.lazy_jit").addHandler(_PrintingHandler(logging.WARNING))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        app.main()
    except SystemExit as end:
        return end.code
