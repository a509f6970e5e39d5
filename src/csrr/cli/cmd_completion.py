"""`csrr completion`: what a shell needs to complete our commands."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from csrr.cli.help import Command


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
    kind = get_completion_class(shell)
    assert kind is not None
    # ShellComplete.source, not the bash class's own: that one starts a bash to ask for its version.
    click.echo(ShellComplete.source(kind(ctx.find_root().command, {}, "csrr", "_CSRR_COMPLETE")))
