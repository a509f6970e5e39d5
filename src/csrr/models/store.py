"""A fitted model as arrays and plain facts, and back."""

from __future__ import annotations

import os
from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from csrr.data import IdMap
from csrr.data.event_types import MOST_TYPES, EventTypes
from csrr.models.kept import (
    FLOATS,
    Arrays,
    Ids,
    Kept,
    ModelFileError,
    Part,
    Sizes,
    Sparse,
    Texts,
    Values,
    write_record,
)
from csrr.models.kept_items import START as ITEM_TABLE
from csrr.models.kept_items import item_table_arrays, item_table_from, item_table_parts
from csrr.models.model_file import TYPES, write
from csrr.models.text_arrays import sparse_arrays, sparse_from, text_arrays, text_from
from csrr.optim.solver import Step
from csrr.parameters import is_fitted_name, list_fitted_names
from csrr.ranking.calibration import Calibration
from csrr.registry import HOMES

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender

_COLUMNS = 2**24
"""So many columns a sparse array of a model of one's own may have in any file."""

FLOAT32_MOST, FLOAT64_MOST = (float(np.finfo(each).max) for each in (np.float32, np.float64))

State = tuple[Arrays, dict[str, Any]]

# What every model keeps of its training log

TYPES_OF_EVENTS: tuple[Part, ...] = (
    Texts("seen.types", "types", optional=True),
    Values("seen.types.amounts", ("events", "types"), least=0, most=FLOAT32_MOST, optional=True),
    Values("seen.types.target", (1,), ("int64",), least=-1, most=MOST_TYPES, optional=True),
)
COMMON: tuple[Part, ...] = (
    Ids("users"),
    Ids("items"),
    Texts("titles", "items", optional=True),
    Sparse("seen", ("users", "items"), None, "events"),
    Values("seen.weights", ("events",), above=0, most=FLOAT32_MOST, optional=True),
    Values(
        "seen.times", ("events",), ("int32", "int64", "float64"), least=-FLOAT64_MOST, most=FLOAT64_MOST, optional=True
    ),
    *TYPES_OF_EVENTS,
    # Of logs with times; files from before have none, and popularity is then the number of events.
    Values("recent_popularity", ("items",), ("float64",), least=0, optional=True),
    Values("item_ages", ("items",), ("float64",), least=0, most=np.inf, optional=True),
)
_BIN = ("edges+1",)
CALIBRATION: tuple[Part, ...] = (
    Values("calibration.edges", ("edges",), least=-np.inf, most=np.inf),
    Values("calibration.n_cells", _BIN, ("int64",), least=0),
    Values("calibration.n_positives", _BIN, ("int64",), least=0),
    Values("calibration.probabilities", _BIN, ("float64",), least=0, most=1),
    Values("calibration.numbers", (2,), ("float64",), least=0),
)
_GROUP = ("activity ends+1", "popularity ends+1", "edges+1")
CALIBRATION_GROUPS: tuple[Part, ...] = (
    Values("calibration.groups.popularity", ("items",), ("int64",), least=0),
    Values("calibration.groups.popularity_ends", ("popularity ends",), ("int64",), least=0),
    Values("calibration.groups.activity_ends", ("activity ends",), ("int64",), least=0),
    Values("calibration.groups.n_cells", _GROUP, ("int64",), least=0),
    Values("calibration.groups.n_positives", _GROUP, ("int64",), least=0),
    Values("calibration.groups.probabilities", _GROUP, ("float64",), least=0, most=1),
)
STEPS = Values("history", ("steps", len(fields(Step))), ("float64",), is_free=True)


def factors(rank: str = "rank") -> tuple[Part, ...]:
    """Return the parts that factors of users and items are, float32 of shapes (n_users, d) and (n_items, d)."""
    return Values("user_factors", ("users", rank)), Values("item_factors", ("items", rank))


def ids_arrays(name: str, ids: IdMap) -> Arrays:
    """The ids of a map, integers or strings."""
    return {name: ids.ids} if ids.ids.dtype.kind == "i" else text_arrays(name, ids.ids)


def ids_from(arrays: Arrays, name: str) -> IdMap:
    """What `ids_arrays` was given; ids that are in no order would stand for other rows."""
    found = arrays[name] if name in arrays else text_from(arrays, name)
    ids = IdMap(found)
    if not np.array_equal(ids.ids, found):
        raise ModelFileError(f"the ids of {name} are not in order")
    return ids


def step_arrays(history: list[Step]) -> Arrays:
    """The steps of a fit, a row each."""
    return {"history": np.array([astuple(step) for step in history], np.float64).reshape(-1, len(fields(Step)))}


def steps_from(arrays: Arrays) -> list[Step]:
    """What `step_arrays` was given."""
    if not (np.abs(arrays["history"][:, [0, 3]]) < 2**53).all():
        raise ModelFileError("array 'history' counts steps and ranks by what is no number")
    return [Step(int(i), o, g, int(r), t) for i, o, g, r, t in arrays["history"].tolist()]


# A model


def kept_by(model: Recommender, arrays: Arrays) -> tuple[Kept, bool]:
    """Return what a file of the model may hold, and whether others may be there: a model of one's own says itself."""
    common = COMMON
    for start, parts in (("calibration.", CALIBRATION), ("calibration.groups.", CALIBRATION_GROUPS)):
        common += parts if any(name.startswith(start) for name in arrays) else ()
    common += item_table_parts(arrays)
    own = model.kept
    is_ours = own is not None and type(model).__name__ in HOMES
    return (Kept(common) if own is None else Kept(common + own.arrays, own.facts)), not is_ours


def write_model(path: str | os.PathLike[str], model: Recommender) -> None:
    """Write a fitted model: its parameters, what recommending needs of the training log, and its own state."""
    own, facts = model.state()
    arrays: Arrays = {**ids_arrays("users", model.users_), **ids_arrays("items", model.items_)}
    if model.titles_ is not None:
        arrays |= text_arrays("titles", model.titles_)
    arrays |= sparse_arrays("seen", model.seen_, with_data=False)
    columns = {"seen.weights": model.seen_weights_, "seen.times": _narrow_times(model.seen_times_)}
    columns |= {"recent_popularity": model.recent_popularity, "item_ages": model.item_ages}
    arrays |= {name: column for name, column in columns.items() if column is not None}
    if model.event_types is not None:
        arrays |= _type_arrays(model.event_types)
    if model.item_table_ is not None:
        arrays |= item_table_arrays(model.item_table_)
    if model.calibration_ is not None:
        arrays |= model.calibration_.arrays()
    arrays |= own
    # What could not be read again is not written.
    model.check_params()
    kept, others = kept_by(model, arrays)
    sizes: Sizes = {}
    kept.check(arrays, sizes, others=others)
    _check_sizes(model, sizes)
    facts = {name: write_record(value) for name, value in facts.items()}
    write(path, {"model": type(model).__name__, "params": model.get_params(), "facts": facts}, arrays)


def _type_arrays(types: EventTypes) -> Arrays:
    """The types of the training events; the target is a place among their names, -1 where there is none."""
    target = -1 if types.target is None else types.names.index(types.target)
    return {
        **text_arrays("seen.types", np.array(types.names, np.object_)),
        "seen.types.amounts": types.amounts,
        "seen.types.target": np.array([target], np.int64),
    }


def _types_from(arrays: Arrays) -> EventTypes | None:
    """What `_type_arrays` was given."""
    if not any(name in arrays for part in TYPES_OF_EVENTS for name in part.names):
        return None
    if missing := [name for part in TYPES_OF_EVENTS for name in part.names if name not in arrays]:
        raise ModelFileError(f"array {missing[0]!r} is missing")
    names = tuple(text_from(arrays, "seen.types").tolist())
    target, amounts = int(arrays["seen.types.target"][0]), arrays["seen.types.amounts"]
    if len(set(names)) < len(names) or None in names or not 1 <= len(names) <= MOST_TYPES or target >= len(names):
        raise ModelFileError("the event types are not distinct names, one of them the target")
    if not (amounts > 0).any(axis=1).all():
        raise ModelFileError("an event is of no type")
    return EventTypes(names, amounts, None, None if target < 0 else names[target])


def _narrow_times(times: Any) -> Any:
    """Return times in 32 bits where these hold them, as they do whole seconds until 2038."""
    if times is None or times.dtype != np.int64:
        return times
    narrow = times.astype(np.int32)
    return narrow if np.array_equal(narrow, times) else times


def restore_model(model: Recommender, arrays: Arrays, facts: dict[str, Any]) -> None:
    """Set what `write_model` wrote of a fitted model, but for its parameters, once it is what the model declares."""
    kept, others = kept_by(model, arrays)
    sizes: Sizes = {}
    kept.check(arrays, sizes, others=others)
    facts = kept.read_facts(facts, others=others)
    model.users_, model.items_ = ids_from(arrays, "users"), ids_from(arrays, "items")
    model.titles_ = text_from(arrays, "titles") if "titles.text" in arrays else None
    model.seen_ = sparse_from(arrays, "seen", (sizes["users"], sizes["items"]))
    model.seen_weights_, model.seen_times_ = arrays.get("seen.weights"), arrays.get("seen.times")
    model.remember_types(_types_from(arrays))
    model.remember_recent(arrays.get("recent_popularity"), arrays.get("item_ages"))
    model.item_table_ = item_table_from(arrays, model.items_, model.titles_)
    model.calibration_ = Calibration.from_arrays(arrays)
    model.restore(arrays, facts)
    _check_sizes(model, sizes)


def _check_sizes(model: Recommender, sizes: Sizes) -> None:
    """Raise ModelFileError for a model of no events, and for undeclared factors of other users and items than its."""
    if sizes["events"] == 0:
        raise ModelFileError("holds no training events; a model is fitted to one at least")
    if model.has_factors and model.kept is None:
        own = {name: getattr(model, f"{name}_", np.empty(0)) for name in ("user_factors", "item_factors")}
        for name, rows in (("user_factors", "users"), ("item_factors", "items")):
            Values(name, (rows, "rank"), FLOATS).check(own, sizes)


def plain_state(model: Recommender) -> State:
    """Return the fitted attributes of a model, as far as they are arrays, sparse arrays or plain values."""
    arrays: Arrays = {}
    facts: dict[str, Any] = {}
    for name in list_fitted_names(model):
        value: Any = getattr(model, name)
        if isinstance(value, sparse.csr_array):
            arrays |= sparse_arrays(name, value)
            facts[name] = {"shape": list(value.shape)}
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        elif value is None or isinstance(value, bool | int | float | str | np.generic):
            facts[name] = value
        else:
            raise NotImplementedError(
                f"{type(model).__name__}.{name}, a {type(value).__name__}, cannot be saved as it is: write the methods"
                " state and restore"
            )
    return arrays, facts


def restore_plain(model: Recommender, arrays: Arrays, facts: dict[str, Any]) -> None:
    """Set what `plain_state` returned, and nothing else: a file must not set what is no fitted attribute."""
    taken = {name for part in COMMON + CALIBRATION for name in part.names}
    taken |= {name for name in arrays if name.startswith(ITEM_TABLE)}
    for name, value in facts.items():
        if not is_fitted_name(name) or name in arrays:
            raise ModelFileError(f"a fact {name!r} is no fitted attribute of a {type(model).__name__}")
        if isinstance(value, dict):
            taken |= {f"{name}.{part}" for part in ("indptr", "indices", "data")}
            setattr(model, name, sparse_from(arrays, name, _check_plain_sparse(arrays, name, value)))
        elif value is None or isinstance(value, bool | int | float | str):
            setattr(model, name, value)
        else:
            raise ModelFileError(f"the fact {name!r} is a {type(value).__name__}, not a plain value")
    for name in arrays.keys() - taken:
        if not is_fitted_name(name):
            raise ModelFileError(f"an array {name!r} is no fitted attribute of a {type(model).__name__}")
        setattr(model, name, arrays[name])


def _check_plain_sparse(arrays: Arrays, name: str, value: dict[str, Any]) -> tuple[int, int]:
    """Return the shape of a csr array of any type."""
    shape = value.get("shape")
    # Rows and entries have their bytes; columns have none, and may be many only in a large file.
    most = max(_COLUMNS, sum(array.nbytes for array in arrays.values()))
    is_shape = isinstance(shape, list) and len(shape) == 2 and all(type(n) is int and 0 <= n <= most for n in shape)
    if value.keys() != {"shape"} or shape is None or not is_shape:
        raise ModelFileError(f"the fact {name!r} is not the shape of a sparse array")
    entries = f"entries of {name}"
    data = Values(f"{name}.data", (entries,), tuple(TYPES), is_free=True)
    Sparse(name, (shape[0], shape[1]), data, entries, is_sorted=False).check(arrays, {})
    return shape[0], shape[1]
