"""A fitted model and a split -> one value a user and metric, then means."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from csrr.data import DataError, IdMap, Log, UnknownIdError, as_log
from csrr.data.ids import Ids, Rows
from csrr.models.recommender import Recommender
from csrr.ranking.metrics import METRICS, STANDARD, mark_hits, mean_metrics, per_user_metrics
from csrr.ranking.tables import text_table, to_pandas
from csrr.threads import use_threads

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Metrics of a model: `per_user["ndcg@10"]` has shape (n_users,), one value for each of `users`.

    `means` are over these users; "f1@k" is the mean of their F1, "f1_of_means@k" the F1 of mean precision and
    mean recall. `n_left_out` counts the users without test items, who are in no mean.
    """

    at: tuple[int, ...]
    users: Ids
    per_user: dict[str, npt.NDArray[np.float64]]
    means: dict[str, float]
    n_left_out: int

    @property
    def n_users(self) -> int:
        """Number of users evaluated."""
        return len(self.users)

    def __getitem__(self, name: str) -> float:
        """Return a mean by its name, like "ndcg@10"."""
        if name not in self.means:
            raise KeyError(f"no metric {name!r}; there are: {', '.join(self.means)}")
        return self.means[name]

    def summary(self) -> dict[str, Any]:
        """Return the means and the numbers of users as plain values, fit for JSON."""
        return {
            "at": list(self.at),
            "n_users": self.n_users,
            "n_left_out": self.n_left_out,
            "means": dict(self.means),
        }

    def to_arrow(self) -> pa.Table:
        """Return a table with one row for each user: user, then the metrics."""
        return pa.table({"user": self.users, **self.per_user})

    def to_frame(self) -> pd.DataFrame:
        """Return the table of `to_arrow` as a pandas DataFrame."""
        return to_pandas(self.to_arrow())

    def __repr__(self) -> str:
        names = dict.fromkeys(name.split("@")[0] for name in self.means)
        lines = [[name, *(self.means[f"{name}@{k}"] for k in self.at)] for name in names]
        left_out = f" ({self.n_left_out:,} without test items left out)" if self.n_left_out else ""
        table = text_table(["", *(f"@{k}" for k in self.at)], lines)
        return f"Evaluation: mean over {self.n_users:,} users{left_out}\n{table}"


def evaluate(
    model: Recommender,
    train: Any,
    test: Any,
    *,
    at: int | Sequence[int] = (5, 10, 20),
    users: Any = None,
    metrics: Sequence[str] = STANDARD,
    threads: int | None = None,
) -> Evaluation:
    """Return how well `model`, fitted on `train`, ranks the events of `test` above all items not in `train`.

    `train` and `test` are logs, or what becomes one, without users or items that the model does not know. A
    user's items in `train` are in no list; a test event that is in `train` too is not asked for. Only users
    with an event left to ask for are evaluated, of all or of those with the ids `users`. Equal scores go by
    item row. `metrics` may add "list_ndcg", the paper's NDCG.
    """
    model._check_fitted()
    at = _checked_at(at, len(model.items_))
    _check_metrics(metrics)
    seen, relevant = _aligned(train, model, "train"), _aligned(test, model, "test")
    relevant = _unseen(relevant, seen)
    n_relevant = np.diff(relevant.indptr).astype(np.int64)
    asked = np.unique(model._user_rows(users))
    rows = asked[n_relevant[asked] > 0]
    if not len(rows):
        raise DataError("no user has a test event that is not in train: there is nothing to evaluate")
    with nullcontext() if threads is None else use_threads(threads):
        items, _ = model.top_rows(rows, max(at), seen=seen)
        hits = mark_hits(items, relevant, rows)
    per_user = per_user_metrics(hits, n_relevant[rows], at, metrics)
    return Evaluation(at, model.users_.ids[rows], per_user, mean_metrics(per_user), len(asked) - len(rows))


def _checked_at(at: int | Sequence[int], n_items: int) -> tuple[int, ...]:
    several = tuple(at) if isinstance(at, Iterable) else (at,)
    for k in several:
        if isinstance(k, bool) or not isinstance(k, int | np.integer):
            raise ValueError(f"at={at!r}: {k!r} is not a whole number")
        if not 1 <= k <= n_items:
            raise ValueError(f"at={at!r}: {k} does not lie between 1 and the number of items, {n_items:,}")
    if not several:
        raise ValueError(f"at={at!r}: give at least one length of a list")
    return tuple(dict.fromkeys(int(k) for k in several))


def _check_metrics(metrics: Sequence[str]) -> None:
    unknown = [name for name in metrics if name not in METRICS]
    if unknown or not metrics:
        raise ValueError(f"metrics={metrics!r}: choose from {', '.join(METRICS)}")


def _aligned(data: Any, model: Recommender, part: str) -> Any:
    """Return the events in the model's row numbers, sparse of shape (n_users, n_items), indices sorted."""
    log: Log = as_log(data)
    if log.users == model.users_ and log.items == model.items_:
        return log.to_csr()
    user_rows = _mapped(log.users, log.user_rows, model.users_, "user", part)
    item_rows = _mapped(log.items, log.item_rows, model.items_, "item", part)
    shape = (len(model.users_), len(model.items_))
    matrix = sparse.csr_array((np.ones(len(log), np.float32), (user_rows, item_rows)), shape=shape)
    matrix.sum_duplicates()
    return matrix


def _mapped(ids: IdMap, rows: npt.NDArray[np.int32], known: IdMap, kind: str, part: str) -> Rows:
    """Return the rows in `known` of the ids that `rows` stand for."""
    used, place = np.unique(rows, return_inverse=True)
    try:
        return known.rows(ids.ids[used], kind)[place]
    except UnknownIdError as error:
        raise DataError(
            f"{part} does not fit the model: {error}; split one log with csrr.split and fit on its train part"
        ) from error


def _unseen(relevant: Any, seen: Any) -> Any:
    """Return the cells of `relevant` that `seen` does not store; says so when some are dropped."""
    repeated = relevant.multiply(seen)
    if repeated.nnz == 0:
        return relevant
    _log.warning("%d of %d test events are in train too and are not asked for", repeated.nnz, relevant.nnz)
    left = sparse.csr_array(relevant - repeated)
    left.eliminate_zeros()
    left.sort_indices()
    return left
