"""From a file back to a model."""

from __future__ import annotations

import os

from csrr.models.bprmf import BPRMF
from csrr.models.csrr import CSRR
from csrr.models.csrre import CSRRe
from csrr.models.ease import EASE
from csrr.models.itemknn import ItemKNN
from csrr.models.popularity import PopRank
from csrr.models.positive_unlabelled import BiasMC, MCShift
from csrr.models.recommender import Recommender
from csrr.models.store import ModelFileError, read
from csrr.models.wrmf import WRMF

MODELS: dict[str, type[Recommender]] = {
    model.__name__: model for model in (CSRR, CSRRe, PopRank, WRMF, BPRMF, MCShift, BiasMC, EASE, ItemKNN)
}


def load(path: str | os.PathLike[str]) -> Recommender:
    """Return the model saved in a file. Nothing in the file is executed."""
    header, arrays = read(path)
    if header["model"] not in MODELS:
        raise ModelFileError(f"{path}: holds a model {header['model']!r}, which this csrr does not know")
    kind, params = MODELS[header["model"]], header["params"]
    if unknown := sorted(params.keys() - kind._defaults().keys()):
        raise ModelFileError(
            f"{path}: a {kind.__name__} with parameters that this csrr does not know: {', '.join(unknown)}"
        )
    model = kind(**params)
    model._restore_common(arrays)
    model._restore(arrays, header["facts"])
    return model
