"""A model as a notebook shows it: what it is, its parameters, and what was fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from csrr.html_text import fold_html, format_html_facts, format_html_table, format_html_words
from csrr.parameters import list_defaults

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender


def show_model(model: Recommender) -> str:
    """Return a model as HTML."""
    parts = [format_html_words(repr(model) if model.is_fitted else f"{model!r}, not fitted yet")]
    if model.is_fitted:
        parts.append(format_html_facts(_list_facts(model)))
        certificate = getattr(model, "certificate_", None)
        if certificate is not None:
            parts.append(fold_html(f"Certificate: {certificate}", certificate._repr_html_()))
    rows = _list_parameters(model)
    if rows:
        n_set = sum(bool(is_set) for *_, is_set in rows)
        title = f"{len(rows)} parameters, {n_set} of them set"
        parts.append(fold_html(title, format_html_table(("parameter", "value", "fitted", ""), rows)))
    return "\n".join(parts)


def _list_facts(model: Recommender) -> dict[str, object]:
    """Return the size of a fitted model, and what else it has found."""
    facts: dict[str, object] = {
        "users": f"{len(model.users_):,}",
        "items": f"{len(model.items_):,}",
        "events": f"{model.seen_.nnz:,}",
    }
    if model.event_types is not None:
        facts["event types"] = model.event_types.describe()
    if hasattr(model, "rank_"):
        facts["rank"] = model.rank_
    if hasattr(model, "costs_"):
        facts["costs"] = f"a miss costs {model.costs_.ratio:.4g} false alarms"
    if model.calibration_ is not None:
        facts["calibrated"] = f"on {model.calibration_.n_positives.sum():,} events"
    return facts


def _list_parameters(model: Recommender) -> list[tuple[str, str, str, str]]:
    """Return each parameter: its name, its value, what the fit made of it, and whether it is not the default."""
    defaults = list_defaults(type(model))
    return [
        (name, repr(value), _find_fitted(model, name, value), "set" if differs(value, defaults[name]) else "")
        for name, value in model.get_params().items()
    ]


def _find_fitted(model: Recommender, name: str, value: Any) -> str:
    """Return the number that a fit found for a parameter which left it open; nothing where there is none."""
    if not model.is_fitted or not (value is None or isinstance(value, str)):
        return ""
    settled = model.settled_params() if hasattr(model, "settled_params") else {}
    found = settled.get(name, getattr(model, f"{name}_", None))
    return f"{found:.4g}" if isinstance(found, int | float) and not isinstance(found, bool) else ""


def differs(value: Any, default: Any) -> bool:
    """Return whether a parameter is not the default."""
    return value is not default and not np.array_equal(value, default)
