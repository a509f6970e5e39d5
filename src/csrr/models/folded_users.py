"""New users, and their recommendations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from csrr.data import IdMap
from csrr.models.asked_ids import IdReader, Unknown
from csrr.models.best_lists import Least, Wishes, make_lists
from csrr.models.item_choices import People
from csrr.models.read_rules import RuleOptions
from csrr.ranking import Recommendations
from csrr.ranking.score_blocks import RowScorer, multiply_factors

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender


@dataclass(frozen=True, eq=False, repr=False)
class FoldedUsers:
    """New users: `users` (ids) and `seen` (their histories, sparse (n, m)).

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
        exclude_seen: Any = True,
        candidates: Any = None,
        exclude: Any = None,
        min_probability: Least = None,
        min_score: float | None = None,
        unknown: Unknown = "raise",
        columns: Sequence[str] = (),
        **rules: Unpack[RuleOptions],
    ) -> Recommendations:
        """Return the `k` best items for each; the arguments are those of `Recommender.recommend`.

        Users with an empty history get popular items.
        """
        people = People(self.users, np.arange(len(self)), IdMap(self.users), self.seen)
        wishes = Wishes(k, exclude_seen, candidates, exclude, min_probability, min_score, columns, rules)
        return make_lists(self.model, people, self.score_rows, wishes, IdReader(unknown))


@dataclass(frozen=True, eq=False, repr=False)
class FoldedFactors(FoldedUsers):
    """The same, of a factor model: `user_factors` (n, d) and, where the model has it, `specific` V, sparse (n, m)."""

    user_factors: npt.NDArray[np.float32]
    specific: Any = None

    @classmethod
    def of(cls, model: Recommender, users: npt.NDArray[Any], seen: Any, factors: npt.NDArray[Any]) -> FoldedFactors:
        """Return new people by their factors, shape (len(users), d)."""
        items = model.item_factors_
        return cls(users, seen, model, lambda rows: multiply_factors(factors[rows], items), factors)
