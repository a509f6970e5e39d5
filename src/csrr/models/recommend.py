"""Lists of the best items of users: made in memory, in batches, and in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, Rows
from csrr.data.errors import NoHistoryWarning, warn_caller
from csrr.data.items import Kind
from csrr.data.matrix import check_sparse
from csrr.models.filters import IdLookup, UserBatch, list_ids, need_table, read_asked, read_rules, restrict
from csrr.parameters import ParameterError, check_number, check_whole, refuse_names
from csrr.ranking.calibration import Calibration
from csrr.ranking.topk import NO_ITEM, Products, Restrictions, RowScorer, Top, take_rows, top_k
from csrr.results.recommendations import SHOWN_COLUMNS, Recommendations
from csrr.rules import RULES, RuleOptions

if TYPE_CHECKING:
    from csrr.models.base import Recommender
    from csrr.models.estimator import Estimator
    from csrr.models.scorer import Scorer


Least = float | Literal["cost"] | None


class RecommendOptions(NamedTuple):
    """The arguments of `Recommender.recommend`."""

    k: int = 10
    exclude_seen: Any = True
    candidates: Any = None
    exclude: Any = None
    min_probability: Least = None
    min_score: float | None = None
    columns: Sequence[str] = ()
    rules: RuleOptions = {}  # noqa: RUF012  (nobody writes to it)


class Cut(NamedTuple):
    """The least probability and score of a recommended item; `by_cost`: the probability above which a cell pays."""

    probability: float
    score: float
    by_cost: bool = False


def make_lists(
    model: Recommender, batch: UserBatch, score_rows: RowScorer, wanted: RecommendOptions, reader: IdLookup
) -> Recommendations:
    """Return the best items for users, whose scores `score_rows` gives by their rows."""
    # 1. The options, checked.
    names = (*RecommendOptions._fields[:-1], "users", "unknown", "threads", *RULES)
    refuse_names("recommend", wanted.rules, names)
    k, cut = check_k(wanted.k), check_cut(model, wanted.min_probability, wanted.min_score)
    rules, columns = read_rules(model, wanted.rules, k, reader), check_columns(model, wanted.columns)
    # 2. The items that a list may have. They are applied to blocks of scores.
    limits = restrict(
        *(batch, model.items_, reader),
        seen=wanted.exclude_seen,
        candidates=wanted.candidates,
        exclude=wanted.exclude,
    )
    if rules is not None and rules.allowed is not None:
        limits.keep(np.flatnonzero(rules.allowed))
    # 3. The best items of each user: by popularity where nothing is known of the user.
    known = find_known(model, batch.activity, batch.rows)
    k, order = min(k, limits.count_left()), model.item_order
    if isinstance(score_rows, Products) and score_rows.is_single and rules is None:
        items, scores = score_rows.find_best(np.where(known, batch.rows, -1), k, limits, order)
    else:
        other = None if rules is None else score_popular(model)
        items, scores = top_k(
            lambda places: score_known(score_rows, batch.rows[places], known[places], len(model.items_), other),
            *(np.arange(len(batch)), len(model.items_), k),
            limits=limits,
            order=order,
            rank=None if rules is None else rules.rank,
        )
    # 4. The lists in the caller's ids.
    reader.warn()
    warn_of_no_history(int((~known).sum()), len(batch), "`fallback` marks them", int((batch.rows < 0).sum()))
    scores = np.where(~known[:, None] & (items >= 0), np.float32(0), scores)
    return name_lists(model, batch, (items, scores), cut, ~known, columns)


def rank_items(model: Scorer, rows: Rows, k: int, *, seen: Any = None, candidates: Rows | None = None) -> Top:
    """Return the k best items for users by row number: item rows and scores, shapes (len(rows), k).

    Cells stored in `seen`, sparse of shape (n_users, n_items), are left out; `candidates` are the rows of the items to
    choose among, None for all.
    """
    model.check_fitted()
    seen = check_sparse(seen, "seen") if sparse.issparse(seen) and seen is not model.seen_ else seen
    score_rows, order = model.row_scorer, model.item_order
    if not (isinstance(score_rows, Products) and score_rows.is_single):
        score_rows = partial(score_lists, model)
        return top_k(score_rows, rows, len(model.items_), k, seen=seen, candidates=candidates, order=order)
    limits = Restrictions(len(model.items_))
    if candidates is not None:
        limits.keep(np.asarray(candidates))
    if seen is not None:
        limits.leave_out(take_rows(sparse.csr_array(seen), rows))
    activity = model.seen_.indptr[rows + 1] - model.seen_.indptr[rows]
    return score_rows.find_best(np.where(find_known(model, activity, rows), rows, -1), k, limits, order)


def score_lists(model: Scorer, rows: Rows) -> Float32Array:
    """Return the scores used for lists: those of `score_rows`, but 0 for users without a history."""
    rows = np.asarray(rows)
    activity = model.seen_.indptr[rows + 1] - model.seen_.indptr[rows]
    return score_known(model.score_rows, rows, find_known(model, activity, rows), len(model.items_))


def name_items(model: Estimator, item_rows: Rows) -> tuple[AnyArray, AnyArray | None]:
    """Return the ids and titles of items by row number, shapes (n,); None where there are no titles."""
    return model.items_.ids[item_rows], None if model.titles_ is None else model.titles_[item_rows]


def check_calibrated(model: Estimator) -> Calibration:
    """Return the calibration of a model; an error without one."""
    if model.calibration_ is None:
        raise ParameterError(
            f"this {type(model).__name__} has no probabilities yet; call calibrate(heldout) with events that it was"
            " not fitted to (on the command line, csrr calibrate)"
        )
    return model.calibration_


def find_known(model: Estimator, activity: Rows, rows: Rows) -> BoolArray:
    """Return whether each user's scores are meaningful, shape (n,): with a history, unless the model needs none."""
    known: BoolArray = (activity > 0) | (model.knows_everyone & (rows >= 0))
    return known


def score_popular(model: Recommender) -> Float32Array:
    """Return the scores that rules start from where nothing is known of a user, shape (n_items,)."""
    return np.log1p(model.popularity).astype(np.float32)


def score_known(
    score_rows: RowScorer, rows: Rows, known: BoolArray, n_items: int, otherwise: Float32Array | None = None
) -> Float32Array:
    """Return the scores of all items by user rows, shape (n, n_items).

    Users who are not `known`, shape (n,), get the scores `otherwise`, shape (n_items,), or 0.
    """
    if known.all():
        return score_rows(rows)
    scores = np.zeros((len(rows), n_items), np.float32)
    if otherwise is not None:
        scores[~known] = otherwise
    if known.any():
        scores[known] = score_rows(rows[known])
    return scores


def warn_of_no_history(n: int, n_users: int, mark: str, n_unknown: int = 0) -> None:
    """Warn once that `n` of the users got popular items; `mark` says how the result marks them."""
    if n:
        has, gets = ("has", "gets") if n == 1 else ("have", "get")
        unknown = f" ({n_unknown:,} unknown)" if n_unknown else ""
        users = f"{n_users:,} user{'' if n_users == 1 else 's'}"
        warn_caller(f"{n:,} of {users} {has} no history{unknown} and {gets} popular items; {mark}", NoHistoryWarning)


def check_cut(model: Recommender, probability: Least, score: float | None) -> Cut:
    """Return the limits below which items are left out."""
    by_cost = probability == "cost"
    if probability == "cost" and (probability := model.decision_probability) is None:
        raise ParameterError(f'min_probability="cost": this {type(model).__name__} has no costs; give a number')
    if probability is not None:
        check_number("min_probability", probability, least=0, most=1)
        check_calibrated(model)
    if score is not None:
        check_number("min_score", score)
    return Cut(float(probability or 0), -np.inf if score is None else float(score), by_cost)


def name_lists(
    model: Recommender, batch: UserBatch, found: Top, cut: Cut, fallback: BoolArray, columns: Sequence[str] = ()
) -> Recommendations:
    """Return the lists that `top_k` found for users, in the caller's ids, without items below the limits."""
    items, scores = found
    calibration = model.calibration_
    known = None if calibration is None else calibration.probability(scores, batch.activity[:, None], items)
    out = scores < cut.score
    if known is not None:
        least: Any = cut.probability
        if cut.by_cost:
            mine = batch.rows if batch.known is model.users_ else np.full(len(batch), -1)
            least = model.decide_cells(mine[:, None], items)
        out |= known < least
        known[out] = 0
    items, scores = np.where(out, np.int32(NO_ITEM), items), np.where(out, np.float32(-np.inf), scores)
    # With curves of groups an item may be left out before one that stays: the others then move up, in their order.
    order = np.argsort(out, axis=1, kind="stable")
    items, scores = np.take_along_axis(items, order, 1), np.take_along_axis(scores, order, 1)
    known = None if known is None else np.take_along_axis(known, order, 1)
    recs = Recommendations.from_rows(batch.ids, items, scores, model.items_, model.titles_, known, fallback)
    return replace(recs, columns=_look_up(model, items, columns)) if columns else recs


def check_columns(model: Recommender, columns: Sequence[str]) -> Sequence[str]:
    """Return the names of columns of the item table, each once, after a check."""
    if isinstance(columns, str):
        raise ParameterError(f"columns={columns!r}: give a list of names, such as columns=[{columns!r}]")
    for name in columns:
        need_table(model, "columns")[name]
        if name in SHOWN_COLUMNS:
            raise ParameterError(f"columns: the result has a column {name!r} of its own; rename that of the item table")
    return tuple(dict.fromkeys(columns))


def _look_up(model: Recommender, items: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Return columns of the item table for listed items, shapes (n, k), None where a list has no item."""
    table, there, found = need_table(model, "columns"), items >= 0, {}
    for name in columns:
        found[name] = np.full(items.shape, None, np.object_)
        found[name][there] = table[name].show(items[there])
    return found


def check_k(k: int) -> int:
    """Return the length of a list, a whole number from 1 on."""
    check_whole("k", k, least=1)
    return int(k)


_TEXT = pa.string()
_COLUMN_TYPES: dict[Kind, pa.DataType] = {
    "number": pa.float64(),
    "whole": pa.int64(),
    "flag": pa.bool_(),
    "date": _TEXT,
    "category": _TEXT,
    "categories": _TEXT,
}
"""The types of columns of an item table in a file."""


class WrittenLists(NamedTuple):
    """The file of `recommend_to`: its path, the numbers of users and of rows, and the length of the longest list.

    `n_fallback` of the users got popular items.
    """

    path: str
    n_users: int
    n_rows: int
    k: int
    n_fallback: int


def list_user_ids(model: Recommender, users: Any, options: dict[str, Any]) -> AnyArray:
    """Return the ids of the users, shape (n,)."""
    return model.users_.ids if users is None else read_asked(list_ids(users), IdLookup(options.get("unknown", "raise")))


def take_matrix_rows(options: dict[str, Any], part: slice, shape: tuple[int, int]) -> dict[str, Any]:
    """Return the options for some of the users: of a matrix of this `shape`, which has a row for each, their rows."""
    found = dict(options)
    for name, value in options.items():
        is_matrix = bool(sparse.issparse(value))
        if is_matrix and value.shape == shape:
            found[name] = sparse.csr_array(check_sparse(value, name))[part]
    return found


def make_list_schema(model: Recommender, users: Any, options: dict[str, Any]) -> pa.Schema:
    """Return the columns that lists can have, whether or not a batch has them."""
    columns_of_ids = {"user": list_user_ids(model, users, options), "item": model.items_.ids}
    kinds = {name: pa.int64() if ids.dtype != object else pa.string() for name, ids in columns_of_ids.items()}
    kinds |= {"rank": pa.int64(), "score": pa.float32()}
    kinds |= {} if model.calibration_ is None else {"probability": pa.float32()}
    kinds |= {} if model.titles_ is None else {"title": pa.string()}
    if model.item_table_ is not None:
        columns = model.item_table_.columns
        kinds |= {name: _COLUMN_TYPES[columns[name].kind] for name in options.get("columns", ()) if name in columns}
    may_fall_back = options.get("unknown") == "ignore" or not (np.diff(model.seen_.indptr) > 0).all()
    return pa.schema(kinds | ({"why": pa.string()} if may_fall_back else {}))


def fit_to_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of the schema; those that it does not have are filled with nulls."""
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(schema.names).cast(schema)
