"""Data: readers -> a log, checked once -> split -> matrix."""

from csrr.data.as_log import as_log
from csrr.data.catalog import DATASETS, data_dir, fetch, locate
from csrr.data.errors import DataError, NoHistoryWarning, UnknownIdError, UnknownIdWarning
from csrr.data.ids import IdMap
from csrr.data.log import Log
from csrr.data.readers import read, read_split
from csrr.data.split import HeldOut, split
from csrr.data.synthetic import Synthetic, synthetic

__all__ = [
    "DATASETS",
    "DataError",
    "HeldOut",
    "IdMap",
    "Log",
    "NoHistoryWarning",
    "Synthetic",
    "UnknownIdError",
    "UnknownIdWarning",
    "as_log",
    "data_dir",
    "fetch",
    "locate",
    "read",
    "read_split",
    "split",
    "synthetic",
]
