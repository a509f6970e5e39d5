"""People who were not in the training data: their histories, and what is recommended to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.arrays import Rows
from csrr.data import IdMap, as_log
from csrr.parameters import ParameterError, check_number
from csrr.ranking import Recommendations, top_k
from csrr.ranking.score_blocks import RowScorer
from csrr.ranking.topk import NO_ITEM, Top

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender

Least = float | Literal["cost"] | None


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
        cut = check_cut(model, min_probability, min_score)
        allowed = allow_items(model.items_, candidates, exclude)
        found = top_k(
            self.score_rows,
            np.arange(len(self)),
            len(model.items_),
            min(check_k(k), len(allowed)),
            seen=self.seen if exclude_seen else None,
            candidates=allowed,
        )
        return name_lists(model, self.users, np.diff(self.seen.indptr), found, cut)


@dataclass(frozen=True, eq=False, repr=False)
class FoldedFactors(FoldedUsers):
    """The same, of a factor model: `user_factors` (n, d) and, where the model has it, `specific` V, sparse (n, m)."""

    user_factors: npt.NDArray[np.float32]
    specific: Any = None

    @classmethod
    def of(cls, model: Recommender, users: npt.NDArray[Any], seen: Any, factors: npt.NDArray[Any]) -> FoldedFactors:
        """Return new people by their factors, shape (len(users), d)."""
        items = model.item_factors_
        return cls(users, seen, model, lambda rows: factors[rows] @ items.T, factors)


class Cut(NamedTuple):
    """The least probability and score of what is recommended."""

    probability: float
    score: float


def check_cut(model: Recommender, probability: Least, score: float | None) -> Cut:
    """Return what is to be left out: nothing, where nothing is said."""
    if probability == "cost" and (probability := model.decision_probability) is None:
        raise ParameterError(f'min_probability="cost": this {type(model).__name__} has no costs; give a number')
    if probability is not None:
        check_number("min_probability", probability, least=0, most=1)
        model.check_calibrated()
    if score is not None:
        check_number("min_score", score)
    return Cut(float(probability or 0), -np.inf if score is None else float(score))


def name_lists(model: Recommender, users: npt.NDArray[Any], activity: Rows, found: Top, cut: Cut) -> Recommendations:
    """Return what `top_k` found for each of `users`, in the caller's ids, less what the cut leaves out.

    `activity`, shape (n,), is how many events of each the model knows.
    """
    items, scores = found
    calibration = model.calibration_
    known = None if calibration is None else calibration.probability(scores, activity[:, None], items)
    out = scores < cut.score
    if known is not None:
        out |= known < cut.probability
        known[out] = 0
    items, scores = np.where(out, np.int32(NO_ITEM), items), np.where(out, np.float32(-np.inf), scores)
    # With curves of groups an item may be left out before one that stays: what stays moves up, in its order.
    order = np.argsort(out, axis=1, kind="stable")
    items, scores = np.take_along_axis(items, order, 1), np.take_along_axis(scores, order, 1)
    known = None if known is None else np.take_along_axis(known, order, 1)
    return Recommendations.from_rows(users, items, scores, model.items_, model.titles_, known)


def allow_items(items: IdMap, candidates: Any, exclude: Any) -> Rows:
    """Return the rows of the items among `candidates` (None: all) and not in `exclude`, both by id."""
    allowed = np.ones(len(items), np.bool_)
    if candidates is not None:
        allowed[:] = False
        allowed[items.rows(list_ids(candidates), "item")] = True
    if exclude is not None:
        allowed[items.rows(list_ids(exclude), "item")] = False
    return np.flatnonzero(allowed)


def check_k(k: int) -> int:
    """Return the length of a list, a whole number from 1 on."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k={k!r}: it must be a whole number, at least 1")
    return int(k)


def read_histories(histories: Any, items: IdMap, weight: float | None) -> tuple[npt.NDArray[Any], Any]:
    """Return the ids of people and their histories, csr of shape (n, n_items).

    Its values are ones or, where a click has a `weight` for a model, the log's, or that weight where it has none.
    """
    weights = None
    if isinstance(histories, list | tuple):
        users, rows, columns = _read_lists(histories, items)
    else:
        log = as_log(histories)
        users, rows, columns = log.users.ids, log.user_rows, items.rows(log.items.ids, "item")[log.item_rows]
        weights = log.weights
    shape = len(users), len(items)
    if weight is not None and weights is not None:
        return users, sparse.csr_array((weights, (rows, columns)), shape=shape)
    seen = sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
    seen.sum_duplicates()
    seen.data[:] = 1 if weight is None else weight
    return users, seen


def _read_lists(histories: Any, items: IdMap) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the numbers of people, and the row and column of each item of their lists."""
    if any(is_one_id(history) for history in histories):
        raise ParameterError("fold_in takes a list of histories, each a list of item ids; for one, recommend_for")
    lengths = [len(history) for history in histories]
    if not lengths or min(lengths) == 0:
        raise ParameterError("every history needs at least one item")
    users: npt.NDArray[Any] = np.arange(len(histories))
    return users, np.repeat(users, lengths), np.concatenate([items.rows(list(each), "item") for each in histories])


def is_one_id(ids: Any) -> bool:
    """Return whether this is one id, not several."""
    return isinstance(ids, str | int | float | np.generic)


def list_ids(ids: Any) -> Any:
    """Return one id or several as several."""
    return [ids] if is_one_id(ids) else ids
