"""The lists of many users, a batch at a time: memory is that of one batch, however many users there are."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, Rows
from csrr.data.errors import NoHistoryWarning, UnknownIdWarning, warn_caller
from csrr.data.items import Kind
from csrr.data.matrix import check_sparse
from csrr.models.filters import IdLookup, RuleOptions, UserBatch, list_ids, need_table, read_asked, read_rules, restrict
from csrr.parameters import ParameterError, check_number, check_whole, refuse_names
from csrr.ranking import Recommendations, top_k
from csrr.ranking.topk import NO_ITEM, RowScorer, Top
from csrr.results.recommendations import SHOWN_COLUMNS
from csrr.results.table import check_table_path, open_table_file

if TYPE_CHECKING:
    from csrr.models.base import Recommender


Least = float | Literal["cost"] | None


class RecommendOptions(NamedTuple):
    """What is asked of lists: the arguments of `Recommender.recommend`."""

    k: int = 10
    exclude_seen: Any = True
    candidates: Any = None
    exclude: Any = None
    min_probability: Least = None
    min_score: float | None = None
    columns: Sequence[str] = ()
    rules: RuleOptions = {}  # noqa: RUF012  (nobody writes to it)


class Cut(NamedTuple):
    """The least probability and score of what is recommended; `by_cost`: the probability above which a cell pays."""

    probability: float
    score: float
    by_cost: bool = False


def make_lists(
    model: Recommender, people: UserBatch, score_rows: RowScorer, wishes: RecommendOptions, reader: IdLookup
) -> Recommendations:
    """Return the best items for people, whose scores `score_rows` gives by their rows."""
    # 1. What is asked for, checked.
    names = (*RecommendOptions._fields[:-1], "users", "unknown", "threads", *RuleOptions.__annotations__)
    refuse_names("recommend", wishes.rules, names)
    k, cut = check_k(wishes.k), check_cut(model, wishes.min_probability, wishes.min_score)
    rules, columns = read_rules(model, wishes.rules, k, reader), check_columns(model, wishes.columns)
    # 2. What may be in a list. What goes by item or person alone belongs there: it is applied to blocks of scores.
    limits = restrict(
        *(people, model.items_, reader),
        seen=wishes.exclude_seen,
        candidates=wishes.candidates,
        exclude=wishes.exclude,
    )
    if rules is not None and rules.allowed is not None:
        limits.keep(np.flatnonzero(rules.allowed))
    # 3. The best of each; of whom nothing is known, scores do not tell, and the order of items is that of popularity.
    known = find_known(model, people.activity, people.rows)
    unknown_scores = None if rules is None else score_popular(model)
    found = top_k(
        lambda places: score_known(score_rows, people.rows[places], known[places], len(model.items_), unknown_scores),
        np.arange(len(people)),
        len(model.items_),
        min(k, limits.count_left()),
        limits=limits,
        order=model.item_order,
        rank=None if rules is None else rules.rank,
    )
    # 4. In the caller's ids.
    reader.warn()
    _warn_of_no_history(~known, people)
    return name_lists(model, people, clear_scores(found, ~known), cut, ~known, columns)


def find_known(model: Recommender, activity: Rows, rows: Rows) -> BoolArray:
    """Return of whom scores say something, shape (n,): those with a history, unless the model needs none."""
    known: BoolArray = (activity > 0) | (model.knows_everyone & (rows >= 0))
    return known


def score_popular(model: Recommender) -> Float32Array:
    """Return what rules go by for people of whom nothing is known, shape (n_items,): log(1 + popularity)."""
    return np.log1p(model.popularity).astype(np.float32)


def clear_scores(found: Top, missing: BoolArray) -> Top:
    """Return lists whose scores are 0 for those of whom nothing is known, `missing`, shape (n,)."""
    items, scores = found
    return items, np.where(missing[:, None] & (items >= 0), np.float32(0), scores)


def score_known(
    score_rows: RowScorer, rows: Rows, known: BoolArray, n_items: int, otherwise: Float32Array | None = None
) -> Float32Array:
    """Return the scores of all items, shape (n, n_items), by rows.

    Those who are not `known`, shape (n,), have the scores `otherwise`, shape (n_items,), or 0.
    """
    if known.all():
        return score_rows(rows)
    scores = np.zeros((len(rows), n_items), np.float32)
    if otherwise is not None:
        scores[~known] = otherwise
    if known.any():
        scores[known] = score_rows(rows[known])
    return scores


def _warn_of_no_history(missing: BoolArray, people: UserBatch) -> None:
    """Say once how many got what is popular."""
    n, n_unknown = int(missing.sum()), int((people.rows < 0).sum())
    if n:
        has, gets = ("has", "gets") if n == 1 else ("have", "get")
        unknown = f" ({n_unknown:,} unknown)" if n_unknown else ""
        users = f"{len(people):,} user{'' if len(people) == 1 else 's'}"
        warn_caller(
            f"{n:,} of {users} {has} no history{unknown} and {gets} popular items; `fallback` marks them",
            NoHistoryWarning,
        )


def check_cut(model: Recommender, probability: Least, score: float | None) -> Cut:
    """Return what is to be left out: nothing, where nothing is said."""
    by_cost = probability == "cost"
    if probability == "cost" and (probability := model.decision_probability) is None:
        raise ParameterError(f'min_probability="cost": this {type(model).__name__} has no costs; give a number')
    if probability is not None:
        check_number("min_probability", probability, least=0, most=1)
        model.check_calibrated()
    if score is not None:
        check_number("min_score", score)
    return Cut(float(probability or 0), -np.inf if score is None else float(score), by_cost)


def name_lists(
    model: Recommender, people: UserBatch, found: Top, cut: Cut, fallback: BoolArray, columns: Sequence[str] = ()
) -> Recommendations:
    """Return what `top_k` found for each of `people`, in the caller's ids, less what the cut leaves out."""
    items, scores = found
    calibration = model.calibration_
    known = None if calibration is None else calibration.probability(scores, people.activity[:, None], items)
    out = scores < cut.score
    if known is not None:
        least: Any = cut.probability
        if cut.by_cost:
            mine = people.rows if people.known is model.users_ else np.full(len(people), -1)
            least = model.decide_cells(mine[:, None], items)
        out |= known < least
        known[out] = 0
    items, scores = np.where(out, np.int32(NO_ITEM), items), np.where(out, np.float32(-np.inf), scores)
    # With curves of groups an item may be left out before one that stays: what stays moves up, in its order.
    order = np.argsort(out, axis=1, kind="stable")
    items, scores = np.take_along_axis(items, order, 1), np.take_along_axis(scores, order, 1)
    known = None if known is None else np.take_along_axis(known, order, 1)
    recs = Recommendations.from_rows(people.ids, items, scores, model.items_, model.titles_, known, fallback)
    return replace(recs, columns=_look_up(model, items, columns)) if columns else recs


def check_columns(model: Recommender, columns: Sequence[str]) -> Sequence[str]:
    """Return columns of the item table to be shown, each once."""
    if isinstance(columns, str):
        raise ParameterError(f"columns={columns!r}: give a list of names, such as columns=[{columns!r}]")
    for name in columns:
        need_table(model, "columns")[name]
        if name in SHOWN_COLUMNS:
            raise ParameterError(f"columns: the result has a column {name!r} of its own; rename that of the item table")
    return tuple(dict.fromkeys(columns))


def _look_up(model: Recommender, items: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Return what the item table says of listed items, shapes (n, k), None where there is none."""
    table, there, found = need_table(model, "columns"), items >= 0, {}
    for name in columns:
        found[name] = np.full(items.shape, None, np.object_)
        found[name][there] = table[name].show(items[there])
    return found


def check_k(k: int) -> int:
    """Return the length of a list, a whole number from 1 on."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k={k!r}: it must be a whole number, at least 1")
    return int(k)


BATCH_ROWS = 2**17
"""Number of places in the lists of one batch: a row group of Parquet, and some ten megabytes."""

_TEXT = pa.string()
_COLUMN_TYPES: dict[Kind, pa.DataType] = {
    "number": pa.float64(),
    "whole": pa.int64(),
    "flag": pa.bool_(),
    "date": _TEXT,
    "category": _TEXT,
    "categories": _TEXT,
}
"""What columns of an item table are in a file."""


class WrittenLists(NamedTuple):
    """What `recommend_to` wrote: for how many users, how many rows, and the length of the longest list.

    `n_fallback` of the users got popular items.
    """

    path: str
    n_users: int
    n_rows: int
    k: int
    n_fallback: int


def recommend_in_batches(
    model: Recommender, users: Any, k: int, batch_users: int | None, options: dict[str, Any]
) -> Iterator[Recommendations]:
    """Yield the lists of users, `batch_users` of them at a time, or as many as have BATCH_ROWS places."""
    model.check_fitted()
    size = max(1, BATCH_ROWS // check_k(k)) if batch_users is None else batch_users
    check_whole("batch_users", size, least=1)
    ids = _find_ids(model, users, options)
    shape = len(ids), len(model.items_)
    parts = (slice(first, first + size) for first in range(0, len(ids), size))
    return (model.recommend(ids[part], k, **_take_rows(options, part, shape)) for part in parts)


def _find_ids(model: Recommender, users: Any, options: dict[str, Any]) -> AnyArray:
    """Return the ids of those who are asked for, shape (n,)."""
    return model.users_.ids if users is None else read_asked(list_ids(users), IdLookup(options.get("unknown", "raise")))


def _take_rows(options: dict[str, Any], part: slice, shape: tuple[int, int]) -> dict[str, Any]:
    """Return options for some of the users: of a matrix of a `shape` with a row for each, their rows."""
    found = dict(options)
    for name, value in options.items():
        is_matrix = bool(sparse.issparse(value))
        if is_matrix and value.shape == shape:
            found[name] = sparse.csr_array(check_sparse(value, name))[part]
    return found


def write_lists(
    model: Recommender,
    path: str | os.PathLike[str],
    users: Any,
    k: int,
    *,
    spreadsheet: bool,
    callback: Callable[[int], object] | None,
    options: dict[str, Any],
) -> WrittenLists:
    """Write the lists of users to a file, and return how many; `callback` is told the number of users so far."""
    check_table_path(path)
    batches = recommend_in_batches(model, users, k, None, options)
    schema = make_list_schema(model, users, options)
    written = WrittenLists(os.fspath(path), 0, 0, 0, 0)
    with warnings.catch_warnings(), open_table_file(path, schema, spreadsheet=spreadsheet) as write:
        # Said once, of all batches together.
        warnings.simplefilter("ignore", NoHistoryWarning)
        warnings.simplefilter("once", UnknownIdWarning)
        for recs in batches:
            table = _conform(recs.to_arrow(), schema)
            write(table)
            written = WrittenLists(
                written.path,
                written.n_users + len(recs),
                written.n_rows + len(table),
                max(written.k, recs.k),
                written.n_fallback + int(recs.fallback.sum()),
            )
            if callback is not None:
                callback(written.n_users)
    if written.n_fallback:
        has, gets = ("has", "gets") if written.n_fallback == 1 else ("have", "get")
        told = f"{written.n_fallback:,} of {written.n_users:,} users {has} no history and {gets} popular items"
        warn_caller(f"{told}; the column why marks them", NoHistoryWarning)
    return written


def make_list_schema(model: Recommender, users: Any, options: dict[str, Any]) -> pa.Schema:
    """Return the columns of lists, whatever a batch has in them."""
    asked = {"user": _find_ids(model, users, options), "item": model.items_.ids}
    kinds = {name: pa.int64() if ids.dtype != object else pa.string() for name, ids in asked.items()}
    kinds |= {"rank": pa.int64(), "score": pa.float32()}
    kinds |= {} if model.calibration_ is None else {"probability": pa.float32()}
    kinds |= {} if model.titles_ is None else {"title": pa.string()}
    if model.item_table_ is not None:
        columns = model.item_table_.columns
        kinds |= {name: _COLUMN_TYPES[columns[name].kind] for name in options.get("columns", ()) if name in columns}
    may_fall_back = options.get("unknown") == "ignore" or not (np.diff(model.seen_.indptr) > 0).all()
    return pa.schema(kinds | ({"why": pa.string()} if may_fall_back else {}))


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of the schema; one that a batch has no use for is of nulls."""
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(schema.names).cast(schema)
