"""What a model knows of its items, or users, by their features; rows that come and go; and its place in a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from scipy import sparse

from csrr._base.arrays import BoolArray, Float32Array, Int64Array, Rows
from csrr.data.features import Encoded, FeatureSpace, Kind, insert_rows
from csrr.data.ids import IdMap
from csrr.models.schema import (
    Arrays,
    ModelFileError,
    OptionalGroup,
    SparseArray,
    Texts,
    Values,
    sparse_arrays,
    sparse_from,
    text_arrays,
    text_from,
)
from csrr.numerics.feature_ridge import FeatureMap, SimilarItems
from csrr.parameters import Number, Whole
from csrr.results.recommendations import Explanation

if TYPE_CHECKING:
    from csrr.models.csrr_base import CSRRBase

NAMED = 3
"""The number of features that an explanation names."""


class Strengths(NamedTuple):
    """How features count for an item without events: its factor is `factor` times what a ridge regression of penalty
    `reg` says, its weights are `weights` times those by the features of the `neighbors` items most alike, of penalty
    `reg_neighbors`. For an item of n events both are added times prior/(prior + n).
    """

    reg: Annotated[float, Number(above=0)] = 3.0
    neighbors: Annotated[int, Whole(least=1)] = 50
    reg_neighbors: Annotated[float, Number(above=0)] = 10.0
    factor: Annotated[float, Number(least=0)] = 1.0
    weights: Annotated[float, Number(least=0)] = 0.0
    prior: Annotated[float, Number(least=0)] = 0.0


class FeatureFacts(NamedTuple):
    """What a file has of features besides arrays."""

    strengths: Strengths = Strengths()
    note: str = ""


def mark_rows(n: int, rows: Rows) -> BoolArray:
    """Return which of n rows these are, (n,)."""
    found = np.zeros(n, np.bool_)
    found[rows] = True
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """What a model knows of its items, or users, by their features.

    Attributes
    ----------
    space
        How tables become numbers.
    encoded
        The features of all items, or users, in the order of the model's rows.
    map
        Factors by features.
    strengths
        How much features count.
    note
        How the strengths were chosen.
    """

    space: FeatureSpace
    encoded: Encoded
    map: FeatureMap
    strengths: Strengths
    note: str = ""
    known: SimilarItems | None = None
    """The features of the items with events, in the order of their rows."""

    def __repr__(self) -> str:
        space, notes = self.space, "".join(f"\n{note}" for note in (self.note, *self.space.notes) if note)
        counts = np.bincount(space.places, minlength=len(space.columns)).tolist()
        columns = [
            f"{name} ({n:,} {'words' if name in space.worded else 'values'})"
            for name, n in zip(space.columns, counts, strict=True)
        ]
        columns += [f"{name} (number)" for name in space.numbers]
        columns += [f"{name} (vectors of {n:,})" for name, n in space.vectors.items()]
        return f"Features of {int(self.encoded.is_there.sum()):,} of {len(self.encoded):,}: {', '.join(columns)}{notes}"

    def find_factors(self, encoded: Encoded) -> Float32Array:
        """Return the factors that features give items, or users, (n, r)."""
        factors: Float32Array = self.map(*encoded) * np.float32(self.strengths.factor)
        return factors

    def weigh(self, encoded: Encoded, own_rows: Rows | None = None, most: int = 2**31) -> tuple[Float32Array, Any]:
        """Return the weights of known items for others, (n, K), and which these are among the known, -1 for none.

        Those that are known themselves have `own_rows` among them; K is `most` at the most.
        """
        assert self.known is not None
        strengths = self.strengths
        k = min(strengths.neighbors, most)
        values, items = self.known.weigh(*encoded, k, strengths.reg_neighbors, own_rows)
        return values * np.float32(strengths.weights), items

    def name_shared(self, item: int, others: Rows) -> list[str]:
        """Return what each of some items has in common with an item: the names of the features that count most."""
        mine, found = self.encoded.words[[item]].toarray()[0], []
        words = self.encoded.words
        for other in others.tolist():
            part = slice(words.indptr[other], words.indptr[other + 1])
            shared = words.data[part] * mine[words.indices[part]]
            best = np.argsort(-shared, kind="stable")[:NAMED]
            found.append(", ".join(self.space.name(words.indices[part][each]) for each in best if shared[each] > 0))
        return found


# Rows that come and go


class Renumbering(NamedTuple):
    """The rows of ids among others: `old`, (n,), which each of the n new rows was, -1 for one that was not there; and
    `new`, (m,), where each of the m old rows is, -1 for one that is dropped."""

    old: Rows
    new: Rows

    @classmethod
    def of(cls, before: IdMap, after: IdMap, kind: Kind) -> Renumbering:
        """Return where ids are among others."""
        return cls.moving(after.find(before.ids, kind), len(after))

    @classmethod
    def moving(cls, new: Rows, n: int) -> Renumbering:
        """Return what each of n rows was, by where the old ones went."""
        old = np.full(n, -1, np.int64)
        old[new[new >= 0]] = np.flatnonzero(new >= 0)
        return cls(old, new)

    def place(self, array: Any, fill: Any = 0) -> Any:
        """Return values of the old rows at the new ones, (n, ...), `fill` where there was none; None of None."""
        if array is None:
            return None
        if self.only_grows:
            # Where the new rows are among the old ones.
            added = np.flatnonzero(self.old < 0)
            return insert_rows(array, added - np.arange(len(added)), fill)
        found = array[np.maximum(self.old, 0)]
        found[self.old < 0] = fill
        return found

    @property
    def only_grows(self) -> bool:
        """Whether the old rows are all there, in their order, as ids are."""
        return bool((self.new >= 0).all())

    def place_columns(self, matrix: Any) -> Any:
        """Return a csr matrix with its columns at the new places."""
        indices, indptr, data = matrix.indices, matrix.indptr, matrix.data
        if not np.array_equal(self.new, np.arange(len(self.new))):
            indices = self.new[indices].astype(np.int32)
        if (out := indices < 0).any():
            kept = np.concatenate(([0], np.cumsum(~out)))
            indices, data, indptr = indices[~out], data[~out], kept[indptr]
        found = sparse.csr_array((data, indices, indptr), shape=(matrix.shape[0], len(self.old)))
        # Rows keep their order.
        found.has_canonical_format = True
        return found

    def place_rows(self, matrix: Any, copies: int = 1) -> Any:
        """Return a csr matrix, or `copies` of them one below the other, with rows at the new places."""
        n_old, lengths = len(self.new), np.diff(matrix.indptr).reshape(copies, len(self.new))
        placed = np.where(self.old >= 0, lengths[:, np.maximum(self.old, 0)] if n_old else 0, 0)
        indptr = np.concatenate(([0], np.cumsum(placed.ravel()))).astype(matrix.indptr.dtype)
        shape = copies * len(self.old), matrix.shape[1]
        if self.only_grows:
            found = sparse.csr_array((matrix.data, matrix.indices, indptr), shape=shape)
            found.has_canonical_format = True
            return found
        kept = np.repeat(np.tile(self.new >= 0, copies), np.diff(matrix.indptr))
        return sparse.csr_array((matrix.data[kept], matrix.indices[kept], indptr), shape=shape)


def add_cells(matrix: Any, more: Any) -> Any:
    """Return the sum of two csr matrices of one shape, fast where the second has few entries."""
    if more.nnz > FEW_CELLS or not matrix.nnz:
        return sparse.csr_array(matrix + more)
    cells = more.tocoo()
    order = np.lexsort((cells.col, cells.row))
    rows, columns, values = cells.row[order], cells.col[order], cells.data[order]
    starts, ends = matrix.indptr[rows], matrix.indptr[rows + 1]
    # Most are new columns behind all others.
    places = ends.astype(np.int64)
    for at in np.flatnonzero((ends > starts) & (matrix.indices[np.maximum(ends, 1) - 1] >= columns)):
        places[at] = starts[at] + np.searchsorted(matrix.indices[starts[at] : ends[at]], columns[at])
    is_there = places < ends
    is_there[is_there] = matrix.indices[places[is_there]] == columns[is_there]
    data = matrix.data
    if is_there.any():
        data = data.copy()
        data[places[is_there]] += values[is_there]
    new = ~is_there
    data = insert_rows(data, places[new], values[new])
    indices = insert_rows(matrix.indices, places[new], columns[new])
    counts = np.bincount(rows[new], minlength=matrix.shape[0])
    indptr = matrix.indptr + np.concatenate(([0], np.cumsum(counts))).astype(matrix.indptr.dtype)
    found = sparse.csr_array((data, indices, indptr), shape=matrix.shape)
    found.has_canonical_format = True
    return found


FEW_CELLS = 20_000


def renumber_items(model: CSRRBase, items: IdMap, moved: Renumbering | None = None) -> None:
    """Give a model other items: those that it had at their new rows, new ones without scores, others dropped."""
    moved, fitted = moved or Renumbering.of(model.items_, items, "item"), model.fitted_
    model.items_, model.titles_ = items, moved.place(model.titles_, None)
    model.recent_popularity = moved.place(model.recent_popularity)
    model.item_ages = moved.place(model.item_ages, np.inf)
    if (calibration := model.calibration_) is not None and calibration.curves is not None:
        groups = replace(calibration.curves.groups, popularity=moved.place(calibration.curves.groups.popularity))
        model.calibration_ = replace(calibration, curves=replace(calibration.curves, groups=groups))
    faded = fitted.faded
    if faded is not None:
        weights = moved.place_columns(moved.place_rows(faded.weights, len(faded.decays)))
        faded = replace(faded, left=moved.place(faded.left), right=moved.place(faded.right), weights=weights)
    nearby, model.seen_ = fitted.neighborhood, moved.place_columns(fitted.seen)
    model.take_problem(
        replace(
            fitted,
            items=moved.place(fitted.items),
            specific=moved.place_columns(fitted.specific),
            seen=model.seen_,
            scaling=replace(fitted.scaling, item=moved.place(fitted.scaling.item, 1)),
            clicks=replace(fitted.clicks, item=moved.place(fitted.clicks.item, 1)),
            neighborhood=replace(nearby, weights=moved.place_columns(moved.place_rows(nearby.weights))),
            faded=faded,
        )
    )


def renumber_users(model: CSRRBase, users: IdMap) -> None:
    """Give a model other users: those that it had at their new rows, new ones without scores, others dropped."""
    moved, fitted = Renumbering.of(model.users_, users, "user"), model.fitted_
    model.users_, model.seen_ = users, moved.place_rows(fitted.seen)
    model.take_problem(
        replace(
            fitted,
            users=moved.place(fitted.users),
            specific=moved.place_rows(fitted.specific),
            seen=model.seen_,
            scaling=replace(fitted.scaling, user=moved.place(fitted.scaling.user, 1)),
            clicks=replace(fitted.clicks, user=moved.place(fitted.clicks.user, 1)),
        )
    )


def count_events(model: CSRRBase) -> Int64Array:
    """Return the number of events of each item of a model, (n_items,)."""
    return np.bincount(model.seen_.indices, minlength=len(model.items_))


# Files


def declare_parts(name: str, size: str) -> OptionalGroup:
    """Return the declaration of the arrays of features of `size`, "items" or "users", in a file."""
    p, q, columns = f"{name} texts", f"{name} numbers", f"{name} columns"
    return OptionalGroup(
        Texts(f"{name}.columns", columns),
        Values(f"{name}.worded", (columns,), ("bool",), is_free=True),
        Texts(f"{name}.texts", p),
        Values(f"{name}.places", (p,), ("int64",), least=0),
        Values(f"{name}.idf", (p,), ("float64",), least=0),
        Texts(f"{name}.numbers", f"{name} number columns"),
        Values(f"{name}.centers", (f"{name} number columns",), ("float64",)),
        Values(f"{name}.spreads", (f"{name} number columns",), ("float64",), above=0),
        Texts(f"{name}.vectors", f"{name} vector columns"),
        Values(f"{name}.lengths", (f"{name} vector columns",), ("int64",), least=1),
        SparseArray.of(f"{name}.words", (size, p)),
        Values(f"{name}.dense", (size, q)),
        Values(f"{name}.map", (f"{name} inputs", f"{name} directions")),
        Values(f"{name}.center", (f"{name} directions",)),
    )


def feature_arrays(name: str, features: Features | None) -> Arrays:
    """Return the arrays of features for a file; none for None."""
    if features is None:
        return {}
    space, encoded = features.space, features.encoded
    arrays = text_arrays(f"{name}.columns", np.array(space.columns, np.object_))
    arrays[f"{name}.worded"] = np.array([each in space.worded for each in space.columns], np.bool_)
    arrays |= text_arrays(f"{name}.texts", space.texts)
    arrays |= {f"{name}.places": space.places, f"{name}.idf": space.idf}
    arrays |= text_arrays(f"{name}.numbers", np.array(space.numbers, np.object_))
    arrays |= {f"{name}.centers": space.centers, f"{name}.spreads": space.spreads}
    arrays |= text_arrays(f"{name}.vectors", np.array(list(space.vectors), np.object_))
    arrays[f"{name}.lengths"] = np.array(list(space.vectors.values()), np.int64)
    arrays |= sparse_arrays(f"{name}.words", encoded.words)
    arrays |= {f"{name}.dense": encoded.dense, f"{name}.center": features.map.center}
    arrays[f"{name}.map"] = np.concatenate([features.map.words, features.map.dense])
    return arrays


def features_from(arrays: Arrays, name: str, facts: FeatureFacts | None, counts: Int64Array | None) -> Features | None:
    """Return the features that `feature_arrays` made arrays of, or None; `counts`, (n,), are the events of items."""
    if (f"{name}.columns.ends" in arrays) != (facts is not None):
        raise ModelFileError(f"the arrays {name!r} and their facts do not go together")
    if facts is None:
        return None
    columns, numbers, vectors = (
        tuple(text_from(arrays, f"{name}.{each}").tolist()) for each in ("columns", "numbers", "vectors")
    )
    texts, places, lengths = text_from(arrays, f"{name}.texts"), arrays[f"{name}.places"], arrays[f"{name}.lengths"]
    n, q = arrays[f"{name}.dense"].shape
    if None in (*columns, *numbers, *vectors, *texts.tolist()) or len(set(columns)) < len(columns):
        raise ModelFileError(f"the arrays {name!r} lack names")
    if (np.diff(places) < 0).any() or (len(places) and places[-1] >= len(columns)):
        raise ModelFileError(f"array '{name}.places' does not name columns in their order")
    same = places[1:] == places[:-1]
    if any(
        a >= b for a, b, is_same in zip(texts[:-1].tolist(), texts[1:].tolist(), same.tolist(), strict=True) if is_same
    ):
        raise ModelFileError(f"the texts '{name}.texts' are not in order, each once")
    whole = arrays[f"{name}.map"]
    if q != len(numbers) + int(lengths.sum()) or len(whole) != len(texts) + q:
        raise ModelFileError(f"the arrays {name!r} do not fit each other")
    worded = frozenset(np.array(columns, np.object_)[arrays[f"{name}.worded"]].tolist())
    space = FeatureSpace(
        *(columns, worded, texts, places, arrays[f"{name}.idf"], numbers),
        *(arrays[f"{name}.centers"], arrays[f"{name}.spreads"], dict(zip(vectors, lengths.tolist(), strict=True))),
    )
    encoded = Encoded(sparse_from(arrays, f"{name}.words", (n, len(texts))), arrays[f"{name}.dense"])
    known = None if counts is None else SimilarItems(*encoded.take(np.flatnonzero(counts > 0)))
    found = FeatureMap(arrays[f"{name}.center"], whole[: len(texts)], whole[len(texts) :])
    return Features(space, encoded, found, facts.strengths, facts.note, known)


def describe_features(model: CSRRBase) -> dict[str, Any]:
    """Return the facts of features for a file."""
    both = {"features": model.features_, "user_features": model.user_features_}
    return {name: FeatureFacts(each.strengths, each.note) for name, each in both.items() if each is not None}


def restore_features(model: CSRRBase, arrays: Arrays, facts: dict[str, Any]) -> None:
    """Give a model, whose problem is restored, the features of its file."""
    model.features_ = features_from(arrays, "features", facts["features"], count_events(model))
    model.user_features_ = features_from(arrays, "user_features", facts["user_features"], None)
    rank = model.item_factors_.shape[1]
    for features in (model.features_, model.user_features_):
        if features is not None and len(features.map.center) != rank:
            raise ModelFileError(f"features lead to {len(features.map.center)} factors; the model has {rank}")


def name_shared(model: CSRRBase, found: Explanation) -> Explanation:
    """Return an explanation with what the items have in common, where the model knows that."""
    if model.features_ is None:
        return found
    shared = model.features_.name_shared(model.items_.row(found.item, "item"), model.items_.rows(found.items, "item"))
    return replace(found, shared=np.array(shared, np.object_))
