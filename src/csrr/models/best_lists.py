"""From people and wishes to lists, step by step: what `recommend` does, for users of a model and for new people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from csrr.arrays import BoolArray, Float32Array, Rows
from csrr.data.errors import NoHistoryWarning, warn_caller
from csrr.models.asked_ids import IdReader
from csrr.models.item_choices import People, restrict
from csrr.models.read_rules import RuleOptions, need_table, read_rules
from csrr.parameters import ParameterError, check_number, refuse_names
from csrr.ranking import Recommendations, top_k
from csrr.ranking.recommendations import SHOWN_COLUMNS
from csrr.ranking.score_blocks import RowScorer
from csrr.ranking.topk import NO_ITEM, Top

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender

Least = float | Literal["cost"] | None


class Wishes(NamedTuple):
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
    model: Recommender, people: People, score_rows: RowScorer, wishes: Wishes, reader: IdReader
) -> Recommendations:
    """Return the best items for people, whose scores `score_rows` gives by their rows."""
    # 1. What is asked for, checked.
    names = (*Wishes._fields[:-1], "users", "unknown", "threads", *RuleOptions.__annotations__)
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


def _warn_of_no_history(missing: BoolArray, people: People) -> None:
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
    model: Recommender, people: People, found: Top, cut: Cut, fallback: BoolArray, columns: Sequence[str] = ()
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
