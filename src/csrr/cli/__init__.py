"""The command line: parsing and printing only."""

from csrr.cli.app import app, main

__all__ = ["app", "main"]
