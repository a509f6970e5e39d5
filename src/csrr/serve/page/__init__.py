"""The page to look into a model: its files in this folder, served under /ui, and what only it asks."""

from __future__ import annotations

from csrr.serve.page.views import ROUTES

__all__ = ["ROUTES"]
