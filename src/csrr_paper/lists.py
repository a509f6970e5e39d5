"""The hits in the lists of every user, one bit each, from which all metrics, intervals and tests can be computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from csrr._base.arrays import BoolArray, Int64Array
from csrr.ranking.metrics import measure_users
from csrr_paper.printed import LENGTHS

if TYPE_CHECKING:
    from csrr_paper.results import Result, ResultStore

MEASURED = ("precision", "recall", "ndcg", "list_ndcg")
"""The metrics of every list, at every length of `LENGTHS`."""

PerUser = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Lists:
    """The hits in the lists of the users of one result, from which every metric can be computed again.

    `hits` says whether each place is a test item, shape (n_users, longest list), `n_relevant` how many there are.
    """

    users: npt.NDArray[Any]
    hits: BoolArray
    n_relevant: Int64Array

    def measure(self) -> PerUser:
        """Return the users, and for each metric one value for each of them."""
        return {"users": self.users, **measure_users(self.hits, self.n_relevant, LENGTHS, MEASURED)}

    def pack(self) -> PerUser:
        """Return the hits as small arrays, one bit each."""
        users = self.users if self.users.dtype != object else self.users.astype(str)
        return {"users": users, "hits": np.packbits(self.hits, axis=1), "n_relevant": self.n_relevant.astype("<i4")}

    @classmethod
    def unpack(cls, packed: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the hits from the arrays of `pack`."""
        hits = np.unpackbits(packed["hits"], axis=1, count=max(LENGTHS)).astype(np.bool_)
        return cls(packed["users"], hits, packed["n_relevant"].astype(np.int64))


_KEYS = ("data", "at_least", "split", "system")


def make_lists_table(store: ResultStore, results: Iterable[Result]) -> pa.Table:
    """Return the lists of results as a table: a packed row for each, with the values that identify it."""
    lines = []
    for result in results:
        packed = store.read_lists(result.task).pack()
        task = {name: getattr(result.task, name) for name in _KEYS}
        lines.append(
            task | {name: array.tobytes() for name, array in packed.items()} | {"ids": packed["users"].dtype.str}
        )
    return pa.Table.from_pylist(lines)


def read_lists_table(table: pa.Table) -> dict[tuple[Any, ...], Lists]:
    """Return the lists in such a table by data, lowest rating, split and system."""
    found = {}
    for line in table.to_pylist():
        n_relevant = np.frombuffer(line["n_relevant"], "<i4")
        packed = {
            "users": np.frombuffer(line["users"], line["ids"]),
            "hits": np.frombuffer(line["hits"], np.uint8).reshape(len(n_relevant), -1),
            "n_relevant": n_relevant,
        }
        found[tuple(line[name] for name in _KEYS)] = Lists.unpack(packed)
    return found
