"""From a file back to a model."""

from __future__ import annotations

import os

from csrr.models.csrr import CSRR
from csrr.models.popularity import PopRank
from csrr.models.recommender import Recommender
from csrr.models.store import ModelFileError, read

MODELS: dict[str, type[Recommender]] = {model.__name__: model for model in (CSRR, PopRank)}


def load(path: str | os.PathLike[str]) -> Recommender:
    """Return the model saved in a file. Nothing in the file is executed."""
    header, arrays = read(path)
    if header["model"] not in MODELS:
        raise ModelFileError(f"{path}: holds a model {header['model']!r}, which this csrr does not know")
    model = MODELS[header["model"]](**header["params"])
    model._restore_common(arrays)
    model._restore(arrays, header["facts"])
    return model
