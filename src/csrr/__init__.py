"""Recommendation from implicit feedback: robust, cost-sensitive, convex, certified."""

from importlib.metadata import version as _version

from csrr.data import (
    DATASETS,
    DataError,
    HeldOut,
    IdMap,
    Log,
    UnknownIdError,
    data_dir,
    fetch,
    locate,
    read,
    read_split,
    split,
    synthetic,
)
from csrr.experiments.evaluate import Evaluation, evaluate
from csrr.models import CSRR, ModelFileError, NotFittedError, ParameterError, PopRank, Recommender, load, path
from csrr.ranking import Recommendations

__version__ = _version("csrr")

__all__ = [
    "CSRR",
    "DATASETS",
    "DataError",
    "Evaluation",
    "HeldOut",
    "IdMap",
    "Log",
    "ModelFileError",
    "NotFittedError",
    "ParameterError",
    "PopRank",
    "Recommendations",
    "Recommender",
    "UnknownIdError",
    "data_dir",
    "evaluate",
    "fetch",
    "load",
    "locate",
    "path",
    "read",
    "read_split",
    "split",
    "synthetic",
]
