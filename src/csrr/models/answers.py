"""What models answer beside lists: why, what is a user's own, and who is new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from csrr.data.ids import Id
from csrr.ranking import Recommendations, top_k
from csrr.ranking.tables import text_table, to_pandas
from csrr.ranking.topk import ScoreBlock

if TYPE_CHECKING:
    import pandas as pd

    from csrr.models.recommender import Recommender

Titles = npt.NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class _Amounts:
    """Items with an amount each, largest first."""

    items: npt.NDArray[Any]
    titles: Titles
    amounts: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.items)

    def _columns(self) -> dict[str, list[Any]]:
        columns = {"item": self.items.tolist()}
        if self.titles is not None:
            columns["title"] = self.titles.tolist()
        return columns | {"amount": self.amounts.tolist()}

    def rows(self) -> list[dict[str, Any]]:
        """One dict an item: item, title (where known), amount."""
        columns = self._columns()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def to_frame(self) -> pd.DataFrame:
        """The rows as a pandas table."""
        return to_pandas(pa.table(self._columns()))

    def _table(self, most: int) -> str:
        columns = self._columns()
        return text_table(list(columns), list(zip(*columns.values(), strict=True))[:most])


@dataclass(frozen=True, eq=False)
class Explanation(_Amounts):
    """How much each item of a user's history adds to the score of an item; `amounts` sum to `score`."""

    user: Id
    item: Id
    score: float

    @property
    def contributions(self) -> list[tuple[Id, str | None, float]]:
        """(item id, title or None, amount), largest first."""
        return [(row["item"], row.get("title"), row["amount"]) for row in self.rows()]

    def __str__(self) -> str:
        return f"item {self.item} for user {self.user}: score {self.score:.3f}, of which\n{self._table(10)}"


@dataclass(frozen=True, eq=False)
class Preferences(_Amounts):
    """A user's own choices: the entries of V, largest first, in units of a click."""

    user: Id

    def __str__(self) -> str:
        return self._table(len(self)) if len(self) else f"user {self.user} has no choices of their own"


@dataclass(frozen=True, eq=False, repr=False)
class FoldedUsers:
    """People who were not in the training data: `users` (ids) and `seen` (their histories, sparse (n, m)).

    `score_rows` gives the scores of all items, (len(rows), m), for those at the given places.
    """

    users: npt.NDArray[Any]
    seen: Any
    model: Recommender
    score_rows: ScoreBlock

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {len(self):,} users of {self.model!r}"

    def score(self) -> npt.NDArray[np.float32]:
        """The scores of all items, (n, n_items)."""
        return self.score_rows(np.arange(len(self)))

    def recommend(
        self, k: int = 10, *, exclude_seen: bool = True, candidates: Any = None, exclude: Any = None
    ) -> Recommendations:
        """Return the `k` best items for each; the arguments are those of `Recommender.recommend`."""
        model = self.model
        allowed = model._allowed_items(candidates, exclude)
        items, scores = top_k(
            self.score_rows,
            np.arange(len(self)),
            len(model.items_),
            min(model._checked_k(k), len(allowed)),
            seen=self.seen if exclude_seen else None,
            candidates=allowed,
        )
        return Recommendations.from_rows(self.users, items, scores, model.items_, model.titles_)


@dataclass(frozen=True, eq=False, repr=False)
class FoldedFactors(FoldedUsers):
    """The same, of a factor model: `user_factors` (n, d) and, where the model has it, `specific` V, sparse (n, m)."""

    user_factors: npt.NDArray[np.float32]
    specific: Any = None
