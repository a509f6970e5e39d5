"""Models: one file each, under one contract."""

from csrr.models.bprmf import BPRMF
from csrr.models.csrr import CSRR
from csrr.models.csrre import CSRRe
from csrr.models.ease import EASE
from csrr.models.itemknn import ItemKNN
from csrr.models.kept import ModelFileError
from csrr.models.load import load
from csrr.models.popularity import PopRank
from csrr.models.positive_unlabelled import BiasMC, MCShift
from csrr.models.recommender import NotFittedError, Recommender
from csrr.models.regularization_path import Path, PathPoint, path
from csrr.models.wrmf import WRMF
from csrr.parameters import ParameterError

__all__ = [
    "BPRMF",
    "CSRR",
    "EASE",
    "WRMF",
    "BiasMC",
    "CSRRe",
    "ItemKNN",
    "MCShift",
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
