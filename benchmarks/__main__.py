"""The solvers, measured: `python -m benchmarks` prints one table; name rows to run only those.

The defaults against tuned rivals: `python -m benchmarks.defaults`.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import csrr
from benchmarks.factored import csrr_e_gowalla, csrr_e_movielens_1m, wrmf_gowalla, wrmf_movielens_1m
from benchmarks.measure import (
    Row,
    als_gowalla,
    as_dict,
    at_20,
    choose,
    factors_at_20,
    gowalla,
    in_fresh_process,
    movielens_1m,
    timed,
)
from csrr.optim.algorithm1 import algorithm1
from csrr.ranking.text_tables import format_text_table
from csrr.threads import available_cores

GOWALLA_GRID: list[dict[str, Any]] = [
    {"user_scaling": a, "item_scaling": b, "cost_ratio": alpha, "reg_low_rank": f, "reg_sparse": 1.0}
    | {"max_rank": 800, "max_iter": 7, "neighbors": 0}
    for a, b, alpha, f in (
        (0.35, 0.45, 4.0, 0.25),
        (0.4, 0.4, 4.0, 0.2),
        (0.35, 0.4, 4.0, 0.16),
        (0.35, 0.4, 8.0, 0.16),
    )
]
ONE_SHOT: dict[str, Any] = {"loss": "II", "reg_sparse": 1.0, "user_scaling": 0.35, "item_scaling": 0.45}
ONE_SHOT |= {"max_rank": 2000, "neighbors": 0}
LOW_RANK: dict[str, Any] = {"reg_low_rank": "noise", "neighbors": 0}


def gowalla_full() -> Row:
    train, test = gowalla()
    best = choose(train, GOWALLA_GRID)
    seconds, model = timed(lambda: csrr.CSRR(**best).fit(train))
    recall, ndcg = at_20(model, train, test)
    _, als = als_gowalla()
    als_recall, als_ndcg = factors_at_20(als, train, test)
    return Row(
        "Gowalla",
        f"Recall@20 / NDCG@20 and fit s (rank {model.rank_}), against implicit ALS 256 x 15",
        f"{recall:.4f} / {ndcg:.4f}, {seconds:.1f} s",
        f"{als_recall:.4f} / {als_ndcg:.4f}, {als.seconds:.1f} s",
        f".194 / .164, <= 3x: {seconds / als.seconds:.2f}x",
        recall >= 0.194 and ndcg >= 0.164 and seconds <= 3 * als.seconds,
    )


def gowalla_one_shot() -> Row:
    train, test = gowalla()
    seconds, model = timed(lambda: csrr.CSRR(**ONE_SHOT, reg_low_rank=0.28, tol=0.05).fit(train))
    recall, ndcg = at_20(model, train, test)
    del model
    strengths = np.geomspace(1, 0.28, 30)
    path_seconds, path = timed(lambda: csrr.path(train, strengths, tol=0.05, **ONE_SHOT))
    return Row(
        "Gowalla, one-shot",
        f"Recall@20 / NDCG@20, and {len(path)} strengths against one fit",
        f"{recall:.4f} / {ndcg:.4f}, path {path_seconds:.1f} s",
        f"one fit {seconds:.1f} s",
        f".192 / .160, <= 1.3x: {path_seconds / seconds:.2f}x",
        recall >= 0.192 and ndcg >= 0.160 and path_seconds <= 1.3 * seconds,
    )


def gowalla_capped() -> Row:
    train, test = gowalla()
    _, als = als_gowalla()
    goal = factors_at_20(als, train, test)[1]
    params = {**ONE_SHOT, "reg_low_rank": 0.2, "tol": 0.5}
    csrr.CSRR(**{**params, "max_rank": 16}).fit(train)
    tried: list[tuple[int, float, float]] = []
    for rank in (128, 160, 192, 256):
        seconds, model = timed(lambda rank=rank: csrr.CSRR(**{**params, "max_rank": rank}).fit(train))
        tried.append((rank, seconds, at_20(model, train, test)[1]))
        if tried[-1][2] >= goal:
            break
    rank, seconds, ndcg = tried[-1]
    return Row(
        "Gowalla, rank capped",
        f"s to the NDCG@20 of ALS (rank {rank})",
        f"{seconds:.2f} s ({ndcg:.4f})",
        f"{als.seconds:.1f} s ({goal:.4f})",
        f"<= 0.25x: {seconds / als.seconds:.2f}x",
        ndcg >= goal and seconds <= als.seconds / 4,
    )


def literal_algorithm() -> Row:
    """The paper's dense Algorithm 1, stopped where its objective is ours or after 60 times our time."""
    train, _ = movielens_1m()
    params = {
        "cost_ratio": 2.0,
        "user_scaling": 0.0,
        "item_scaling": 0.0,
        "reg_low_rank": 0.06,
        "reg_sparse": 1.0,
        "neighbors": 0,
    }
    csrr.CSRR(**params, max_iter=1).fit(train)
    seconds, model = timed(lambda: csrr.CSRR(**params, tol=1e-3).fit(train))
    goal = model.certificate_.primal * (1 + 1e-3)

    class Done(Exception):
        pass

    def stop(step: Any, *_: Any) -> None:
        if step.objective <= goal or step.seconds > 60 * seconds:
            raise Done(step)

    try:
        algorithm1(train.to_csr(), alpha=2.0, l1=model.l1_, l2=None, box="none", dtype=np.float32, callback=stop)
    except Done as done:
        last = done.args[0]
    reached = "" if last.objective <= goal else f", at {last.objective / model.certificate_.primal:.3f} of ours"
    return Row(
        "MovieLens-1M",
        "fit s against the literal dense Algorithm 1, same objective",
        f"{seconds:.2f} s",
        f"{last.seconds:.0f} s{reached}",
        f">= 50x: {'more than ' if reached else ''}{last.seconds / seconds:.0f}x",
        last.seconds >= 50 * seconds,
    )


def gap_movielens_100k() -> Row:
    from tests.reference import dense

    train, _ = csrr.split(csrr.read("ml-100k.zip", min_rating=3), ratio=0.8, seed=0)
    model = csrr.CSRR(**LOW_RANK, tol=1e-5).fit(train)
    certificate = model.certificate_
    A = sparse.csr_array(train.to_csr())
    reference = dense.solve(dense.Dense(A, 2.0, model.l1_, model.l2_, "I", 0.3, 0.3), tol=1e-6)
    apart = abs(certificate.primal / reference.objective - 1)
    return Row(
        "MovieLens-100K",
        "iterations to a relative gap of 1e-5; objective against the dense reference",
        f"{certificate.iterations} (gap {certificate.gap:.1e})",
        f"objectives {apart:.1e} apart",
        "<= 40; 1e-5",
        certificate.gap <= 1e-5 and certificate.iterations <= 40 and apart <= 1e-5,
    )


def memory_gowalla() -> Row:
    code = """
import json, resource, csrr
train, _ = csrr.read_split("gowalla.zip")
params = dict(cost_ratio=4.0, user_scaling=.35, item_scaling=.45, reg_low_rank=.25, reg_sparse=1.0, neighbors=0)
model = csrr.CSRR(**params, max_iter=10).fit(train)
fit = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
model.recommend(k=20)
print(json.dumps({"fit": fit, "all": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, "rank": model.rank_}))
"""
    peak = in_fresh_process(code)
    return Row(
        "Gowalla",
        f"peak memory of fit (rank {peak['rank']}) and of recommending for all",
        f"{peak['fit']:.2f} GB, {peak['all']:.2f} GB",
        "",
        "< 2 GB",
        max(peak["fit"], peak["all"]) < 2,
    )


def threads_movielens_1m() -> Row:
    """Fits with one thread and with two, bit by bit."""
    train, _ = movielens_1m()
    kinds: list[type[csrr.Recommender]] = [csrr.CSRR, csrr.CSRRe, csrr.WRMF, csrr.MCShift, csrr.BPRMF]

    def is_same(kind: type[csrr.Recommender]) -> bool:
        few = {"epochs": 5} if kind is csrr.BPRMF else {}
        one, two = (kind(threads=n, **few).fit(train) for n in (1, 2))
        return bool((one.user_factors_ == two.user_factors_).all() and (one.item_factors_ == two.item_factors_).all())

    same = [kind.__name__ for kind in kinds if is_same(kind)]
    return Row(
        "MovieLens-1M",
        "models with the same bits from 1 and from 2 threads",
        ", ".join(same),
        "",
        f"all of {len(kinds)}",
        len(same) == len(kinds),
    )


ROWS: dict[str, Callable[[], Row]] = {
    "gowalla": gowalla_full,
    "one-shot": gowalla_one_shot,
    "capped": gowalla_capped,
    "literal": literal_algorithm,
    "gap": gap_movielens_100k,
    "memory": memory_gowalla,
    "threads": threads_movielens_1m,
    "csrr-e": csrr_e_movielens_1m,
    "csrr-e-gowalla": csrr_e_gowalla,
    "wrmf": wrmf_movielens_1m,
    "wrmf-gowalla": wrmf_gowalla,
}


def main() -> None:
    """Measure the rows named, or all; print the table and keep it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"any of: {', '.join(ROWS)}")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/table.json"))
    arguments = parser.parse_args()
    unknown = set(arguments.rows) - set(ROWS)
    if unknown:
        parser.error(f"no row {', '.join(sorted(unknown))}; there are: {', '.join(ROWS)}")
    kept = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    measured = []
    for name in arguments.rows or ROWS:
        seconds, row = timed(ROWS[name])
        print(f"{name}: {row.ours} | {row.rival} | {row.reach} | {seconds:.0f} s", flush=True)
        measured.append(row)
        kept[name] = as_dict(row) | {"when": time.strftime("%Y-%m-%d"), "cores": available_cores()}
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(kept, indent=1))
    header = ("data", "measure", "ours", "rival", "reach", "reached")
    lines = [(r.data, r.measure, r.ours, r.rival, r.reach, "yes" if r.reached else "NO") for r in measured]
    print(f"\n{platform.processor() or platform.machine()}, {available_cores()} cores, csrr {csrr.__version__}\n")
    print(format_text_table(header, lines))


if __name__ == "__main__":
    main()
