"""What each item of a history adds to a score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from csrr.arrays import Rows
from csrr.data.ids import Id
from csrr.ranking.explanations import Explanation, spread_amounts

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender


def explain_score(
    model: Recommender, user: Id, item: Id, history: Rows, amounts: npt.NDArray[Any], neighbors: Any = None
) -> Explanation:
    """Return what each item row of `history` adds to the score of an item: `amounts`, and exactly what `neighbors` say.

    What they leave over of the score is spread over the amounts in proportion.
    """
    pair = np.array([model.users_.row(user)]), np.array([model.items_.row(item, "item")])
    score = float(model.score_pairs(*pair)[0])
    amounts = spread_amounts(amounts, score, neighbors)
    order = np.argsort(-amounts, kind="stable")
    named = model.name_items(history[order])
    parts = None if neighbors is None else neighbors[order].astype(np.float32)
    _, titles = model.name_items(pair[1])
    title = None if titles is None else titles[0] or None
    return Explanation(*named, amounts[order].astype(np.float32), user, item, score, parts, title)
