"""Lists of the best items of users: the items they may contain, their making, and their writing to files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set, ValuesView
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, Float64Array, Int64Array, Rows
from csrr._base.text import show_argument, show_value
from csrr.data.errors import NoHistoryWarning, UnknownIdError, UnknownIdWarning, warn_caller
from csrr.data.ids import IdMap, convert_ids
from csrr.data.items import Categories, ColumnKind, ItemTable
from csrr.data.log import Log
from csrr.data.matrix import check_sparse
from csrr.parameters import ParameterError, check_number, check_whole, refuse_names
from csrr.ranking.calibration import Calibration
from csrr.ranking.rules import NO_LIMIT, Groups, Rules
from csrr.ranking.topk import NO_ITEM, Items, Products, Restrictions, RowScorer, Top, take_rows, top_k
from csrr.results.recommendations import SHOWN_COLUMNS, Recommendations
from csrr.rules import RULES, RuleOptions

if TYPE_CHECKING:
    from csrr.models.base import Recommender
    from csrr.models.estimator import Estimator
    from csrr.models.scorer import Scorer


Unknown = Literal["raise", "ignore", "mark"]
"""For unknown ids: raise an error, or leave out items and give users popular ones, with warnings or not."""

_WAY_OUT = {"item": "leaves out unknown items", "user": "gives unknown users popular items"}


class IdLookup:
    """Finds the rows of ids; an unknown id is an error, or is counted for one warning if it is to be ignored."""

    def __init__(self, unknown: Unknown) -> None:
        if unknown not in ("raise", "ignore", "mark"):
            raise ParameterError.of("unknown", unknown, 'must be "raise", "ignore" or "mark"')
        self.ignores: bool = unknown != "raise"
        self.warns: bool = unknown != "mark"
        self._left_out: dict[str, tuple[int, int]] = {}

    def find(self, known: IdMap, ids: Any, kind: Literal["user", "item"] = "user", place: str = "") -> Rows:
        """Return the row of each id, -1 for an unknown one that is to be ignored; `place` names the argument."""
        if self.ignores:
            return find_rows(known, ids, kind)
        try:
            return known.rows(ids, kind)
        except UnknownIdError as error:
            error.args = (f"{place}: {error}" if place else str(error),)
            error.hint = f"{show_argument('unknown', 'ignore')} {_WAY_OUT[kind]}"
            raise

    def find_counted(self, known: IdMap, ids: Any, kind: Literal["user", "item"], place: str) -> Rows:
        """Return the same; unknown ids are counted as left out."""
        return self.count(place, self.find(known, ids, kind, place))

    def find_known(self, known: IdMap, ids: Any, kind: Literal["user", "item"], place: str) -> Rows:
        """Return the rows of those ids that are known; the others are counted as left out."""
        rows = self.find_counted(known, ids, kind, place)
        return rows[rows >= 0]

    def count(self, place: str, rows: Rows) -> Rows:
        """Count the unknown ids among those of an argument, by their rows, and return these."""
        if n_unknown := int((rows < 0).sum()):
            before = self._left_out.get(place, (0, 0))
            self._left_out[place] = before[0] + n_unknown, before[1] + len(rows)
        return rows

    def warn(self) -> None:
        """Warn once of the ids that were left out."""
        if self._left_out and self.warns:
            counts = ", ".join(f"{n:,} of {n_ids:,} in {place}" for place, (n, n_ids) in self._left_out.items())
            warn_caller(f"unknown ids were left out: {counts}", UnknownIdWarning)
            self._left_out = {}


def read_asked(ids: Any, reader: IdLookup, kind: str = "user") -> AnyArray:
    """Return ids as an array, shape (n,); they may be of both types if unknown ones are ignored."""
    if reader.ignores and _has_both_types(ids):
        mixed = np.empty(len(ids), np.object_)
        mixed[:] = ids
        return mixed
    return convert_ids(ids, kind)


def find_rows(known: IdMap, ids: Any, kind: str = "user") -> Rows:
    """Return the row of each id, -1 for an unknown one; in a list of both types, those of the other are unknown."""
    if not _has_both_types(ids):
        return known.find(ids, kind)
    is_text = known.ids.dtype == np.object_
    mine = np.array([isinstance(each, str) == is_text for each in ids])
    rows = np.full(len(ids), -1, np.int64)
    rows[mine] = known.find([each for each, is_mine in zip(ids, mine, strict=True) if is_mine], kind)
    return rows


def _has_both_types(ids: Any) -> bool:
    """Return whether a list has integers and strings."""
    is_list = isinstance(ids, list | tuple) or getattr(ids, "dtype", None) == np.object_
    return is_list and len({isinstance(each, str) for each in ids if each is not None}) > 1


def find_user_rows(model: Estimator, users: Any) -> Rows:
    """Return the rows of users, shape (n,): of one id, of several, or of all for None."""
    return np.arange(len(model.users_)) if users is None else model.users_.rows(list_ids(users))


def is_one_id(ids: Any) -> bool:
    """Return whether this is one id, not several."""
    return isinstance(ids, str | int | float | np.generic)


def list_ids(ids: Any) -> Any:
    """Return ids as a list or array, also if there is only one."""
    if isinstance(ids, IdMap):
        return ids.ids
    if isinstance(ids, Set | ValuesView | Iterator | range):
        return list(ids)
    return [ids] if is_one_id(ids) else ids


_FORMS = "a dict from users to items, a table with user and item columns, or a sparse users x items matrix"


@dataclass(frozen=True, eq=False)
class UserBatch:
    """The users to make lists for, in their order.

    `ids`, shape (n,); `rows`, their rows among the `known` ids, -1 for an unknown one, shape (n,); `seen`, their
    histories, csr of shape (n, n_items); `left_out`, the part of these that lists leave out, or None for all.
    """

    ids: npt.NDArray[Any]
    rows: Rows
    known: IdMap
    seen: Any
    left_out: Any = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def activity(self) -> npt.NDArray[np.integer[Any]]:
        """The number of known events of each user, shape (n,)."""
        lengths: npt.NDArray[np.integer[Any]] = np.diff(self.seen.indptr)
        return lengths


def restrict(batch: UserBatch, items: IdMap, reader: IdLookup, asked: RecommendOptions) -> Restrictions:
    """Return the items that lists may have."""
    limits, seen = Restrictions(len(items)), asked.exclude_seen
    if asked.candidates is not None:
        limits.keep(read_items(asked.candidates, "candidates", batch, items, reader))
    if asked.exclude is not None:
        limits.leave_out(read_items(asked.exclude, "exclude", batch, items, reader))
    if isinstance(seen, bool | int | np.bool_):
        if seen:
            limits.leave_out(batch.seen if batch.left_out is None else batch.left_out)
    elif not is_for_each(seen):
        raise ParameterError(f"exclude_seen={show_value(seen)}: it must be True, False, {_FORMS}")
    else:
        limits.leave_out(read_items(seen, "exclude_seen", batch, items, reader))
    return limits


def read_items(given: Any, name: str, batch: UserBatch, items: IdMap, reader: IdLookup) -> Items:
    """Return the rows of items for all users, or cells of shape (n, n_items) if items are given for each user.

    These are given as a mapping, a table or a matrix; users that it does not name have no items.
    """
    if sparse.issparse(given):
        return _read_matrix(given, name, batch, len(items))
    if isinstance(given, Mapping):
        return _read_mapping(given, name, batch, items, reader)
    if is_for_each(given):
        return _read_table(given, name, batch, items, reader)
    ids = list_ids(given)
    if isinstance(ids, list | tuple) and any(not is_one_id(each) and each is not None for each in ids[:1]):
        raise ParameterError(f"{name}: a list of lists does not say whose they are; give {_FORMS}")
    if getattr(ids, "ndim", 1) != 1:
        raise ParameterError(f"{name}: an array of shape {ids.shape} is not a list of item ids; give one, or {_FORMS}")
    return reader.find_known(items, ids, "item", name)


def is_for_each(given: Any) -> bool:
    """Return whether items are given for each user."""
    return sparse.issparse(given) or isinstance(given, Mapping | Log) or hasattr(given, "columns")


def _read_matrix(given: Any, name: str, batch: UserBatch, n_items: int) -> Any:
    """Return the cells of a matrix with a row for each user of the batch, or for each known one."""
    n, n_known = len(batch), len(batch.known)
    in_order = np.array_equal(batch.rows, np.arange(n_known))
    if given.ndim != 2 or given.shape[1] != n_items or given.shape[0] not in (n, n_known):
        wanted = f"({n}, {n_items}), a row for each user asked for"
        wanted += f", or ({n_known}, {n_items}), a row for each of the model's" if n != n_known else ""
        raise ParameterError(f"{name}: the matrix has shape {given.shape}; it must be {wanted}")
    if n == n_known and not in_order:
        raise ParameterError(
            f"{name}: the matrix has {n} rows, and it is not clear whether they are in the model's order or in"
            " that of the users asked for; give a dict or a table"
        )
    cells = sparse.csr_array(check_sparse(given, name), copy=True)
    cells.sum_duplicates()
    cells.eliminate_zeros()
    return cells if given.shape[0] == n else take_rows(cells, batch.rows)


def _read_mapping(given: Mapping[Any, Any], name: str, batch: UserBatch, items: IdMap, reader: IdLookup) -> Any:
    """Return the cells of a mapping from users to their items."""
    for user, own in given.items():
        if own is None or isinstance(own, Mapping) or not (is_one_id(own) or hasattr(own, "__len__")):
            raise ParameterError(
                f"{name}: what is given for user {show_value(user)} is not a list of item ids: {show_value(own)}"
            )
    try:
        own_rows, users = _find_named_users(list(given), batch, reader, name)
    except KeyError as error:
        is_columns = {"user", "item"} <= set(map(str, given))
        more = "; a dict gives items by user: for a dict of columns, csrr.Log.from_table" if is_columns else ""
        error.args = (f"{error}{more}",)
        raise
    lists = [list(list_ids(own)) for own in given.values()]
    columns = reader.find_counted(items, [item for own in lists for item in own], "item", name)
    return _collect(np.repeat(users, [len(own) for own in lists]), columns, own_rows, (len(given), len(items)))


def _read_table(given: Any, name: str, batch: UserBatch, items: IdMap, reader: IdLookup) -> Any:
    """Return the cells of a table with user and item columns; other columns are not read."""
    log = given
    if not isinstance(given, Log):
        log = Log.from_table(given, rating=False, weight=False, time=False, title=False)
    own_rows, users = _find_named_users(log.users.ids, batch, reader, name)
    columns = reader.find_counted(items, log.items.ids, "item", name)
    return _collect(users[log.user_rows], columns[log.item_rows], own_rows, (log.n_users, len(items)))


def _find_named_users(named: Any, batch: UserBatch, reader: IdLookup, name: str) -> tuple[Rows, Rows]:
    """Return the row of each user of the batch among the named users, -1 for none, and the row of each named user.

    A named user who is neither in the batch nor known is an error, or is ignored.
    """
    names = IdMap(named)
    own_rows = find_rows(names, batch.ids)
    rows = batch.known.find(names.ids)
    rows[own_rows[own_rows >= 0]] = 0
    if reader.ignores:
        reader.count(f"the users of {name}", rows)
    elif (rows < 0).any():
        reader.find(batch.known, names.ids[rows < 0], "user", name)
    return own_rows, names.rows(named)


def _collect(rows: Rows, columns: Rows, own_rows: Rows, shape: tuple[int, int]) -> Any:
    """Return cells as csr, with the row of each user of the batch."""
    known = columns >= 0
    cells = sparse.coo_array((np.ones(int(known.sum()), np.bool_), (rows[known], columns[known])), shape=shape).tocsr()
    return take_rows(cells, own_rows)


@dataclass(eq=False)
class RuledLists:
    """Lists of length k, with the questions that a rule may ask of the model and the effects it may have.

    Attributes
    ----------
    model
        The model that makes the lists.
    k
        Their length.
    reader
        Finds the rows of ids.
    diversity
        The weight of how unlike the items of a list are, from 0 to 1.
    vectors
        Vectors of items whose products say how alike they are, shape (n_items, d); None for the model's.
    """

    model: Recommender
    k: int
    reader: IdLookup
    diversity: float = 0.0
    vectors: Float32Array | None = None
    _allowed: BoolArray | None = None
    _bonuses: list[Float64Array] = field(default_factory=list)
    _limits: dict[str, dict[str, Int64Array]] = field(default_factory=dict)

    def table(self, rule: str) -> ItemTable:
        """Return the item table of the model."""
        return need_table(self.model, rule)

    def categories(self, rule: str, name: str) -> Categories:
        """Return the categories of the items by a column."""
        return find_categories(self.model, rule, name)

    def find_items(self, ids: list[Any], rule: str) -> Rows:
        """Return the rows of items, -1 for those that are unknown and to be ignored."""
        return self.reader.find_counted(self.model.items_, ids, "item", rule) if ids else np.empty(0, np.int64)

    def keep(self, items: BoolArray) -> None:
        """Leave out all items but these, shape (n_items,)."""
        self._allowed = items if self._allowed is None else self._allowed & items

    def add(self, bonus: Float64Array) -> None:
        """Add to each user's scores, in units of that user's spread; shape (n_items,)."""
        self._bonuses.append(bonus)

    def limit(self, column: str, **counts: Int64Array) -> None:
        """Limit how many items of each category of a column a list has: at `most`, and at `least`."""
        self._limits[column] = self._limits.get(column, {}) | counts

    def make_rules(self) -> Rules:
        """Return all of it on item rows."""
        groups = self._make_groups()
        if (n := int(groups.least.sum())) > self.k:
            raise ParameterError(
                f"at_least asks for {n} items in all, and lists have {self.k}; ask for fewer, or a larger k"
            )
        vectors = self.model.item_vectors if self.diversity and self.vectors is None else self.vectors
        bonus = np.sum(self._bonuses, axis=0).astype(np.float32) if self._bonuses else None
        return Rules(groups, self._allowed, bonus, self.diversity, vectors)

    def _make_groups(self) -> Groups:
        several = []
        for name, counts in self._limits.items():
            categories = self.categories("at_most" if "most" in counts else "at_least", name)
            n = len(categories.names)
            most, least = counts.get("most", np.full(n, NO_LIMIT)), counts.get("least", np.zeros(n, np.int64))
            if (wrong := least > most).any():
                place = int(wrong.argmax())
                raise ParameterError(
                    f"{show_value(name)} {show_value(categories.names[place])}: at_least {least[place]} and at_most"
                    f" {most[place]} contradict each other"
                )
            several.append(Groups(categories.members, most, least))
        return Groups.join(several) if several else Groups.none(len(self.model.items_))


def read_rules(model: Recommender, asked: RuleOptions, k: int, reader: IdLookup) -> Rules | None:
    """Return the rules for lists of length k; None if none are given."""
    refuse_names("rules", asked, RULES)
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    lists = RuledLists(model, k, reader)
    for name, rule in RULES.items():
        if name in given:
            rule.apply(given[name], lists)
    return lists.make_rules() if given else None


def need_table(model: Recommender, rule: str) -> ItemTable:
    """Return the item table of a model; an error that names the `rule` if there is none."""
    if model.item_table_ is None:
        raise ParameterError(
            f"{show_argument(rule)} asks for columns of an item table, and the model has none: call set_items(table)"
            " first (on the command line, --items FILE)"
        )
    return model.item_table_


def find_categories(model: Recommender, rule: str, name: str) -> Categories:
    """Return the categories of the items by a column."""
    column = need_table(model, rule)[name]
    found = column.to_categories()
    if found is None:
        raise ParameterError(
            f"{rule}: the column {show_value(name)} holds {column.kind} values, not categories; use a column of texts"
            " or whole numbers"
        )
    return found


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


def make_lists(
    model: Recommender, batch: UserBatch, score_rows: RowScorer, asked: RecommendOptions, reader: IdLookup
) -> Recommendations:
    """Return the best items for users, whose scores `score_rows` gives by their rows."""
    # 1. The options, checked.
    names = (*RecommendOptions._fields[:-1], "users", "unknown", "threads", *RULES)
    refuse_names("recommend", asked.rules, names)
    k = check_k(asked.k)
    check_thresholds(model, asked.min_probability, asked.min_score)
    rules, columns = read_rules(model, asked.rules, k, reader), check_columns(model, asked.columns)
    # 2. The items that a list may have. They are applied to blocks of scores.
    limits = restrict(batch, model.items_, reader, asked)
    if rules is not None and rules.allowed is not None:
        limits.keep(np.flatnonzero(rules.allowed))
    # 3. The best items of each user: by popularity where nothing is known of the user.
    known = mark_known(model, batch.activity, batch.rows)
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
    if reader.warns:
        warn_of_no_history(int((~known).sum()), len(batch), int((batch.rows < 0).sum()))
    scores = np.where(~known[:, None] & (items >= 0), np.float32(0), scores)
    return name_lists(model, batch, (items, scores), asked, ~known, columns)


def rank_items(model: Recommender, rows: Rows, k: int, *, seen: Any = None, candidates: Rows | None = None) -> Top:
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
    return score_rows.find_best(np.where(mark_known(model, activity, rows), rows, -1), k, limits, order)


def score_lists(model: Scorer, rows: Rows) -> Float32Array:
    """Return the scores used for lists: those of `score_rows`, but 0 for users without a history."""
    rows = np.asarray(rows)
    activity = model.seen_.indptr[rows + 1] - model.seen_.indptr[rows]
    return score_known(model.score_rows, rows, mark_known(model, activity, rows), len(model.items_))


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


def mark_known(model: Estimator, activity: Rows, rows: Rows) -> BoolArray:
    """Return whether each user's scores are meaningful, shape (n,): with a history, unless the model needs none."""
    known: BoolArray = (activity > 0) | (model.knows_everyone & (rows >= 0))
    if (described := model.described_users) is not None:
        known |= (rows >= 0) & described[rows]
    return known


def score_popular(model: Recommender) -> Float32Array:
    """Return the scores that rules start from for users without a history, shape (n_items,)."""
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


def warn_of_no_history(n: int, n_users: int, n_unknown: int = 0) -> None:
    """Warn once that `n` of the users got popular items."""
    if n:
        has, gets = ("has", "gets") if n == 1 else ("have", "get")
        unknown = f" ({n_unknown:,} unknown)" if n_unknown else ""
        users = f"{n_users:,} user{'' if n_users == 1 else 's'}"
        warn_caller(f"{n:,} of {users} {has} no history{unknown} and {gets} popular items", NoHistoryWarning)


def check_thresholds(model: Recommender, probability: Least, score: float | None) -> None:
    """Raise ParameterError for limits, below which items are left out, that are not valid."""
    if probability == "cost" and (probability := model.decision_probability) is None:
        what = f"needs costs, and this {type(model).__name__} has none; give a number"
        raise ParameterError.of("min_probability", "cost", what)
    if probability is not None:
        check_number("min_probability", probability, least=0, most=1)
        check_calibrated(model)
    if score is not None:
        check_number("min_score", score)


def name_lists(
    model: Recommender,
    batch: UserBatch,
    found: Top,
    asked: RecommendOptions,
    fallback: BoolArray,
    columns: Sequence[str] = (),
) -> Recommendations:
    """Return the lists that `top_k` found for users, in the caller's ids, without items below the limits."""
    items, scores = found
    calibration = model.calibration_
    known = None if calibration is None else calibration.probability(scores, batch.activity[:, None], items)
    out = scores < (-np.inf if asked.min_score is None else float(asked.min_score))
    if known is not None:
        if asked.min_probability == "cost":
            mine = batch.rows if batch.known is model.users_ else np.full(len(batch), -1)
            least = model.decide_cells(mine[:, None], items)
        else:
            least = float(asked.min_probability or 0)
        out |= known < least
        known[out] = 0
    if out.any():
        items, scores = np.where(out, np.int32(NO_ITEM), items), np.where(out, np.float32(-np.inf), scores)
        # With curves of groups an item may be left out before one that stays: the others then move up, in their order.
        order = np.argsort(out, axis=1, kind="stable")
        items, scores = np.take_along_axis(items, order, 1), np.take_along_axis(scores, order, 1)
        known = None if known is None else np.take_along_axis(known, order, 1)
    recs = Recommendations.from_rows(batch.ids, items, scores, model.items_, model.titles_, known, fallback)
    return replace(recs, unknown=batch.rows < 0, columns=_look_up(model, items, columns) if columns else {})


def check_columns(model: Recommender, columns: Sequence[str]) -> Sequence[str]:
    """Return the names of columns of the item table, each once, after a check."""
    if isinstance(columns, str):
        raise ParameterError.of("columns", columns, f"give a list of names, such as columns=[{columns!r}]")
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
_COLUMN_TYPES: dict[ColumnKind, pa.DataType] = {
    "number": pa.float64(),
    "whole": pa.int64(),
    "flag": pa.bool_(),
    "date": _TEXT,
    "category": _TEXT,
    "categories": _TEXT,
}
"""The types of columns of an item table in a file."""


class WrittenLists(NamedTuple):
    """Lists in a file or a table: its path or name, the numbers of users and of rows, the length of the longest list.

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
    may_fall_back = options.get("unknown", "raise") != "raise" or not (np.diff(model.seen_.indptr) > 0).all()
    return pa.schema(kinds | ({"why": pa.string()} if may_fall_back else {}))


def write_lists(
    place: str,
    batches: Iterator[Recommendations],
    schema: pa.Schema,
    write: Callable[[pa.Table], object],
    callback: Callable[[int], object] | None,
) -> WrittenLists:
    """Write batches of lists, and return how much that was; `callback` is told the number of users after each."""
    written = WrittenLists(place, 0, 0, 0, 0)
    with warnings.catch_warnings():
        # One warning for all batches together.
        warnings.simplefilter("ignore", NoHistoryWarning)
        warnings.simplefilter("once", UnknownIdWarning)
        for recs in batches:
            table = fit_to_schema(recs.to_arrow(), schema)
            write(table)
            counts = written.n_users + len(recs), written.n_rows + len(table), max(written.k, recs.k)
            written = WrittenLists(written.path, *counts, written.n_fallback + int(recs.fallback.sum()))
            if callback is not None:
                callback(written.n_users)
    warn_of_no_history(written.n_fallback, written.n_users)
    return written


def fit_to_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of the schema; those that it does not have are filled with nulls."""
    for each in schema:
        if each.name not in table.column_names:
            table = table.append_column(each, pa.nulls(len(table), each.type))
    return table.select(schema.names).cast(schema)
