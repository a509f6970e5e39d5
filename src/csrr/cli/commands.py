"""`csrr`: finds the command, runs it, and turns whatever stops it into one line and an exit code."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from csrr.cli import interrupts
from csrr.cli.failures import Failure, Interrupted, explain, hush, report, stoppable

COMMANDS = {
    "start": "start",
    "demo": "demo",
    "fit": "fit",
    "update": "update",
    "calibrate": "calibrate",
    "recommend": "recommend",
    "export": "export",
    "similar": "inspect",
    "info": "inspect",
    "suspects": "suspects",
    "clean": "suspects",
    "costs": "costs",
    "evaluate": "evaluate",
    "tune": "tune",
    "reproduce": "reproduce",
    "robustness": "robustness",
    "data": "data",
    "completion": "completion",
}
"""Where each command lives; imported when it is asked for, so that `csrr --version` answers at once."""


class App(click.Group):
    """The group of commands, with our way to fail."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the command of that name, or None."""
        if name not in COMMANDS:
            return None
        command = getattr(import_module(f"csrr.cli.cmd_{COMMANDS[name]}"), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what its user can mend becomes a `Failure`, what we must mend stays as it is."""
        try:
            interrupts.forget()
            with stoppable():
                return super().invoke(ctx)
        except BrokenPipeError:
            hush()
            ctx.exit(141)
        except Exception as error:
            if (message := explain(error, self._options(ctx))) is None:
                raise
            raise Failure(message) from error

    def _options(self, ctx: click.Context) -> list[str]:
        """Return the names of the options that the command has, as the library knows them."""
        command: click.Command | None = self.get_command(ctx, ctx.invoked_subcommand or "")
        # A long option says the same as the argument of the library; see `as_options` for those that do not.
        return [
            param.opts[-1].lstrip("-").replace("-", "_")
            for param in (command.params if command is not None else [])
            if isinstance(param, click.Option)
        ]

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


@click.group(cls=App, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, help="Print the version.")
@click.pass_context
def app(ctx: click.Context, version: bool) -> None:
    """Recommend from what people chose: robust, cost-sensitive, convex, certified.

    Begin with a log of your own: `csrr start log.csv` finds the model that recommends best and writes a page about it.
    Or with `csrr demo`; or fit one model: `csrr fit log.csv -o model.csrr`, `csrr recommend model.csrr --user 42`.
    """
    if version:
        click.echo(f"csrr {_read_version()}")
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _read_version() -> str:
    from importlib.metadata import version

    return version("csrr")


def run() -> Any:
    """Run the command line of this process; return its exit code."""
    logging.getLogger("csrr").addHandler(logging.NullHandler())
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        app.main()
    except SystemExit as end:
        return end.code
