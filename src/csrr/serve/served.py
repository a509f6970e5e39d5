"""The model that is served: what is asked of it, and how another takes its place."""

from __future__ import annotations

import asyncio
import bisect
import fcntl
import gc
import logging
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

import csrr
from csrr._base.text import to_plain
from csrr._base.threads import use_threads
from csrr.models.schema import ModelFileError
from csrr.models.store import check_digest
from csrr.parameters import ParameterError
from csrr.ranking.topk import Products, Restrictions
from csrr.serve import messages as m
from csrr.serve.events import Event, Id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from csrr.data.ids import IdMap

log = logging.getLogger(__name__)
MOST_EXPLAINED = 100
"""The longest history of which the items are left out one by one, to give reasons."""
KEPT = 2
"""The number of copies of model files that are kept: that of the model served, and the one before."""


def spell(id: Id, known: IdMap) -> Id:
    """Return an id as the model has it: of "7" and 7, the one of its type."""
    if known.ids.dtype == np.object_:
        return id if isinstance(id, str) else str(id)
    if isinstance(id, str):
        with suppress(ValueError):
            if id.isascii() and str(number := int(id)) == id.strip():
                return number
    return id


def find_row(known: IdMap, id: Id) -> int:
    """Return the row of an id, spelled as the model has it; -1 for an unknown one."""
    ids = known.ids
    if isinstance(id, str) != (ids.dtype == np.object_):
        return -1
    # Ids are sorted.
    place = bisect.bisect_left(ids, id) if isinstance(id, str) else int(np.searchsorted(ids, id))
    return place if place < len(ids) and ids[place] == id else -1


class ServedModel:
    """A fitted model and its answers. It never changes: another model is another object.

    Attributes
    ----------
    model
        The model.
    name
        The first digits of the checksum of its file.
    file
        The copy of the file that is served.
    loaded
        When it was loaded, in seconds since 1970.
    """

    def __init__(self, model: Any, name: str, file: Path) -> None:
        self.model, self.name, self.file, self.loaded = model, name, file, time.time()
        self._has_target = model.seen_of_target is not model.seen_
        self.target = None if model.event_types is None else model.event_types.target
        scorer = model.row_scorer
        is_plain = isinstance(scorer, Products) and scorer.is_single and model.calibration_ is None
        self._products: Products | None = scorer if is_plain else None
        self._done, self._seen, self._order = model.seen_of_target, model.seen_, model.item_order
        # The history of one user, filled in for each: the event loop makes one list at a time.
        self._own = sparse.csr_array((1, len(model.items_)), dtype=np.float32)

    # Lists

    def list_users(self, users: Sequence[Id], options: dict[str, Any]) -> list[m.List]:
        """Return the lists of users by what the model knows of them."""
        if len(users) == 1 and len(options) == 2 and options["exclude_seen"]:
            found = self._list_plain(users[0], options["k"])
            if found is not None:
                return [found]
        if not users:
            return []
        return self._make_lists(self.model.recommend(users, unknown="mark", **options), users)

    def _list_plain(self, user: Id, k: int) -> m.List | None:
        """Return the list of a known user without anything else asked, as `recommend` makes it; else None.

        It leaves out what `recommend` does to read all that might be asked: a third of the time of a request.
        """
        products, row = self._products, find_row(self.model.users_, user)
        if products is None or row < 0 or self._seen.indptr[row] == self._seen.indptr[row + 1]:
            return None
        mine = slice(self._done.indptr[row], self._done.indptr[row + 1])
        own, n_items = self._own, len(self.model.items_)
        limits = Restrictions(n_items)
        own.indices, own.data = self._done.indices[mine], self._done.data[mine]
        own.indptr = np.array([0, mine.stop - mine.start], own.indices.dtype)
        limits.leave_out(own)
        items, scores = products.find_best(np.array([row]), min(k, n_items), limits, self._order)
        there = int((items[0] >= 0).sum())
        found = self.model.items_.ids[items[0, :there]].tolist()
        places = [m.Place(*each) for each in zip(found, scores[0, :there].tolist(), strict=True)]
        if self.model.titles_ is not None:
            for place, title in zip(places, self.model.titles_[items[0, :there]].tolist(), strict=True):
                place.title = title
        return m.List(places, "known", user)

    def list_with(
        self, user: Id | None, events: Sequence[Event], options: dict[str, Any], n_reasons: int = 0
    ) -> m.List:
        """Return the list of a user, or of nobody known, with events that the model may not know of."""
        model = self.model
        row = -1 if user is None else find_row(model.users_, user)
        items = model.items_.find([spell(event.item, model.items_) for event in events], "item")
        is_known = items >= 0
        seen = self._extend(row, items[is_known])
        if seen is None:
            assert user is not None
            return self.list_users([user], options)[0]
        if self._has_target and options.get("exclude_seen", True):
            types = [event.type in (None, self.target) for event in events]
            options = options | {"exclude_seen": self._list_done(row, items[is_known & np.array(types, np.bool_)])}
        recs = model.fold_users(np.arange(1), seen).recommend(unknown="mark", **options)
        found = self._make_lists(recs, [user])[0]
        found.status = "unknown" if not seen.nnz else "known" if row >= 0 else "history"
        if n_reasons and seen.nnz:
            self._add_losses(found, seen, n_reasons)
        return found

    def _add_losses(self, found: m.List, seen: Any, n: int) -> None:
        """Add to each item of a list what its score would lose without one item of the history, csr (1, n_items)."""
        model, history, values = self.model, seen.indices, seen.data
        if len(history) > MOST_EXPLAINED:
            raise ParameterError(f"reasons are given for histories of up to {MOST_EXPLAINED} items, not {len(history)}")
        kept = ~np.eye(len(history), dtype=np.bool_)
        others = np.tile(values, (len(history), 1))
        if model.reads_order:
            # What is older than the item left out moves up by one.
            others -= values > values[:, None]
        columns = np.concatenate([history, *(history[row] for row in kept)])
        lengths = np.repeat([len(history), len(history) - 1], [1, len(history)])
        parts = np.concatenate([values, others[kept]]), columns, np.concatenate([[0], np.cumsum(lengths)])
        people = model.fold_users(
            np.arange(len(lengths)), sparse.csr_array(parts, shape=(len(lengths), len(model.items_)))
        )
        rows = model.items_.rows([place.item for place in found.items], "item") if found.items else np.empty(0, int)
        scores = people.score()[:, rows]
        ids = model.items_.ids[history].tolist()
        titles = [None] * len(ids) if model.titles_ is None else model.titles_[history].tolist()
        for place, lost in zip(found.items, (scores[0] - scores[1:]).T, strict=True):
            most = np.argsort(-lost, kind="stable")[:n].tolist()
            place.because = [m.Reason(ids[at], float(lost[at]), titles[at]) for at in most]

    def _extend(self, row: int, items: Any) -> Any:
        """Return the history of a user with newer items, csr (1, n_items); None where that changes nothing."""
        model = self.model
        if row >= 0:
            mine = slice(model.histories.indptr[row], model.histories.indptr[row + 1])
            own, values = model.histories.indices[mine], model.histories.data[mine]
        else:
            own, values = np.empty(0, np.int32), np.empty(0, np.float32)
        if model.reads_order:
            before = own[np.argsort(-values)].tolist()
            # Of repeats the latest counts.
            joined = list(dict.fromkeys([*before, *items.tolist()][::-1]))
            if row >= 0 and joined[::-1] == before:
                return None
            columns, values = np.array(joined, np.int32), np.arange(1, len(joined) + 1, dtype=np.float32)
        else:
            new = np.setdiff1d(items, own)
            if row >= 0 and not len(new):
                return None
            if model.history_weight is not None and row >= 0 and model.seen_weights_ is not None:
                values = model.seen_weights_[mine]
            weight = 1.0 if model.history_weight is None else model.history_weight
            columns = np.concatenate((own, new)).astype(np.int32)
            values = np.concatenate((values, np.full(len(new), weight))).astype(np.float32)
        order = np.argsort(columns)
        parts = values[order], columns[order], np.array([0, len(columns)])
        return sparse.csr_array(parts, shape=(1, len(model.items_)))

    def _list_done(self, row: int, items: Any) -> Any:
        """Return what a list leaves out of a user with newer items of the target type, csr (1, n_items)."""
        cells = self.model.seen_of_target
        own = cells.indices[cells.indptr[row] : cells.indptr[row + 1]] if row >= 0 else np.empty(0, np.int32)
        columns = np.union1d(own, items)
        shape = 1, len(self.model.items_)
        return sparse.csr_array((np.ones(len(columns), np.float32), columns, [0, len(columns)]), shape=shape)

    def _make_lists(self, recs: Any, users: Sequence[Id | None]) -> list[m.List]:
        """Return recommendations as they are sent."""
        found = []
        columns = list(recs.columns)
        names, scores, status = recs.items.tolist(), recs.scores.tolist(), recs.status.tolist()
        for row, user in enumerate(users):
            places = [m.Place(*each) for each in zip(names[row], scores[row], strict=True) if each[0] is not None]
            n = range(len(places))
            if recs.titles is not None:
                for place, title in zip(places, recs.titles[row, : len(n)].tolist(), strict=True):
                    place.title = title
            if recs.probabilities is not None:
                for place, chance in zip(places, recs.probabilities[row, : len(n)].tolist(), strict=True):
                    place.probability = chance
            if columns:
                for place, at in zip(places, n, strict=True):
                    place.columns = {name: to_plain(recs.columns[name][row, at]) for name in columns}
            found.append(m.List(places, status[row], user))
        return found

    def add_reasons(self, lists: list[m.List], n: int) -> None:
        """Add to each item of the lists of known users the items of their histories that speak most for it."""
        for each in lists:
            if each.status != "known" or each.user is None:
                continue
            for place in [one for one in each.items if one.because is None]:
                place.because = self.explain(each.user, place.item).because[:n]

    # Pairs and neighbors

    def explain(self, user: Id, item: Id) -> m.Reasons:
        """Return what each item of a user's history adds to the score of an item."""
        model, user, item = self.model, spell(user, self.model.users_), spell(item, self.model.items_)
        if not model.can("explain"):
            raise NotImplementedError(f"a {type(model).__name__} gives no reasons")
        found = model.explain(user, item)
        titles = [None] * len(found) if found.titles is None else found.titles.tolist()
        parts = [None] * len(found) if getattr(found, "neighbors", None) is None else found.neighbors.tolist()
        rows = zip(found.items.tolist(), found.amounts.tolist(), titles, parts, strict=True)
        return m.Reasons(self.name, user, item, float(found.score), [m.Reason(*row) for row in rows])

    def find_near(self, kind: str, id: Id, k: int) -> m.Neighborhood:
        """Return the items nearest to an item, or the users nearest to a user."""
        id = spell(id, self.model.items_ if kind == "item" else self.model.users_)
        find = self.model.similar_items if kind == "item" else self.model.similar_users
        found = find(id, k)
        titles = [None] * len(found) if found.titles is None else found.titles.tolist()
        rows = zip(found.ids.tolist(), found.scores.tolist(), titles, strict=True)
        return m.Neighborhood(self.name, id, [m.NearOne(*row) for row in rows])

    def find_chance(self, user: Id, item: Id) -> m.Chance:
        """Return the probability that a user chooses an item, and from which on recommending it pays."""
        model, user, item = self.model, spell(user, self.model.users_), spell(item, self.model.items_)
        chance = float(np.ravel(model.probability([user], [item]))[0])
        threshold = model.decision_probability
        pays = None if threshold is None else chance >= threshold
        return m.Chance(self.name, user, item, chance, threshold, pays)

    def count_unknown(self, events: Sequence[Event]) -> int:
        """Return how many events are of items that the model does not know."""
        items = self.model.items_
        return int((items.find([spell(event.item, items) for event in events], "item") < 0).sum())


class ModelHolder:
    """The model in force, and its replacement by a newer file.

    A model is served from a copy of its file, which nobody else writes to: the arrays are mapped, and a file that is
    overwritten in place would end the process. A file that cannot be loaded leaves the model in force, and `problem`
    says why; it is tried again once it has changed.

    Parameters
    ----------
    path
        The model file.
    folder
        Where the copies are.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.problem = path, None
        self._folder = folder
        self._tried: tuple[int, ...] | None = None
        self._served: ServedModel | None = None
        self._loading = asyncio.Lock()

    problem: str | None

    @property
    def served(self) -> ServedModel:
        """The model in force."""
        assert self._served is not None
        return self._served

    def open(self) -> None:
        """Load the model; of a file that cannot be loaded, the latest copy."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._tried = self._look()
        try:
            self._served = self._load()
        except (OSError, MemoryError, ModelFileError) as error:
            copies = self._list_copies()
            if not copies:
                raise
            self.problem = f"{error}; the copy made of an earlier file is served"
            log.warning("model not loaded: %s", self.problem)
            self._served = self._map(copies[0])
        # What is there now stays, compiled code above all: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()

    async def refresh(self, *, force: bool = False) -> None:
        """Replace the model if its file has changed since it was last tried, or in any case."""
        if not force and self._look() == self._tried:
            return
        async with self._loading:
            self._tried = self._look()
            try:
                newer = await asyncio.to_thread(self._load)
            except (OSError, MemoryError, ModelFileError) as error:
                self.problem = f"{error}; the model {self.served.name} is still served"
                log.warning("model not replaced: %s", self.problem)
                return
            before, self._served, self.problem = self.served, newer, None
            if newer is before:
                return
            log.info("model replaced", extra={"model": newer.name, "before": before.name})

    def _look(self) -> tuple[int, ...] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _load(self) -> ServedModel:
        """Return the model in the file, from a copy; one worker after another."""
        with self.locked():
            name = check_digest(self.path).hex()
            if self._served is not None and self._served.name == name[:12]:
                return self._served
            copy = self._folder / f"{name}.csrr"
            if not copy.exists():
                part = self._folder / f"{name}.{os.getpid()}.part"
                try:
                    shutil.copyfile(self.path, part)
                    loaded = self._map(part)
                    part.replace(copy)
                except BaseException:
                    part.unlink(missing_ok=True)
                    raise
            else:
                loaded = self._map(copy)
                os.utime(copy)
            for old in self._list_copies()[KEPT:]:
                old.unlink(missing_ok=True)
            return ServedModel(loaded.model, name[:12], copy)

    def _map(self, copy: Path) -> ServedModel:
        """Return a model mapped into memory, and ready."""
        model = csrr.load(copy, mmap=True)
        with use_threads(1):
            model.warm_up()
        return ServedModel(model, copy.name[:12], copy)

    def _list_copies(self) -> list[Path]:
        """Return the copies, the latest first."""
        return sorted(self._folder.glob("*.csrr"), key=lambda path: -path.stat().st_mtime_ns)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other worker into such a block."""
        with (self._folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def describe(self) -> m.ModelInfo:
        """Return what there is to know of the model in force."""
        served, model = self.served, self.served.model
        certificate = getattr(model, "certificate_", None)
        kinds = {
            name: "string" if ids.ids.dtype == np.object_ else "integer"
            for name, ids in (("user", model.users_), ("item", model.items_))
        }
        return m.ModelInfo(
            model=served.name,
            kind=type(model).__name__,
            path=self.path.name,
            loaded=served.loaded,
            n_users=len(model.users_),
            n_items=len(model.items_),
            n_events=int(model.seen_.nnz),
            calibrated=model.calibration_ is not None,
            uses_order=model.reads_order,
            id_types=kinds,  # type: ignore[arg-type]
            params=to_plain(model.get_params()),
            certificate=None if certificate is None else to_plain(certificate.to_dict()),
            problem=self.problem,
        )
