"""From a file back to a model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from csrr.data import DataError
from csrr.models.kept import ModelFileError, shorten
from csrr.models.model_file import read
from csrr.models.store import restore_model
from csrr.parameters import ParameterError, list_defaults, use_new_names
from csrr.registry import MODELS

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender


def load(path: str | os.PathLike[str]) -> Recommender:
    """Load a model that `save` wrote. Nothing in the file is executed.

    Parameters
    ----------
    path
        The file that `save` wrote.

    Returns
    -------
    model
        The fitted model.

    Raises
    ------
    ModelFileError
        For a file that is not a complete model, or of a class that this csrr does not know.

    Examples
    --------
    >>> csrr.EASE(reg=10).fit(csrr.synthetic(60, 40, events_per_user=10).log).save("ease.csrr")
    >>> csrr.load("ease.csrr")
    EASE(reg=10), fitted to 60 users x 40 items
    """
    try:
        header, arrays = read(path)
        model = _make_model(header["model"], header["params"])
        restore_model(model, arrays, header["facts"])
    except (OSError, MemoryError):
        raise
    except (ModelFileError, DataError, ParameterError) as error:
        raise ModelFileError(f"{path}: {shorten(str(error), 1000)}") from None
    except Exception as error:
        # Under the checks, a net: of a model of one's own they know little.
        what = shorten(f"{type(error).__name__}: {error}", 1000)
        raise ModelFileError(f"{path}: cannot be made a model of ({what})") from error
    return model


def _make_model(name: str, params: dict[str, Any]) -> Recommender:
    """Return a model, not fitted, with parameters that are what it declares."""
    if name not in MODELS:
        raise ModelFileError(
            f"holds a model {name[:100]!r}, which this csrr does not know; if it is your own, call csrr.register with"
            " its class first"
        )
    kind = MODELS[name]
    params = use_new_names(kind, params, warn=False)
    if unknown := sorted(params.keys() - list_defaults(kind).keys()):
        raise ModelFileError(f"a {kind.__name__} with parameters that this csrr does not know: {_list(unknown)}")
    model: Recommender = kind(**params)
    model.check_params()
    return model


def _list(names: list[str]) -> str:
    """Names of a file in words: those that are none as Python writes them."""
    return shorten(", ".join(name if name.isidentifier() else repr(name) for name in names))
