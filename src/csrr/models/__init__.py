"""Models: one file each, under one contract."""

from csrr.models.csrr import CSRR
from csrr.models.load import load
from csrr.models.path import Path, PathPoint, path
from csrr.models.popularity import PopRank
from csrr.models.recommender import NotFittedError, Recommender
from csrr.models.store import ModelFileError
from csrr.models.strengths import ParameterError

__all__ = [
    "CSRR",
    "ModelFileError",
    "NotFittedError",
    "ParameterError",
    "Path",
    "PathPoint",
    "PopRank",
    "Recommender",
    "load",
    "path",
]
