"""The damaged files of the campaign on logs, read as item tables: a sound table, or an error that names the file."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np

import csrr
from fuzz.campaign import Finding, set_environment
from fuzz.logs import ALLOWANCE, MAX_BYTES, Logs, check_message, check_option, limit_process


class ItemFiles(Logs):
    """A file read by `csrr.read_items`. A case is that of a log; of its options only some mean something here."""

    name = "items"
    about = "files of every format, damaged, as item tables: a sound table or a DataError naming the file"

    def check(self, case: bytes, folder: Path) -> None:
        """Read the file, within limits of memory, and use the table."""
        head, _, data = case.partition(b"\n")
        about = json.loads(head)
        path = folder / Path(about["name"]).name
        path.write_bytes(data)
        options = {
            name: about["options"][name]
            for name in ("separator", "header", "item", "title")
            if name in about["options"]
        }
        limits = {"CSRR_MAX_BYTES": str(MAX_BYTES), "CSRR_DATA_DIR": str(folder / "none")}
        most = 4 * (len(data) + MAX_BYTES) + ALLOWANCE
        with limit_process(most, path.name), set_environment(limits), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", csrr.DataWarning)
            try:
                table = csrr.read_items(path, **options)
            except csrr.DataError as error:
                check_message(str(error), path)
            except csrr.ParameterError as error:
                check_option(error, options)
            else:
                _check_table(table, folder)


def _check_table(table: csrr.ItemTable, folder: Path) -> None:
    """Ask a table all that it is for, and save it with a model."""
    listed = table.items.ids.tolist()
    if not listed or len(set(listed)) < len(listed):
        raise Finding("ids that are not there, or not distinct")
    repr(table), table.to_arrow()
    ids = listed[:5]
    events = csrr.Log.from_table({"user": [0] * len(ids), "item": ids})
    model = csrr.PopRank().fit(events).set_items(table)
    model.save(folder / "model.csrr")
    again = csrr.load(folder / "model.csrr")
    if not again.item_table_.to_arrow().equals(model.item_table_.to_arrow()):
        raise Finding("the table changes in a file")
    for name, column in model.item_table_.columns.items():
        if column.to_categories() is not None:
            model.recommend(k=2, at_most={name: 1}, exclude_seen=False)
        elif np.isfinite(column.to_numbers()).any():
            model.recommend(k=2, where={name: (None, 0)}, exclude_seen=False)
