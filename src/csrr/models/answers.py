"""What models answer beside lists: why, what is a user's own, and who is new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from csrr.data.ids import Id
from csrr.models.strengths import ParameterError, check_number
from csrr.ranking import Recommendations, top_k
from csrr.ranking.score_blocks import RowScorer
from csrr.ranking.text_tables import text_table, to_pandas
from csrr.ranking.topk import NO_ITEM, Top

if TYPE_CHECKING:
    import pandas as pd

    from csrr.models.recommender import Recommender

Titles = npt.NDArray[Any] | None
Least = float | Literal["cost"] | None


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
        """One dict an item: item, title (where known), amount and what else is known of it."""
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
    """How much each item of a user's history adds to the score of an item; `amounts` sum to `score`.

    `neighbors`, (n,), is what of each amount comes from item to item; None where a model has no such part.
    """

    user: Id
    item: Id
    score: float
    neighbors: npt.NDArray[np.float32] | None = None

    def _columns(self) -> dict[str, list[Any]]:
        columns = super()._columns()
        return columns if self.neighbors is None else columns | {"neighbors": self.neighbors.tolist()}

    @property
    def contributions(self) -> list[tuple[Id, str | None, float]]:
        """(item id, title or None, amount), largest first."""
        return [(row["item"], row.get("title"), row["amount"]) for row in self.rows()]

    def __str__(self) -> str:
        return f"item {self.item} for user {self.user}: score {self.score:.3f}, of which\n{self._table(10)}"


@dataclass(frozen=True, eq=False)
class Preferences(_Amounts):
    """A user's own choices: the entries of V, largest first, in units of a click, each judged.

    `support`, (n,), says how much company a choice has: the share of pairs of a user and an item not chosen that have
    less. Company is how alike the item and the three most like it among the user's other choices are, by what everyone
    else chose. `kinds`, (n,), are "own taste" (company: an unusual but consistent taste), "isolated" (none: perhaps
    junk) or "unclear": between the two, or, with a support of NaN, an item that too few others chose or a user with too
    few choices. Junk that is consistent passes as taste, and the first choice of a new interest as isolated: clicks
    alone do not tell.
    """

    user: Id
    kinds: npt.NDArray[np.str_]
    support: npt.NDArray[np.floating[Any]]

    def _columns(self) -> dict[str, list[Any]]:
        support = [None if np.isnan(value) else value for value in self.support.tolist()]
        return super()._columns() | {"kind": self.kinds.tolist(), "support": support}

    def __str__(self) -> str:
        if not len(self):
            return f"user {self.user} has no choices of their own"
        counts = [f"{(self.kinds == kind).sum()} {kind}" for kind in ("own taste", "isolated", "unclear")]
        return (
            f"{self._table(len(self))}\n{', '.join(counts)}. Clicks alone do not tell consistent junk from a taste, nor"
            " the first choice of a new interest from junk."
        )


@dataclass(frozen=True, eq=False, repr=False)
class FoldedUsers:
    """People who were not in the training data: `users` (ids) and `seen` (their histories, sparse (n, m)).

    `score_rows` gives the scores of all items, (len(rows), m), for those at the given places.
    """

    users: npt.NDArray[Any]
    seen: Any
    model: Recommender
    score_rows: RowScorer

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {len(self):,} users of {self.model!r}"

    def score(self) -> npt.NDArray[np.float32]:
        """The scores of all items, (n, n_items)."""
        return self.score_rows(np.arange(len(self)))

    def recommend(
        self,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        min_probability: Least = None,
        min_score: float | None = None,
    ) -> Recommendations:
        """Return the `k` best items for each; the arguments are those of `Recommender.recommend`."""
        model = self.model
        cut = checked_cut(model, min_probability, min_score)
        allowed = model._allowed_items(candidates, exclude)
        found = top_k(
            self.score_rows,
            np.arange(len(self)),
            len(model.items_),
            min(model._checked_k(k), len(allowed)),
            seen=self.seen if exclude_seen else None,
            candidates=allowed,
        )
        return lists(model, self.users, found, cut)


@dataclass(frozen=True, eq=False, repr=False)
class FoldedFactors(FoldedUsers):
    """The same, of a factor model: `user_factors` (n, d) and, where the model has it, `specific` V, sparse (n, m)."""

    user_factors: npt.NDArray[np.float32]
    specific: Any = None


class Cut(NamedTuple):
    """The least probability and score of what is recommended."""

    probability: float
    score: float


def checked_cut(model: Recommender, probability: Least, score: float | None) -> Cut:
    """Return what is to be left out: nothing, where nothing is said."""
    if probability == "cost" and (probability := model.decision_probability) is None:
        raise ParameterError(f'min_probability="cost": this {type(model).__name__} has no costs; give a number')
    if probability is not None:
        check_number("min_probability", probability, least=0, most=1)
        model._check_calibrated()
    if score is not None:
        check_number("min_score", score)
    return Cut(float(probability or 0), -np.inf if score is None else float(score))


def lists(model: Recommender, users: npt.NDArray[Any], found: Top, cut: Cut) -> Recommendations:
    """Return what `top_k` found for each of `users`, in the caller's ids, less what the cut leaves out."""
    items, scores = found
    known = None if model.calibration_ is None else model.calibration_.probability(scores)
    out = scores < cut.score
    if known is not None:
        out |= known < cut.probability
        known[out] = 0
    items, scores = np.where(out, np.int32(NO_ITEM), items), np.where(out, np.float32(-np.inf), scores)
    return Recommendations.from_rows(users, items, scores, model.items_, model.titles_, known)
