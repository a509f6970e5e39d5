"""A model's scores as inner products: a vector for each user and each item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from csrr.arrays import Float32Array, Rows
from csrr.models.recommender import Recommender
from csrr.parameters import ParameterError, check_whole
from csrr.ranking.score_blocks import score_blocks

Part = Literal["all", "factors"]

DIMS = (64, 128, 256, 512, 1024)
"""Numbers of dimensions that are tried where the model's own factors are not all of its scores."""
AT_ONCE = 256
"""The first so many dimensions of one approximation are the best of fewer, too."""
EXTRA_DIMS, PASSES = 16, 4
"""More dimensions that the search for the best has, and how many times it goes over all scores."""


@dataclass(frozen=True, eq=False)
class ScoreVectors:
    """`users`, shape (n_users, d), and `items`, shape (n_items, d), float32: their products are, or are near, scores.

    `covers` says which part of the scores they are; `is_exact` whether that is all of them.
    """

    users: Float32Array
    items: Float32Array
    covers: str
    is_exact: bool

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        return int(self.items.shape[1])

    def score_rows(self, rows: Rows) -> Float32Array:
        """Return the products of user rows with all items, shape (len(rows), n_items)."""
        return self.users[rows] @ self.items.T


def make_score_vectors(
    model: Recommender,
    *,
    part: Part = "all",
    dims: int | None = None,
    seed: int = 0,
    suffice: Callable[[ScoreVectors], bool] = lambda _: True,
) -> ScoreVectors:
    """Return the vectors of a fitted model.

    With `part` "factors" they are the model's own. With "all" they are that too where scores are nothing else, and
    otherwise the best approximation of all scores in `dims` dimensions, by least squares: without `dims`, in the first
    number of `DIMS` that will `suffice`, or in the last.
    """
    model.check_fitted()
    if part not in ("all", "factors"):
        raise ParameterError(f'part={part!r} must be "all" or "factors"')
    if dims is not None:
        check_whole("dims", dims, least=1)
    factors_only = is_factored(model)
    if part == "factors" and not model.has_factors:
        raise ParameterError(f'part="factors": a {type(model).__name__} has no factors; use part="all"')
    if (part == "factors" or factors_only) and model.item_factors_.shape[1] == 0:
        name = type(model).__name__
        raise ParameterError(
            f"the factors of this {name} have rank 0: it found no taste that users share, and there are no vectors to"
            " write; fit it with a smaller reg_low_rank or l1, or on more events"
        )
    if part == "factors" or (factors_only and dims is None):
        covers = "all of the scores, exactly" if factors_only else "common taste U alone, without neighbors S"
        return ScoreVectors(model.user_factors_, model.item_factors_, covers, factors_only)
    most = min(model.seen_.shape)
    wanted = [min(dims, most)] if dims is not None else [*(each for each in DIMS if each < most), min(most, DIMS[-1])]
    users = items = np.empty((0, 0), np.float32)
    for each in wanted:
        if each > items.shape[1]:
            width = each if dims is not None else min(max(each, AT_ONCE), most)
            users, items = approximate_scores(model, width, np.random.default_rng(seed))
        covers = f"all of the scores, approximately, in {each} dimensions"
        made = ScoreVectors(np.ascontiguousarray(users[:, :each]), np.ascontiguousarray(items[:, :each]), covers, False)
        if suffice(made):
            break
    return made


def is_factored(model: Recommender) -> bool:
    """Return whether the scores of a fitted model are the products of its factors and nothing else."""
    neighbors: Any = getattr(model, "neighbors_", None)
    if neighbors is not None:
        return bool(neighbors.nnz == 0)
    return model.has_factors and type(model).score_rows is Recommender.score_rows


def approximate_scores(model: Recommender, dims: int, rng: np.random.Generator) -> tuple[Float32Array, Float32Array]:
    """Return users, (n_users, dims), and items, (n_items, dims), whose products are nearest to the scores Z.

    Items are an orthonormal basis B of what Z'Z, by block iteration, has of largest; users are Z*B. No more than a
    block of Z is there at a time.
    """
    n_users, n_items = model.seen_.shape
    width = min(dims + EXTRA_DIMS, n_items)
    basis = np.linalg.qr(rng.standard_normal((n_items, width), np.float32))[0]
    rows = np.arange(n_users)
    for _ in range(PASSES):
        product = np.zeros_like(basis)
        for _, scores in score_blocks(model.score_rows, rows, n_items):
            product += scores.T @ (scores @ basis)
        basis = np.linalg.qr(product)[0]
    users = np.empty((n_users, width), np.float32)
    for part, scores in score_blocks(model.score_rows, rows, n_items):
        users[part] = scores @ basis
    _, turned = np.linalg.eigh(users.T.astype(np.float64) @ users)
    best = turned[:, ::-1][:, :dims].astype(np.float32)
    return np.ascontiguousarray(users @ best), np.ascontiguousarray(basis @ best)
