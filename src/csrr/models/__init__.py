"""Models: one file each, under one contract."""

from csrr.models.base import Recommender
from csrr.models.bprmf import BPRMF
from csrr.models.csrr import CSRR
from csrr.models.csrre import CSRRe
from csrr.models.ease import EASE
from csrr.models.estimator import NotFittedError
from csrr.models.itemknn import ItemKNN
from csrr.models.mcshift import BiasMC, MCShift
from csrr.models.path import Path, PathPoint, path
from csrr.models.popularity import PopRank
from csrr.models.schema import ModelFileError
from csrr.models.store import load
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
