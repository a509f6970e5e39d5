"""The command line: parsing and printing only.

Nothing of weight is imported here: `main` is in force against signals before anything else is.
"""

from csrr.cli import interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from csrr.cli.commands import app as app

__all__ = ["app", "main"]


def main() -> "NoReturn":
    """Run the command line of this process and exit."""
    interrupts.catch_signals()
    try:
        from csrr.cli.commands import run

        code = run()
    except BaseException:
        # Whatever a signal has become on its way here.
        if interrupts.is_caught():
            interrupts.end_process()
        raise
    interrupts.exit_process(code)


def __getattr__(name: str) -> "Any":
    if name == "app":
        from csrr.cli.commands import app

        return app
    raise AttributeError(f"module 'csrr.cli' has no attribute {name!r}")
