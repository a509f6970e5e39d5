"""Hostile model files: bytes altered at random, and files made anew around something wrong, their checksums right."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import struct
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import csrr
from csrr._base.threads import use_threads
from csrr.registry import MODELS
from fuzz.campaign import Finding, limit_memory

PREFIX, ALIGN = 52, 64
TYPES = ("bool", "uint8", "int32", "int64", "float32", "float64", "int8", "uint64", "float16")
ODD_NUMBERS = (0, 1, -1, 2, 0.5, -0.0, 2**31, -(2**31), 2**63, 10**30, 3 * 10**8, 1e308, -1e308, 1e-320, 1e16)
ODD: tuple[Any, ...] = (
    *(None, True, False, *ODD_NUMBERS, math.inf, math.nan),
    *("", "x", "auto", "I", "float32", "0", "\ud800", "a" * 1000),
    *([], {}, [1], [[]], {"a": 1}, {"shape": [2, 2]}, [0, 3 * 10**8], [3 * 10**8, 0]),
)
FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 1.0, 1e30, -1e30, 3e38, 1e-40, 1e15)
"""What values of an array become."""
WATCHED = 4
"""One case in so many has its memory looked at."""
ALLOWANCE = 3 * 2**20
"""Bytes that loading may take beyond four times the file."""


class Own(csrr.Recommender):
    """A model from outside, which saves what it fitted as it is."""

    def __init__(self, damping: float = 0.5) -> None:
        self.damping = damping

    def fit(self, data: Any) -> Own:
        """Count which items go together."""
        log = self.read(data)
        self.remember(log)
        clicks = log.to_csr()
        self.together_, self.counts_ = (clicks.T @ clicks).tocsr(), log.item_counts().astype(np.float32)
        self.note_, self.n_events_ = "counted", len(log)
        return self

    def score_histories(self, seen: Any, rows: Any) -> Any:
        """Sums of what goes together, and some popularity."""
        scores = (seen[rows] @ self.together_).toarray() + np.float32(self.damping) * self.counts_
        return scores.astype(np.float32)


@dataclass
class File:
    """A model file taken apart: its header, and its arrays by place."""

    header: dict[str, Any]
    arrays: list[tuple[str, npt.NDArray[Any]]]

    @classmethod
    def parse(cls, data: bytes) -> File:
        """The parts of a file that is as it should be."""
        (length,) = struct.unpack_from("<Q", data, 12)
        header = json.loads(data[PREFIX : PREFIX + length])
        arrays = []
        for place in header.pop("arrays"):
            flat = np.frombuffer(data, place["dtype"], math.prod(place["shape"]), PREFIX + length + place["offset"])
            arrays.append((place["name"], flat.reshape(place["shape"])))
        return cls(header, arrays)

    def place(self) -> list[dict[str, Any]]:
        """Where the arrays lie."""
        places, offset = [], 0
        for name, array in self.arrays:
            places.append({"name": name, "dtype": array.dtype.name, "shape": list(array.shape), "offset": offset})
            offset += -(-array.nbytes // ALIGN) * ALIGN
        return places


def seal(text: bytes, payload: bytes, version: int = 1) -> bytes:
    """A file with this header and payload, and the checksum that goes with them."""
    text += b" " * (-(len(text) + PREFIX) % ALIGN)
    start = struct.pack("<8sIQ", b"CSRRMODL", version, len(text))
    return start + hashlib.sha256(start + text + payload).digest() + text + payload


def reseal(data: bytes) -> bytes:
    """The same bytes with the checksum that goes with them."""
    return data[:20] + hashlib.sha256(data[:20] + data[PREFIX:]).digest() + data[PREFIX:]


class ModelFiles:
    """Every kind of model, saved, altered and loaded: refused with a ModelFileError, or a model that works."""

    name = "models"
    about = "altered model files: refused by a ModelFileError, or a model that works; no crash, little memory"
    patience = 20.0

    def prepare(self) -> None:
        """Fit and save the models, and use each once: what they run is compiled then."""
        csrr.register(Own)
        with tempfile.TemporaryDirectory() as folder:
            self.whole = list(_save_models(Path(folder)))
            for place, data in enumerate(self.whole):
                self.check(data, _new(Path(folder) / str(place)))
        self.files = [File.parse(data) for data in self.whole]

    def make(self, rng: np.random.Generator) -> bytes:
        """A model file with something wrong: its bytes as they come, or its structure under a checksum that fits."""
        place = int(rng.integers(len(self.whole)))
        how = rng.random()
        if how < 0.1:
            return _alter_bytes(self.whole[place], rng)
        if how < 0.2:
            return reseal(_alter_bytes(self.whole[place], rng).ljust(PREFIX, b"\0"))
        source = self.files[place]
        file = File(json.loads(json.dumps(source.header)), list(source.arrays))
        for _ in range(1 + int(rng.random() < 0.2)):
            change = CHANGES[int(rng.integers(len(CHANGES)))]
            change(file, self.files[int(rng.integers(len(self.files)))], rng)
        return _pack(file, rng)

    def mend(self, data: bytes) -> bytes:
        """A file that begins as ours do, its checksum right, of any bytes."""
        return reseal(b"CSRRMODL" + data[8:].ljust(PREFIX - 8, b"\0"))

    def check(self, case: bytes, folder: Path) -> None:
        """Load it, and where that is allowed, use it."""
        path = folder / "model.csrr"
        path.write_bytes(case)
        try:
            # To look at memory takes longer than to load.
            is_watched = zlib.crc32(case) % WATCHED == 0
            watch = limit_memory(4 * len(case) + ALLOWANCE, "loading") if is_watched else nullcontext()
            with watch, warnings.catch_warnings():
                warnings.simplefilter("error")
                model = csrr.load(path)
        except csrr.ModelFileError as error:
            if not str(error).startswith(f"{path}: ") or len(str(error)) > 2000:
                raise Finding(f"a message that does not name the file, or is long: {str(error)[:300]}") from None
            if error.__cause__ is not None and b'"Own"' not in case:
                raise Finding(f"caught by the net, not by a check: {str(error).partition(': ')[2]}") from None
            return
        with warnings.catch_warnings(), use_threads(1):
            warnings.simplefilter("ignore")
            use(model, folder)


def use(model: Any, folder: Path) -> None:
    """Ask a model everything that a loaded one is asked."""
    users, items = model.users_.ids.tolist(), model.items_.ids.tolist()
    if not users or not items:
        repr(model)
        return
    is_own = isinstance(model, Own)  # whose arrays may be anything
    try:
        scores = model.score_rows(np.arange(len(users)))
    except Exception:
        if is_own:
            return
        raise
    _finite(scores, "scores", is_own)
    with answering(is_own):
        found = model.recommend(k=3)
        str(found), found.to_arrow()
    with answering(is_own):
        model.score(users[-1], items)
    with answering(is_own):
        _finite(model.fold_in([items[:3], items[-1:]]).score(), "scores of new people", is_own)
    with answering(is_own):
        model.recommend_for(items[:2], k=3)
    if model.can("explain"):
        with answering(is_own):
            _finite(model.explain(users[0], items[0]).amounts, "amounts", is_own)
    for ability, known in (("similar_items", items[0]), ("similar_users", users[0])):
        if model.can(ability):
            with answering(is_own):
                _finite(getattr(model, ability)(known, k=3).scores, ability, is_own)
    if model.calibration_ is not None:
        repr(model.calibration_)
        if not is_own and not ((p := model.probability(users[0])) >= 0).all() & (p <= 1).all():
            raise Finding("a probability is none")
    if model.item_table_ is not None:
        with answering(is_own):
            _use_items(model)
    if model.can("suspects"):
        with answering(is_own):
            _finite(model.suspects().scores, "scores of suspects", is_own)
    if hasattr(model, "specific_preferences"):
        with answering(is_own):
            str(model.specific_preferences(users[0]))
    with answering(is_own):
        csrr.export(model, folder / "vectors", dims=2, k=3)
    for name in ("certificate_", "chosen_", "costs_", "specific_", "reg_", "decision_probability"):
        str(getattr(model, name, ""))
    _evaluate(model, users, items, is_own)
    # What was loaded can be saved, and is the same then.
    model.save(folder / "again.csrr")
    again = csrr.load(folder / "again.csrr")
    if not np.array_equal(again.score_rows(np.arange(len(users))), scores, is_own):
        raise Finding("saved again it scores otherwise")
    _go_on(again, users, items, is_own)


def _go_on(model: Any, users: list[Any], items: list[Any], is_own: bool) -> None:
    """Add an item and an event: first beside the model, then to it."""
    new = "new" if isinstance(items[0], str) else max(items) + (1 if max(items) < 2**62 else 0)
    columns = {"user": users[:2], "item": [new] * len(users[:2]), "weight": [1] * len(users[:2])}
    events = columns | {"time": [10**9] * len(users[:2])}
    with answering(is_own):
        _finite(model.fold_in_items(events).score(), "scores of new items", is_own)
    # A file may ask for a fit without end; who fits it again gets that.
    limits = {name: min(getattr(model, name), 20) for name in ("max_iter", "epochs") if hasattr(model, name)}
    model.set_params(**limits)
    with answering(is_own):
        model.update(events)
        _finite(model.score_rows(np.arange(len(model.users_))), "scores after an update", is_own)


@contextmanager
def answering(is_own: bool) -> Iterator[None]:
    """An error that csrr has words for, or that a model cannot do this, is an answer too."""
    own = (ValueError,) if is_own else ()
    with suppress(NotImplementedError, csrr.DataError, csrr.ParameterError, csrr.UnknownIdError, *own):
        yield


def _use_items(model: Any) -> None:
    """Ask for all that an item table is for."""
    table = model.item_table_
    repr(table), table.to_arrow()
    for name, column in table.columns.items():
        if column.to_categories() is not None:
            model.recommend(k=3, at_most={name: 1}, diversity=0.5, diversity_by=name)
        elif not np.isnan(column.to_numbers()).all():
            model.recommend(k=3, fresh={"half_life": 10, "by": name}, where={name: (0, None)})


def _evaluate(model: Any, users: list[Any], items: list[Any], is_own: bool) -> None:
    rows, columns = np.nonzero(model.seen_[[0, len(users) - 1]].toarray() == 0)
    heldout = csrr.Log.from_table(
        {"user": [users[-row] for row in rows], "item": [items[column] for column in columns]}
    )
    with answering(is_own):
        csrr.evaluate(model, model.training_log(), heldout, at=2)


def _finite(values: Any, what: str, is_own: bool) -> None:
    if not is_own and not np.isfinite(values).all():
        raise Finding(f"{what} are not finite")


# Models to begin with


def _save_models(folder: Path) -> Iterator[bytes]:
    rng = np.random.default_rng(0)
    clicks = (rng.random((12, 9)) < 0.4) * rng.integers(1, 5, (12, 9))
    clicks[0, 0] = clicks[1, 1] = 1
    titled = csrr.Log.from_matrix(
        clicks,
        user_ids=[f"Zoë {i}" for i in range(12)],
        item_ids=[7 * i - 20 for i in range(9)],
        titles=[None, "", *(f"title {i}" for i in range(7))],
    )
    plain = csrr.Log.from_matrix((clicks > 0).astype(float))
    named = csrr.Log.from_matrix(clicks, item_ids=[chr(97 + i) * (i + 1) for i in range(9)])
    timed = replace(titled, times=86_400 * rng.integers(0, 9, len(titled)))
    ordered = replace(named, places=rng.permutation(len(named)))
    for place, (model, log) in enumerate(
        [
            (csrr.CSRR(neighbors=3, reg_low_rank=0.2, reg_sparse=0.6), titled),
            (csrr.CSRR("II", 3.0, event_weights="log", reg_low_rank=0.1, neighbors=0), named),
            (csrr.CSRR(box="paper", reg_low_rank=0.3, reg_sparse=0.7, max_iter=20), plain),
            (csrr.CSRRe(rank=3, reg_low_rank=0.2, neighbors=2), plain),
            (csrr.CSRRe(rank=2, factors="nonnegative", reg_low_rank=0.1, reg_sparse=0.7, max_iter=30), titled),
            (csrr.MCShift(reg_low_rank=0.3), named),
            (csrr.BiasMC(reg_low_rank=0.3), plain),
            (csrr.WRMF(rank=3, reg=1.0, event_weights="linear", max_iter=5), titled),
            (csrr.WRMF(rank=2, reg=2.0, max_iter=5), plain),
            (csrr.BPRMF(rank=3, epochs=3), named),
            (csrr.EASE(reg=5.0), titled),
            (csrr.ItemKNN(neighbors=4), plain),
            (csrr.PopRank(), titled),
            (Own(), named),
            (csrr.CSRR(half_life="2d", reg_low_rank=0.2, neighbors=2), timed),
            (csrr.MarkovChain(neighbors=4), timed),
            (csrr.VSKNN(neighbors=4), ordered),
            (csrr.CSRR(order="next", decay=0.5, reg_low_rank=0.2, neighbors=3), ordered),
        ]
    ):
        costs = {"item_costs": np.linspace(1, 2, 9)} if place == 0 else {}
        if "threads" in model.get_params():
            model.set_params(threads=1)
        model.fit(log, **costs)
        if place % 2 == 0:
            heldout = log.select(rng.random(len(log)) < 0.3)
            model.remember(log.select(~np.isin(np.arange(len(log)), _rows_of(log, heldout))))
            learned = model.calibrate(heldout, observed_share=0.5)
            model.remember(log)
            model.calibration_ = learned
        if place in (10, 12, 13):
            model.set_items(_make_items(model))
        _forget_times(model)
        path = folder / f"{place}.csrr"
        model.save(path)
        yield path.read_bytes()


def _make_items(model: Any) -> dict[str, Any]:
    """An item table with columns of every kind, and gaps in some."""
    return {
        "item": model.items_.ids,
        "title": ["one", None, *"abcdefg"],
        "genre": ["x|y", "y", None, "z", "x", "y|z", "", "x", "y"],
        "maker": ["ann", "bob", "ann", None, "eve", "ann", "bob", "eve", "eve"],
        "price": [1.5, None, 3.0, 2.0, 1.0, 9.0, 8.0, 7.0, 2.5],
        "pages": list(range(9)),
        "sold": [True, False, True] * 3,
        "released": [
            np.datetime64("2020-01-01", "s"),
            np.datetime64("NaT", "s"),
            *[np.datetime64("2021-05-05", "s")] * 7,
        ],
    }


def _rows_of(log: Any, part: Any) -> Any:
    """The places in a log of the events of a part of it."""
    keys, some = (each.user_rows.astype(np.int64) * log.n_items + each.item_rows for each in (log, part))
    return np.flatnonzero(np.isin(keys, some))


def _forget_times(model: Any) -> None:
    """The same model gives the same bytes."""
    if hasattr(model, "certificate_"):
        model.certificate_ = replace(model.certificate_, seconds=0.0)
    if hasattr(model, "certificate_") or isinstance(model, csrr.WRMF):
        model.history_ = [replace(step, seconds=0.0) for step in model.history_]


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


# Alterations of bytes


def _alter_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    first, last = sorted(int(n) for n in rng.integers(0, len(data) + 1, 2))
    last = min(last, first + int(rng.choice([1, 8, 64, 4096])))
    match int(rng.integers(6)):
        case 0:
            return data[:first]
        case 1:
            return data[:first] + data[last:]
        case 2:
            return data[:last] + data[first:]
        case 3:
            return data[:first] + rng.bytes(int(rng.integers(1, 65))) + data[first:]
        case 4:
            return data[:first] + rng.bytes(last - first) + data[last:]
    altered = bytearray(data)
    for place in rng.integers(0, len(data), int(rng.integers(1, 5))).tolist():
        altered[place] ^= 1 << int(rng.integers(8))
    return bytes(altered)


# Alterations of structure: each changes a file in place; another is there to take from


def _pick(rng: np.random.Generator, several: Any) -> Any:
    return several[int(rng.integers(len(several)))]


def _odd(rng: np.random.Generator) -> Any:
    if rng.random() < 0.03:
        deep: Any = 0
        for _ in range(int(_pick(rng, (20, 40, 900)))):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
        return deep
    if rng.random() < 0.2:
        return float(10.0 ** rng.uniform(-12, 12)) * _pick(rng, (1, -1))
    return copy.deepcopy(_pick(rng, ODD))


def _walk(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from _walk(each, (*path, key))


def _spot(root: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """A container somewhere in a header, and a key in it."""
    spots = list(_walk(root))
    path = _pick(rng, spots) if spots else ()
    for key in path[:-1]:
        root = root[key]
    return root, path[-1] if path else "new"


def _replace_value(file: File, other: File, rng: np.random.Generator) -> None:
    inside, key = _spot(file.header, rng)
    inside[key] = _odd(rng)


def _remove_value(file: File, other: File, rng: np.random.Generator) -> None:
    inside, key = _spot(file.header, rng)
    if len(inside):
        del inside[key]


def _add_value(file: File, other: File, rng: np.random.Generator) -> None:
    inside, _ = _spot(file.header, rng)
    name = _pick(
        rng, ("new", "l1", "seen_", "recommend", "__class__", "together_", "rank", "event_weights", "neighbors")
    )
    if isinstance(inside, dict):
        inside[name] = _odd(rng)


def _take_values(file: File, other: File, rng: np.random.Generator) -> None:
    key = _pick(rng, ("params", "facts"))
    if not isinstance(file.header.get(key), dict) or rng.random() < 0.3:
        file.header[key] = copy.deepcopy(other.header[key])
    else:
        file.header[key].update(copy.deepcopy(other.header[key]))


def _change_model(file: File, other: File, rng: np.random.Generator) -> None:
    file.header["model"] = _pick(rng, (*MODELS, "Nobody", "csrr"))
    if rng.random() < 0.5:
        file.header["params"] = {}


def _spot_array(file: File, rng: np.random.Generator) -> int | None:
    return int(rng.integers(len(file.arrays))) if file.arrays else None


def _altering(change: Callable[[npt.NDArray[Any], np.random.Generator], npt.NDArray[Any]]) -> Any:
    """A change of one array, whose place follows."""

    def alter(file: File, other: File, rng: np.random.Generator) -> None:
        if (at := _spot_array(file, rng)) is not None:
            name, array = file.arrays[at]
            file.arrays[at] = name, change(array, rng)

    return alter


def _change_values(array: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[Any]:
    changed = array.copy()
    if not changed.size:
        return changed
    spots = rng.integers(0, changed.size, int(_pick(rng, (1, 1, 3))))
    with np.errstate(all="ignore"):
        if changed.dtype.kind == "f":
            changed.flat[spots] = _pick(rng, FLOATS) if rng.random() < 0.7 else rng.normal(size=len(spots)) * 10.0**9
        elif changed.dtype.kind == "b":
            changed.view(np.uint8).flat[spots] = _pick(rng, (0, 1, 2, 255))
        else:
            info = np.iinfo(changed.dtype)
            near = int(changed.flat[spots[0]]) + int(_pick(rng, (-1, 1)))
            drawn = int(_pick(rng, (0, -1, 1, 8, 9, 12, 2**31 - 1, 10**9, info.max, info.min, near)))
            changed.flat[spots] = min(max(drawn, info.min), info.max)
    return changed


def _permute_values(array: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[Any]:
    if array.size < 2:
        return array
    changed = array.copy()
    a, b = rng.integers(0, array.size, 2)
    changed.flat[[a, b]] = changed.flat[[b, a]]
    return changed


def _scale_values(array: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[Any]:
    if array.dtype.kind != "f":
        return array
    with np.errstate(all="ignore"):
        return (array * array.dtype.type(10.0 ** rng.uniform(-30, 30))).astype(array.dtype)


def _exaggerate(array: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[Any]:
    """Rows, or all, as large or small as a file may have them, or alike."""
    changed = array.copy()
    if changed.dtype.kind == "f" and changed.size:
        rows = slice(None) if rng.random() < 0.5 else rng.integers(0, len(changed), 2)
        value = float(_pick(rng, (1e15, -1e15, 9e14, 1e8, 1e-8, 1e-38, 1e-45, 5e-324, 0.0)))
        with np.errstate(all="ignore"):
            changed[rows] = value if rng.random() < 0.5 else np.clip(changed[rows] * value * 1e3, -1e15, 1e15)
    return changed


def _random_bytes(array: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[Any]:
    return np.frombuffer(rng.bytes(array.nbytes), array.dtype).reshape(array.shape)


def _change_type(array: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[Any]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return array.astype(_pick(rng, TYPES))


def _change_shape(array: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[Any]:
    match int(rng.integers(7)):
        case 0:
            return array[:-1]
        case 1:
            return np.concatenate([array, array[-1:]])
        case 2:
            return array.T
        case 3:
            return array[None]
        case 4:
            return np.zeros(_pick(rng, ((0,), (0, 0), (), (len(array), 0), (10**6, 0), (2, 2, 2))), array.dtype)
        case 5:
            return array.reshape(-1)
    return array[..., :-1]


def _remove_array(file: File, other: File, rng: np.random.Generator) -> None:
    if (at := _spot_array(file, rng)) is not None:
        del file.arrays[at]


def _remove_group(file: File, other: File, rng: np.random.Generator) -> None:
    if (at := _spot_array(file, rng)) is not None:
        stem = file.arrays[at][0].split(".")[0]
        file.arrays = [each for each in file.arrays if each[0].split(".")[0] != stem]


def _take_array(file: File, other: File, rng: np.random.Generator) -> None:
    if (at := _spot_array(other, rng)) is not None:
        stem = other.arrays[at][0].split(".")[0]
        file.arrays += [each for each in other.arrays if each[0].split(".")[0] == stem]
        if rng.random() < 0.5:
            file.arrays = list(dict(file.arrays).items())


def _rename_array(file: File, other: File, rng: np.random.Generator) -> None:
    if (at := _spot_array(file, rng)) is not None:
        names = ("x", "", "seen_", "together_", "users", "users.text", "weights", "recommend_", file.arrays[0][0])
        file.arrays[at] = _pick(rng, names), file.arrays[at][1]


def _swap_arrays(file: File, other: File, rng: np.random.Generator) -> None:
    if (a := _spot_array(file, rng)) is not None and (b := _spot_array(file, rng)) is not None:
        (first, one), (second, two) = file.arrays[a], file.arrays[b]
        file.arrays[a], file.arrays[b] = (first, two), (second, one)


def _cut_rows(file: File, other: File, rng: np.random.Generator) -> None:
    """All users or items less, where an array has as many: shapes that go together."""
    size = int(_pick(rng, (12, 9, 13, 10)))
    new = int(_pick(rng, (0, 1, size - 1, size + 1)))
    for at, (name, array) in enumerate(file.arrays):
        if array.ndim and array.shape[0] == size:
            file.arrays[at] = name, np.resize(array, (new, *array.shape[1:])) if array.size else array[:new]


CHANGES: list[Any] = [
    *[_replace_value] * 6,
    *(_remove_value, _add_value, _take_values, _change_model, _remove_array, _remove_group, _take_array),
    *(_rename_array, _swap_arrays, _cut_rows),
    *[_altering(_change_values)] * 6,
    *[_altering(_exaggerate)] * 3,
    *[_altering(each) for each in (_permute_values, _scale_values, _random_bytes, _change_type, _change_shape)],
]


def _pack(file: File, rng: np.random.Generator) -> bytes:
    """The file of a header and arrays, now and then with their places wrong."""
    places: Any = file.place()
    how = rng.random()
    if how < 0.08 and places:
        place = _pick(rng, places)
        key = _pick(rng, tuple(place))
        place[key] = _odd(rng)
    elif how < 0.12 and len(places) > 1:
        a, b = _pick(rng, places), _pick(rng, places)
        a["offset"], b["offset"] = b["offset"] + int(_pick(rng, (0, 1, 64))), a["offset"]
    elif how < 0.15 and places:
        shape = _pick(rng, places)["shape"]
        shape[:] = _pick(rng, ([3 * 10**8, 0], [0, 0], [2**62, 4], [10**30], [-1], [1] * 40, [len(shape), 0, 2**40]))
    elif how < 0.16:
        places = _odd(rng)
    text = json.dumps({**file.header, "arrays": places}).encode()
    if rng.random() < 0.03:
        text = _alter_bytes(text, rng)
    payload = b"".join(data + b"\0" * (-len(data) % ALIGN) for data in (array.tobytes() for _, array in file.arrays))
    return seal(text, payload, version=1 if rng.random() < 0.99 else int(_pick(rng, (0, 2, 2**32 - 1))))
