"""Lists found in the order of norms beside lists from all scores, by the same `recommend`, in the same run.

python -m benchmarks lists-one lists-gowalla lists-amazon-cds lists-ml-1m
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from time import process_time
from typing import Any

import numpy as np
from scipy import sparse

import csrr
from benchmarks.measure import Row, Values, gowalla, movielens_1m, timed
from csrr.data.ids import IdMap

K = 20
GIVEN: dict[str, Any] = {
    "cost_ratio": 1.0,
    "reg_low_rank": "noise",
    "max_rank": 256,
    "neighbors": 20,
    "reg_neighbors": 3.0,
}
ONE, THREADS = 2000, (1, 2, 8)
MILLION, MOST_MS, LEAST_RATIO = 1_000_000, 0.3, 3.0


class AllScores(csrr.CSRR):
    """A CSRR whose lists are made of the scores of all items: a `score_rows` of its own is asked for these."""

    def score_rows(self, rows: Any) -> Any:
        return super().score_rows(rows)

    @classmethod
    def of(cls, model: csrr.CSRR) -> AllScores:
        """The same fitted model."""
        made = cls()
        made.__dict__ |= vars(model)
        return made


def compare_lists(found: Any, wanted: Any) -> dict[str, int]:
    """How many places have other items, and how many have other scores, beyond rounding."""
    differ = found.items != wanted.items
    close = np.isclose(found.scores, wanted.scores, rtol=1e-5, atol=1e-6)
    return {"differ": int(differ.sum()), "wrong": int((~close).sum()), "places": differ.size}


def measure_everybody(train: csrr.Log) -> Values:
    """Users a second of the processor, one thread, each way, the best of three; and what differs."""
    model = csrr.CSRR(**GIVEN).fit(train)
    ways = {"ours": model, "all": AllScores.of(model)}
    found = {name: each.recommend(k=K) for name, each in ways.items()}
    seconds = dict.fromkeys(ways, np.inf)
    for _, (name, each) in product(range(3), ways.items()):
        began = process_time()
        each.recommend(k=K, threads=1)
        seconds[name] = min(seconds[name], process_time() - began)
    n_users = len(model.users_)
    rates = {name: n_users / each for name, each in seconds.items()}
    ratio = seconds["all"] / seconds["ours"]
    compared = compare_lists(found["ours"], found["all"])
    reached = ratio >= LEAST_RATIO and compared["wrong"] == 0
    return {"users": n_users, "items": len(model.items_), "ratio": ratio, "reached": reached} | rates | compared


def copy_users(model: csrr.CSRR, n: int) -> csrr.CSRR:
    """A model of n users with text ids: those of the model, again and again."""
    many, rows = copy.copy(model), np.arange(n) % len(model.users_)
    many.users_ = IdMap([f"user-{number:07d}" for number in range(n)])
    many.seen_ = sparse.csr_array(model.seen_[rows])
    many.user_factors_ = model.user_factors_[rows]
    many._computed = {}  # noqa: SLF001 - as after a fit
    return many


def time_calls(call: Callable[[Any], object], asked: list[Any]) -> dict[str, float]:
    """The median and the 99th percentile of the milliseconds of calls."""
    times = [1000 * timed(lambda one=one: call(one))[0] for one in asked]
    return {"p50": float(np.median(times)), "p99": float(np.quantile(times, 0.99))}


def measure_one() -> Values:
    """A list for one user of a million: each way, by histories, and by several threads that ask at once."""
    model = copy_users(csrr.CSRR(**GIVEN).fit(gowalla()[0]), MILLION)
    rows = np.random.default_rng(0).choice(MILLION, ONE, replace=False)
    users = model.users_.ids[rows].tolist()
    histories = [model.items_.ids[model.seen_[[row]].indices].tolist() for row in rows[:500]]
    values: Values = {"users": MILLION, "items": len(model.items_)}
    ways = {"ours": model, "all": AllScores.of(model)}
    for each in ways.values():
        each.warm_up()
    for name, each in ways.items():
        asked = users if name == "ours" else users[:200]
        values |= {f"{name}_{key}": ms for key, ms in time_calls(lambda u, m=each: m.recommend([u], K), asked).items()}
    values |= {f"history_{key}": ms for key, ms in time_calls(lambda h: model.recommend_for(h, K), histories).items()}
    for n in THREADS:
        with ThreadPoolExecutor(n) as pool:
            seconds, _ = timed(lambda pool=pool: list(pool.map(lambda u: model.recommend([u], K), users)))
        values[f"threads_{n}"] = len(users) / seconds
    values |= compare_lists(*(each.recommend(users, K) for each in ways.values()))
    return values | {"reached": values["ours_p50"] < MOST_MS and values["wrong"] == 0}


def _make_row(data: str, work: Callable[[], csrr.Log]) -> Row:
    return Row(
        f"{data}, {{users:,}} x {{items:,}}, rank 256, 20 neighbors",
        f"`recommend` for everybody, {K} items, users a second of one core",
        "{ours:,.0f}",
        "from the scores of all items: {all:,.0f}: **{ratio:.1f}x**; of {places:,} places {differ:,} exchange scores"
        " that are equal but for rounding, {wrong:,} others",
        f"{LEAST_RATIO:g}x, the same lists",
        lambda: measure_everybody(work()),
        is_time=True,
    )


ROWS = {
    "lists-one": Row(
        "Gowalla's users again and again, {users:,} with text ids x {items:,}, rank 256, 20 neighbors",
        f"`recommend` for one user, {K} items, ms, median and 99th percentile",
        "{ours_p50:.2f}, {ours_p99:.2f}; by a history {history_p50:.2f}, {history_p99:.2f}; lists a second with 1, 2"
        " and 8 threads that ask: {threads_1:,.0f}, {threads_2:,.0f}, {threads_8:,.0f}",
        "from the scores of all items: {all_p50:.2f}, {all_p99:.2f}; of {places:,} places {differ:,} exchange scores"
        " that are equal but for rounding, {wrong:,} others",
        f"median below {MOST_MS:g} ms, the same lists",
        measure_one,
        is_time=True,
    ),
    "lists-gowalla": _make_row("Gowalla", lambda: gowalla()[0]),
    "lists-amazon-cds": _make_row("Amazon-CDs", lambda: csrr.read_split("amazon-cds.zip")[0]),
    "lists-ml-1m": _make_row("MovieLens-1M", lambda: movielens_1m()[0]),
}
