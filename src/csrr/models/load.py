"""From a file back to a model."""

from __future__ import annotations

import os

from csrr.models.recommender import Recommender
from csrr.models.store import ModelFileError, read, restore_model
from csrr.parameters import list_defaults, use_new_names
from csrr.registry import MODELS


def load(path: str | os.PathLike[str]) -> Recommender:
    """Return the model saved in a file. Nothing in the file is executed.

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
        For a file that is not a whole model, or of a model that this csrr does not know.

    Examples
    --------
    >>> csrr.EASE(reg=10).fit(csrr.synthetic(60, 40, events_per_user=10).log).save("ease.csrr")
    >>> csrr.load("ease.csrr")
    EASE(reg=10), fitted to 60 users x 40 items
    """
    header, arrays = read(path)
    if header["model"] not in MODELS:
        raise ModelFileError(
            f"{path}: holds a model {header['model']!r}, which this csrr does not know; if it is your own, call"
            " csrr.register with its class first"
        )
    kind = MODELS[header["model"]]
    params = use_new_names(kind, header["params"], warn=False)
    if unknown := sorted(params.keys() - list_defaults(kind).keys()):
        raise ModelFileError(
            f"{path}: a {kind.__name__} with parameters that this csrr does not know: {', '.join(unknown)}"
        )
    model: Recommender = kind(**params)
    restore_model(model, arrays, header["facts"])
    return model
