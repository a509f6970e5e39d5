"""Fits to logs that no machine holds: CSRR on Dask's workers, the item side here, the user side with them."""

from __future__ import annotations

import copy
import json
import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from scipy import sparse

from csrr._base.arrays import AnyArray, FloatArray
from csrr._base.progress import show_live_line
from csrr._base.threads import TimeUpError, cut_off, limit_time, seconds_left, use_threads
from csrr.data.errors import DataError
from csrr.data.spread import SpreadLog, list_files, read_users, spread_log, write_cells, write_whole
from csrr.data.tables import ReadOptions
from csrr.models import order_search
from csrr.models.auto import (
    HASTY_RANK,
    Chosen,
    choose_by_rule,
    describe_search,
    read_search_space,
    resolve_order,
    search_order,
)
from csrr.models.build_problem import ClickCosts, ClickProblem, ProblemSpec, Scaling, Settings, pose_problem
from csrr.models.fitted_problem import (
    BEFORE_NEIGHBORS,
    LITTLE,
    FittedProblem,
    Neighborhood,
    fit_neighborhood,
    refold_users,
)
from csrr.models.foldin import FoldedFactors
from csrr.models.held_out import LEAST_EVENTS, LEAST_USERS, MOST_SCORES, MOST_USERS, SHARE
from csrr.models.order import IGNORE, FadedScores, OrderSettings, fit_faded
from csrr.models.order_search import LEAST_MEASURED, Ahead
from csrr.models.search import Search, SearchSpace
from csrr.numerics.dask_cluster import EngineError, count_blocks
from csrr.numerics.dask_engine import DaskEngine, DaskSequences, SpreadPattern, open_engine
from csrr.numerics.dask_worker import Number, skip_draws
from csrr.numerics.factored import Factors
from csrr.numerics.problem import LowRank
from csrr.numerics.solver import Callback, Options, Solution, Step, solve
from csrr.numerics.thread_engine import THREADS
from csrr.numerics.transitions import Sequences
from csrr.parameters import ParameterError

if TYPE_CHECKING:
    from csrr.models.csrr_base import CSRRBase

_logger = logging.getLogger(__name__)

CHECKPOINT_EVERY = 3
"""The steps between checkpoints of the item side."""

Say = Callable[[str], object]


def fit_anywhere(
    model: CSRRBase, data: Any, client: Any, costs: dict[str, Any], callback: Callback | None, *, verbose: bool = False
) -> Any:
    """Fit a model to what only Dask's workers can read, or to what they are asked to, and return the model."""
    engine = _find_engine(client, model.engine)
    is_path = isinstance(data, str | os.PathLike)
    if not is_path and not hasattr(data, "to_delayed"):
        # A log that is here: its blocks go to the workers.
        kept, model.engine = model.engine, engine
        try:
            return model.fit(data, callback=callback, verbose=verbose, **costs)
        finally:
            model.engine = kept
    if found := [name for name, value in costs.items() if value is not None]:
        raise ParameterError(f"{found[0]}= is for logs on one machine; leave it out")
    if not verbose:
        return fit_spread(model, data, engine, callback)
    with show_live_line(model.tol, every=1.0) as line:

        def tell(step: Step) -> None:
            line.step(step)
            if callback is not None:
                callback(step)

        return fit_spread(model, data, engine, tell, line.show)


def _find_engine(client: Any, engine: Any) -> DaskEngine:
    """The engine of a client, of an address or of a model's `engine`, connected."""
    if isinstance(engine, DaskEngine) and client is None:
        found = engine
    elif engine in ("auto", "dask", None):
        found = open_engine() if client is None else DaskEngine(client)
    else:
        raise ParameterError(
            f'engine={engine!r} cannot read a folder or a Dask DataFrame, or be beside client=: give engine="dask", or'
            " csrr.read the log"
        )
    try:
        found.list_workers()
    except EngineError as error:
        raise ParameterError(str(error)) from None
    return found


def _refuse(model: CSRRBase) -> None:
    """Raise ParameterError for what needs all events in one place."""
    kind = type(model).__name__
    if kind != "CSRR":
        raise ParameterError(f"{kind} cannot be fitted to a log on many machines; CSRR can")
    words = {
        "event_weights": model.event_weights not in ("auto", "ignore"),
        "half_life": model.half_life is not None,
        "denoise": model.denoise not in ("auto", 0),
        "miss_cost": model.miss_cost is not None,
        "box": model.is_paper_form,
        "hold_out": model.hold_out not in (("auto", "random") if model.order == "ignore" else ("auto",)),
    }
    if found := [name for name, is_used in words.items() if is_used]:
        raise ParameterError(
            f"{found[0]}={getattr(model, found[0])!r} needs the log on one machine: it is not there for Dask's workers;"
            " leave it out"
        )


def fit_spread(
    model: CSRRBase, data: Any, engine: DaskEngine, callback: Callback | None = None, say: Say = lambda _: None
) -> CSRRBase:
    """Fit a model to a folder of Parquet files or a Dask DataFrame, on an engine's workers, and return the model.

    The model has the item side; `SpreadUsers`, in its `spread_users`, has the rest, as long as the engine is there.
    If the engine is to `resume`, what an earlier fit has finished in the same folder is taken from there.
    """
    _refuse(model)
    engine.list_workers()
    if not engine.resume:
        for each in ("settings.json", "checkpoint.npz"):
            (engine.folder / each).unlink(missing_ok=True)
    with limit_time(model.time_limit), use_threads(model.threads, blas=1):
        # 1. The log, numbered and sorted into blocks.
        source = _write_frame(data, engine) if hasattr(data, "to_delayed") else data
        log = spread_log(
            source,
            engine.folder,
            engine.run_tasks,
            lambda rows: count_blocks(rows, engine.block_cells),
            options=None if model.order == "ignore" else ReadOptions(),
            tell=lambda stage, done, of: say(f"{stage}: {done} of {of}"),
        )
        say(
            f"fitting {log.n_users:,} users x {log.n_items:,} items, {len(log):,} events on"
            f" {len(engine.list_workers())} workers"
        )
        pattern = engine.open_pattern(log.folder, log.bounds, log.indptr, log.n_items)
        # 2. The settings.
        kinds = _list_kinds(model, log, engine)
        chosen = replace(_choose(model, log, engine, kinds), n_events=len(log), n_now=len(log))
        # 3. The problem. 4. U. 5. S.
        built = _pose(model, log, pattern, chosen.settings)
        with limit_time(seconds_left(BEFORE_NEIGHBORS if chosen.settings.neighbors else 1.0)):
            balanced, is_next = None, chosen.order.kind == "next"
            start = _read_checkpoint(engine, built)
            if chosen.settings.neighbors and not built.is_balanced and not is_next:
                balanced = built.compute_balanced()
                start = balanced if start is None and not built.problem.is_slack else start
            solution = _solve(model, built, start, callback, engine)
        factors = Factors.of(solution.low_rank)
        if seconds_left() != 0:
            factors = refold_users(built.problem, factors)
        say("fitting neighbors")
        neighborhood, chosen = fit_neighborhood(model, built, factors, balanced, chosen)
        faded = None
        if chosen.order.kind != "ignore":
            own = _order_log(log, engine)
            faded = fit_faded(lambda: own, built, factors.items, neighborhood, chosen.order)
            neighborhood = Neighborhood.none(log.n_items)
        return _complete(model, log, built, factors, solution, neighborhood, faded, chosen, engine)


def _write_frame(frame: Any, engine: DaskEngine) -> Path:
    """Write a Dask DataFrame as a folder of Parquet files, a partition each, from which blocks can be made again."""
    names = [str(each) for each in frame.columns]
    home = engine.folder / "input"
    home.mkdir(exist_ok=True)
    futures = engine.client.compute(
        [_delay(part, str(home / f"part-{n:06d}.parquet"), names) for n, part in enumerate(frame.to_delayed())]
    )
    engine.wait_for(futures)
    return home


def _delay(part: Any, path: str, names: list[str]) -> Any:
    from dask.delayed import delayed

    return delayed(_write_partition)(part, path, names)


def _write_partition(frame: Any, path: str, names: list[str]) -> int:
    table = pa.Table.from_pandas(frame[names], preserve_index=False)
    with write_whole(Path(path)) as file:
        parquet.write_table(table, file)
    return len(table)


def _pose(model: CSRRBase, log: SpreadLog, pattern: SpreadPattern, settings: Settings) -> ClickProblem:
    costs = model.cost_spec.resolve(log).with_weight(settings.cost_ratio)
    return pose_problem(model, pattern, costs, ClickCosts(), settings)


# The settings


def _choose(model: CSRRBase, log: SpreadLog, engine: DaskEngine, kinds: tuple[Any, ...]) -> Chosen:
    """The settings: given, or those of the fit that is resumed, or chosen on held-out events, or by rule."""
    if model.fixed_settings is not None:
        return choose_by_rule(model.fixed_settings, "as given by another fit")
    space = read_search_space(model)
    # What needs the events of all users in one place is not tried.
    space = replace(space, given=space.given._replace(denoise=0.0), open=space.open - {"denoise"})
    order, left = resolve_order(model, kinds[-1])
    if space.is_complete and not left and len(kinds) == 1:
        return choose_by_rule(space.given, "nothing was left to choose", order)
    order = order if len(kinds) == 1 else IGNORE
    path, mark = engine.folder / "settings.json", repr((model.get_params() | {"engine": None}, str(log.folder)))
    if path.exists() and (known := json.loads(path.read_text()))["of"] == mark:
        columns = {name: np.array(each) for name, each in known["columns"].items()}
        decays, *rest = known["order"][1:]
        order = OrderSettings(known["order"][0], tuple(decays), *rest)
        return Chosen(columns, Settings(**known["settings"]), known["note"], order=order)
    try:
        with cut_off(seconds_left(0.5)):
            chosen: Chosen | None = None
            if kinds != ("ignore",) and (ahead := _cut_ahead(model, log, engine, space)) is not None:
                chosen = search_order(model, *ahead, kinds)
            elif kinds == ("ignore",) and (search := _start_search(model, log, engine, space)) is not None:
                settings = search.run()
                chosen = Chosen(search.list_columns(), settings, describe_search(search, settings))
            if chosen is None:
                note = f"by rule: too few of {log.n_users:,} users have events to hold out"
                return choose_by_rule(space.given, note, order)
    except TimeUpError:
        hasty = space.given._replace(max_rank=HASTY_RANK) if "max_rank" in space else space.given
        return choose_by_rule(hasty, "by rule: the time limit left no time for a search", order)
    kept = {
        "of": mark,
        "columns": {name: each.tolist() for name, each in chosen.columns.items()},
        "settings": chosen.settings._asdict(),
        "order": chosen.order,
        "note": chosen.note,
    }
    with write_whole(path) as file:
        file.write(json.dumps(kept).encode())
    return chosen


def _start_search(model: CSRRBase, log: SpreadLog, engine: DaskEngine, space: Any) -> Search | None:
    """The search on the events that a fit on one machine would hold out, and on the users that decide there."""
    rng, counts = np.random.default_rng(model.seed), np.diff(log.indptr)
    n_held = np.floor(SHARE * counts + rng.random(log.n_users)).astype(np.int64)
    n_held[counts < LEAST_EVENTS] = 0
    before = copy.deepcopy(rng)
    able = np.flatnonzero((n_held > 0) & (n_held < counts))
    if len(able) < LEAST_USERS:
        return None
    most = min(MOST_USERS, max(MOST_SCORES // log.n_items, MOST_USERS // 3))
    rows = np.sort(skip_draws(rng, len(log)).permutation(able)[:most])
    target = log.folder / f"kept-{model.seed}"
    target.mkdir(exist_ok=True)
    folders = str(log.folder), str(target)
    tasks = [
        (*folders, block, n_held[a:b], rows[(rows >= a) & (rows < b)] - a, before, int(log.indptr[a]))
        for block, (a, b) in enumerate(pairwise(log.bounds))
    ]
    found = engine.run_tasks(hold_out_block, tasks)
    shape = (log.n_users, log.n_items)
    clicks = _place_rows(rows, [(each.n_kept, each.kept) for each in found], shape)
    heldout = _place_rows(rows, [(each.n_held, each.held) for each in found], shape)
    indptr = np.concatenate(([0], np.cumsum(counts - n_held)))
    pattern = engine.open_pattern(target, log.bounds, indptr, log.n_items)
    return Search(_pose(model, log, pattern, space.given), clicks, heldout, space)


class Held(NamedTuple):
    """Some users of a block with events held out: how many each keeps and has held out, and the items of these."""

    n_kept: AnyArray
    kept: AnyArray
    n_held: AnyArray
    held: AnyArray


def hold_out_block(
    folder: str, target: str, block: int, n_held: AnyArray, chosen: AnyArray, rng: np.random.Generator, first: int
) -> Held:
    """Hold out `n_held` random events of each user, write the others to `target`, and return the `chosen` users.

    Draws are those of `hold_out` on one machine, where `first` cells are drawn for before these, from `rng` on.
    """
    home = Path(folder)
    indptr, items = (np.load(home / f"{name}-{block}.npy") for name in ("indptr", "items"))
    counts = np.diff(indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    order = np.argsort(rows << 33 | skip_draws(rng, first).integers(2**32, size=len(items)), kind="stable")
    is_held = np.empty(len(items), np.bool_)
    is_held[order] = np.arange(len(items)) - np.repeat(indptr[:-1], counts) < np.repeat(n_held, counts)
    if not (Path(target) / f"items-{block}.npy").exists():
        kept_indptr = np.concatenate(([0], np.cumsum(counts - n_held)))
        write_cells(Path(target), block, indptr=kept_indptr, items=items[~is_held])
    mine = np.isin(rows, chosen)
    return Held((counts - n_held)[chosen], items[mine & ~is_held], n_held[chosen], items[mine & is_held])


# Order


def _list_kinds(model: CSRRBase, log: SpreadLog, engine: DaskEngine) -> tuple[Any, ...]:
    """The kinds of order that a fit may have, the first by default; DataError where what is asked for is not known."""
    if model.order == "ignore":
        return ("ignore",)
    spans = (
        [] if not log.has_times else engine.run_tasks(_find_span, [(str(log.folder), b) for b in range(log.n_blocks)])
    )
    knows = bool(spans) and min(low for low, _ in spans) < max(high for _, high in spans)
    if model.order == "auto":
        return ("ignore", "recent", "next") if knows else ("ignore",)
    if not knows:
        raise DataError("all events have the same time, or none: what came first is unknown; add a column of times")
    return (model.order,)


def _find_span(folder: str, block: int) -> tuple[Any, Any]:
    times = np.load(f"{folder}/times-{block}.npy", mmap_mode="r")
    return times.min(), times.max()


def _order_log(log: SpreadLog, engine: DaskEngine) -> DaskSequences:
    """The events of the log in order."""
    target = name_sequences(log.folder)
    engine.run_tasks(order_block, [(str(log.folder), str(target), block) for block in range(log.n_blocks)])
    return DaskSequences(engine.open_pattern(target, log.bounds, log.indptr, log.n_items))


def name_sequences(folder: Path) -> Path:
    """Return the folder that has the events of a log in order, beside its own."""
    return folder.with_name(f"{folder.name}-order")


def order_block(
    folder: str, target: str, block: int, kept: str | None = None, least: int = 0, chosen: AnyArray | None = None
) -> Held | None:
    """Write the events of a block in order.

    With `kept`, a folder for the cells that are left, the latest event of users with at least `least` is held out, and
    the `chosen` ones are returned, with what they keep in order.
    """
    home = Path(folder)
    given = (np.load(home / f"{name}-{block}.npy") for name in ("indptr", "items", "times", "places"))
    indptr, items, times, places = given
    counts = np.diff(indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((places, times, rows))
    Path(target).mkdir(exist_ok=True)
    if kept is None or chosen is None:
        write_cells(Path(target), block, indptr=indptr, items=items[order])
        return None
    last = indptr[1:][counts >= least] - 1
    is_left = np.ones(len(items), np.bool_)
    is_left[last] = False
    left = order[is_left]
    counts = counts - (counts >= least)
    indptr = np.concatenate(([0], np.cumsum(counts)))
    write_cells(Path(target), block, indptr=indptr, items=items[left])
    write_cells(Path(kept), block, indptr=indptr, items=items[np.sort(left)])
    mine = np.isin(rows[left], chosen)
    held = items[order[last]][np.searchsorted(rows[last], chosen)]
    return Held(counts[chosen], items[left][mine], np.ones(len(chosen), np.int64), held)


def _cut_ahead(model: CSRRBase, log: SpreadLog, engine: DaskEngine, space: SearchSpace) -> tuple[Search, Ahead] | None:
    """The search on the log without the latest event of each user, on those that decide on one machine."""
    counts = np.diff(log.indptr)
    able = np.flatnonzero(counts >= LEAST_EVENTS)
    if len(able) < LEAST_USERS:
        return None
    most = max(LEAST_MEASURED, int(order_search.MOST_SCORES // log.n_items))
    rows = np.sort(np.random.default_rng(model.seed).permutation(able)[:most])
    kept = log.folder / "ahead"
    target = name_sequences(kept)
    kept.mkdir(exist_ok=True)
    tasks = [
        (str(log.folder), str(target), block, str(kept), LEAST_EVENTS, rows[(rows >= a) & (rows < b)] - a)
        for block, (a, b) in enumerate(pairwise(log.bounds))
    ]
    found: list[Held] = engine.run_tasks(order_block, tasks)
    indptr = np.concatenate(([0], np.cumsum(counts - (counts >= LEAST_EVENTS))))
    pattern = engine.open_pattern(kept, log.bounds, indptr, log.n_items)
    sequences = DaskSequences(engine.open_pattern(target, log.bounds, indptr, log.n_items))
    shape = (log.n_users, log.n_items)
    histories = _place_rows(rows, [(each.n_kept, each.kept) for each in found], shape, sort=False)
    clicks = histories[rows]
    clicks.data = Sequences(clicks.indptr, clicks.indices, log.n_items).ages.astype(np.float32)
    clicks.sort_indices()
    ages, clicks.data = clicks.data.astype(np.int32), np.ones_like(clicks.data)
    histories.sort_indices()
    heldout = _place_rows(rows, [(each.n_held, each.held) for each in found], shape)
    search = Search(_pose(model, log, pattern, space.given), histories, heldout, space)
    return search, Ahead(sequences, rows, clicks, ages, heldout[rows])


def _place_rows(
    rows: AnyArray, parts: list[tuple[AnyArray, AnyArray]], shape: tuple[int, int], *, sort: bool = True
) -> Any:
    """The csr array of `shape` that has events of some rows only; `parts` are counts and items, one after another."""
    counts = np.zeros(shape[0], np.int64)
    counts[rows] = np.concatenate([each for each, _ in parts])
    items = np.concatenate([each for _, each in parts])
    indptr = np.concatenate(([0], np.cumsum(counts)))
    found = sparse.csr_array((np.ones(len(items), np.float32), items, indptr), shape=shape)
    if sort:
        found.sort_indices()
    return found


# U, with checkpoints, and S


def _solve(
    model: CSRRBase, built: ClickProblem, start: LowRank | None, callback: Callback | None, engine: DaskEngine
) -> Solution:
    left = seconds_left()
    seconds = None if left is None else max(left, 1e-9)
    options = Options(model.tol, model.max_iter, seconds, built.settings.max_rank, model.seed)
    steps = 0

    def keep(u: LowRank) -> None:
        nonlocal steps
        steps += 1
        if steps % CHECKPOINT_EVERY == 0:
            u = u.trim()
            with write_whole(engine.folder / "checkpoint.npz") as file:
                np.savez(file, right=u.right, s=u.s, mark=np.array(_mark(built)))

    return solve(built.problem, options, start=start, callback=callback, keep=keep)


def _mark(built: ClickProblem) -> str:
    pattern = built.problem.pattern
    return repr((pattern.shape, pattern.nnz, built.problem.l1, built.costs.alpha, built.l2, built.settings.max_rank))


def _read_checkpoint(engine: DaskEngine, built: ClickProblem) -> LowRank | None:
    """U at the checkpoint of the same problem, if there is one: the users are folded in to its items."""
    path = engine.folder / "checkpoint.npz"
    if not path.exists():
        return None
    with np.load(path) as known:
        if str(known["mark"]) != _mark(built) or not len(known["s"]):
            return None
        right, s = known["right"], known["s"]
    _logger.info("going on from a checkpoint of rank %d", len(s))
    problem = built.problem
    users = engine.put(problem.pattern, np.zeros((problem.pattern.shape[0], len(s)), right.dtype))
    factors = refold_users(problem, Factors(users, right * np.sqrt(s).astype(right.dtype)))
    return factors.to_low_rank(engine)


# The model


def _complete(
    model: CSRRBase,
    log: SpreadLog,
    built: ClickProblem,
    factors: Factors,
    solution: Solution,
    neighborhood: Neighborhood,
    faded: FadedScores | None,
    chosen: Chosen,
    engine: DaskEngine,
) -> CSRRBase:
    """Set the fitted attributes of the item side, and the handle of the user side."""
    problem, scaling = built.problem, built.scaling
    own_l2 = built.l2
    if own_l2 is None and model.reg_sparse == "auto":
        # Of the low-rank part alone: what neighbors explain of each click is on no machine.
        explained = problem.pattern.dots(factors.users, factors.items)
        own_l2 = built.costs.alpha * (1 - LITTLE * float((explained / problem.target).clip(0, 1).mean()))
    items = (factors.items / scaling.item[:, None]).astype(np.float32, order="C")
    nobody: Any = sparse.csr_array((0, log.n_items), dtype=np.float32)
    fitted = FittedProblem(
        spec=ProblemSpec(model.loss, built.costs.alpha, float(model.user_scaling), True, built.weighing),
        users=np.zeros((0, items.shape[1]), np.float32),
        items=items,
        specific=nobody,
        seen=nobody,
        ages=None if faded is None else np.empty(0, np.int32),
        scaling=Scaling(np.zeros(0, scaling.user.dtype), scaling.item),
        clicks=built.clicks,
        costs=built.costs,
        neighborhood=neighborhood,
        faded=faded,
        l1=problem.l1,
        l2=built.l2,
        own_l2=own_l2,
        engine=THREADS,
    )
    counts = np.asarray(problem.pattern.count_items(), np.int64)
    model.take_item_side(fitted, log.items, counts, solution, chosen)
    user = engine.put(problem.pattern, scaling.user.astype(np.float32))
    model.spread_users = SpreadUsers(engine, log, factors.users, user, faded)
    return model


@dataclass(eq=False)
class SpreadUsers:
    """The users of a fit on many machines: their factors, in units of the problem, are with the engine's workers.

    With the scores of histories that `faded`, they are written by these, and their items are in order.
    """

    engine: DaskEngine
    log: SpreadLog
    factors: Any
    scaling: Any
    faded: FadedScores | None

    def __len__(self) -> int:
        return self.log.n_users

    def save(self, model: str | os.PathLike[str]) -> None:
        """Write the users as Parquet beside a model, a file a block, by the workers: ids, factors, and item rows.

        The folder is complete once it is there under its name.
        """
        target = name_users(Path(model).absolute())
        aside = target.with_name(f".{target.name}.part")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        given = Number(), str(self.log.folder), str(aside), self.factors, self.scaling
        history = () if self.faded is None else (self.faded.left, self.faded.decays)
        self.engine.ask(self.factors.space, "sum", write_users, *given, *history)
        # What stays of the older folder until the new one has its name is never half of each.
        old = target.with_name(f".{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            target.replace(old)
        aside.replace(target)
        shutil.rmtree(old, ignore_errors=True)


def write_users(
    pattern: Any,
    number: int,
    log_folder: str,
    target: str,
    factors: FloatArray,
    scaling: FloatArray,
    left: Any = None,
    decays: tuple[float, ...] = (),
) -> int:
    """Write the users of a block; return how many there are. With `left`, (m, r), and `decays`: of faded histories."""
    users, indptr, items = read_users(log_folder, number), pattern.indptr, np.asarray(pattern.indices)
    if left is None:
        units = np.ascontiguousarray(factors / scaling[:, None], np.float32)
    else:
        items = np.load(name_sequences(Path(log_folder)) / f"items-{number}.npy")
        own = Sequences(indptr, items, pattern.shape[1])
        seen = sparse.csr_array((np.ones(len(items), np.float32), items, indptr), shape=pattern.shape)
        units = FadedScores(decays, np.ones(len(decays)), left, left, None).find_users(seen, own.ages)
    columns = {
        "user": users,
        "factors": pa.FixedSizeListArray.from_arrays(pa.array(units.ravel()), max(units.shape[1], 1))
        if units.shape[1]
        else pa.nulls(len(users)),
        "items": pa.LargeListArray.from_arrays(pa.array(indptr), pa.array(items)),
    }
    with write_whole(Path(target) / f"part-{number:05d}.parquet") as file:
        parquet.write_table(pa.table(columns), file)
    return len(users)


def _list_rows(users: AnyArray, found: Any) -> pa.Table:
    """The lists of users as rows: user, item, rank, score."""
    is_there = np.isfinite(found.scores)
    rows, ranks = np.nonzero(is_there)
    return pa.table(
        {"user": users[rows], "item": found.items[is_there], "rank": ranks + 1, "score": found.scores[is_there]}
    )


@lru_cache(maxsize=2)
def _open_model(path: str, _: int) -> Any:
    from csrr.models.store import load

    return load(path, mmap=True)


def open_dask(
    client: Any = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    n_workers: int | None = None,
    memory_limit: int | str = "auto",
    block_events: int | None = None,
    resume: bool = False,
) -> DaskEngine:
    """Return an engine whose work Dask's workers do: `csrr.CSRR(engine=...)`. They are looked for when it is used.

    Parameters
    ----------
    client
        A Dask client, or the address of a scheduler; None: workers on this machine, which are started.
    folder
        A folder that this process and all workers reach under the same path; None: a temporary one of this machine.
    n_workers
        The number of workers that are started; None: as many as there are cores, 2 to 4.
    memory_limit
        The memory of each of these, in bytes or like "3GB".
    block_events
        The number of events in a block of users: with less, a worker needs less memory for each; None: 4 million.
    resume
        Whether a fit to a folder goes on from what an earlier one, to the same files, has left in `folder`.

    Returns
    -------
    engine
        The engine; as a context, its workers stop at the end.

    Examples
    --------
    >>> with csrr.open_dask(n_workers=2, memory_limit="1GB") as engine:
    ...     model = csrr.CSRR(max_rank=64, engine=engine)
    """
    return DaskEngine(
        client,
        folder=folder,
        n_workers=n_workers,
        memory_limit=memory_limit,
        block_events=block_events,
        resume=resume,
    )


def write_lists(
    model: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    k: int = 10,
    *,
    users: str | os.PathLike[str] | None = None,
    client: Any = None,
) -> int:
    """Write the best items of all users of a saved model as Parquet, a file for each file of users, by Dask's workers.

    Parameters
    ----------
    model
        The file of the item side, which `save` wrote.
    folder
        The folder to write to, which all workers reach: files with columns user, item, rank and score. It is there
        under its name only when it is complete.
    k
        The number of items for each.
    users
        The folder of users; None: the one that `save` wrote beside the model.
    client
        A Dask client, the address of a scheduler, or an engine of `open_dask`; None: workers of this machine.

    Returns
    -------
    count
        The number of users.

    Raises
    ------
    DataError
        If there are no users beside the model.

    Examples
    --------
    >>> model = csrr.CSRR(cost_ratio=2, l1=1.0, neighbors=0)
    >>> model.fit(csrr.synthetic(60, 40, events_per_user=10).log).save("alone.csrr")
    >>> csrr.write_lists("alone.csrr", "lists")
    Traceback (most recent call last):
        ...
    csrr.data.errors.DataError: alone.csrr.users: no folder of users; a model of many machines has one beside it
    """
    engine = client if isinstance(client, DaskEngine) else open_engine() if client is None else DaskEngine(client)
    path = Path(model).absolute()
    home = name_users(path) if users is None else Path(users)
    if not home.is_dir():
        raise DataError(f"{home.name}: no folder of users; a model of many machines has one beside it")
    target = Path(folder).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DataError(f"{target} is there already; give a new folder")
    aside = target.with_name(f".{target.name}.part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    stamp = path.stat().st_mtime_ns
    tasks = [(str(path), stamp, str(each), str(aside / each.name), k) for each in list_files(home)]
    counts = engine.run_tasks(write_part_lists, tasks)
    if target.exists():
        target.rmdir()
    aside.replace(target)
    return int(sum(counts))


def name_users(path: Path) -> Path:
    """Return the folder of users beside the file of an item side."""
    return path.with_name(f"{path.name}.users")


def write_part_lists(model_path: str, stamp: int, users: str, target: str, k: int) -> int:
    """Write the best items of the users in a file; return how many there are."""
    model, table = _open_model(model_path, stamp), parquet.read_table(users)
    n, m = len(table), len(model.items_)
    lists = table["items"].combine_chunks()
    items = lists.flatten().to_numpy()
    indptr = np.concatenate(([0], np.cumsum(np.diff(lists.offsets.to_numpy()))))
    places = (np.repeat(indptr[1:], np.diff(indptr)) - np.arange(len(items))).astype(np.float32)
    seen = sparse.csr_array((places, items, indptr), shape=(n, m))
    seen.sort_indices()
    rank = model.item_factors_.shape[1]
    factors = np.zeros((n, 0), np.float32)
    if rank:
        factors = table["factors"].combine_chunks().flatten().to_numpy().reshape(n, rank)
    ids, faded = table["user"].to_numpy(), model.fitted_.faded
    with use_threads(1, blas=1):
        if faded is not None:
            folded = faded.fold(model, ids, seen)
        else:
            seen.data[:] = 1
            fitted = replace(model.fitted_, users=factors, seen=seen)
            folded = FoldedFactors(ids, seen, model, fitted.make_products(model), factors)
        found = folded.recommend(k)
    written = _list_rows(ids, found)
    with write_whole(Path(target)) as file:
        parquet.write_table(written, file)
    return n
