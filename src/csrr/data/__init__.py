"""Data: readers -> a log, checked once -> split -> matrix."""

from csrr.data.catalog import DATASETS, data_dir, fetch, locate
from csrr.data.errors import DataError, DataWarning, NoHistoryWarning, UnknownIdError, UnknownIdWarning
from csrr.data.event_types import EventTypes
from csrr.data.ids import IdMap
from csrr.data.items import ItemTable, read_items
from csrr.data.log import Log
from csrr.data.read import as_log, read, read_split
from csrr.data.split import HeldOut, split
from csrr.data.sql import read_sql
from csrr.data.synthetic import Synthetic, synthetic
from csrr.data.tables import LogColumns

__all__ = [
    "DATASETS",
    "DataError",
    "DataWarning",
    "EventTypes",
    "HeldOut",
    "IdMap",
    "ItemTable",
    "Log",
    "LogColumns",
    "NoHistoryWarning",
    "Synthetic",
    "UnknownIdError",
    "UnknownIdWarning",
    "as_log",
    "data_dir",
    "fetch",
    "locate",
    "read",
    "read_items",
    "read_split",
    "read_sql",
    "split",
    "synthetic",
]
