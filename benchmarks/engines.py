"""Fits, lists and kernels by engine: python -m benchmarks.engines [gpu|cores] [--quick] [--profile] [-o FILE].

`gpu` needs a GPU with PyTorch: it compares engine="cuda" with threads, after one fit of each kind to warm up, and says
what share of the device's peaks the main operations reach, both measured there. `cores` fits with 1 to 16 threads, with
implicit's ALS beside it. Each result is printed and saved at once; a file that is there is added to.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import csrr
from benchmarks.measure import gowalla, movielens_1m, timed
from csrr.numerics.engine import Engine, RankingEngine

HERE = Path(__file__).parents[1] / "docs" / "results" / "engines.json"
GIVEN = {"cost_ratio": 2.0, "reg_sparse": 1.0, "denoise": 0.0}
ML_1M = GIVEN | {"reg_low_rank": 0.07, "user_scaling": 0.3, "item_scaling": 0.3}
GOWALLA = GIVEN | {"user_scaling": 0.35, "item_scaling": 0.45, "reg_low_rank": 0.2}
NEIGHBORS = {"neighbors": 50, "reg_neighbors": 3.0}
FITS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ml-1m, given": ("ml-1m", "CSRR", ML_1M | {"neighbors": 0}),
    "ml-1m, given, neighbors": ("ml-1m", "CSRR", ML_1M | NEIGHBORS),
    "ml-1m, default": ("ml-1m", "CSRR", {}),
    "ml-1m, CSRRe": ("ml-1m", "CSRRe", GIVEN | {"reg_low_rank": 0.07, "rank": 64, "neighbors": 0}),
    "ml-1m, WRMF": ("ml-1m", "WRMF", {"rank": 64, "reg": 30.0}),
    "ml-1m, EASE": ("ml-1m", "EASE", {"reg": 300.0}),
    "gowalla, rank 256, neighbors": ("gowalla", "CSRR", GOWALLA | NEIGHBORS | {"max_rank": 256}),
    "gowalla, rank 1024": ("gowalla", "CSRR", GOWALLA | NEIGHBORS | {"max_rank": 1024}),
    "gowalla, default": ("gowalla", "CSRR", {}),
    "gowalla, EASE": ("gowalla", "EASE", {"reg": 300.0}),
}
QUICK = ("ml-1m, given", "ml-1m, given, neighbors", "gowalla, rank 256, neighbors")
ONCE = ("gowalla, EASE", "gowalla, rank 1024", "gowalla, default")
"""Too long on threads to be fitted there in the same run."""
THREADS = (1, 2, 4, 8, 16)
DEVICE, SIZE = "cuda", 8192


@cache
def load(data: str) -> tuple[csrr.Log, csrr.Log]:
    """The training and the test log."""
    return movielens_1m() if data == "ml-1m" else gowalla()


class Results:
    """What was measured, saved at each addition."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def add(self, part: str, name: str, values: dict[str, Any]) -> None:
        """Keep and print the values of a name."""
        rounded = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in values.items()}
        self.found.setdefault(part, {})[name] = rounded
        print(f"{part}: {name}: " + ", ".join(f"{key} {value}" for key, value in rounded.items()), flush=True)
        self.path.write_text(json.dumps(self.found, indent=1) + "\n")


def fit(name: str, **options: Any) -> csrr.Recommender:
    """A fit of a name."""
    data, kind, params = FITS[name]
    model: csrr.Recommender = getattr(csrr, kind)(**params | options)
    return model.fit(load(data)[0])


def score(name: str, model: csrr.Recommender) -> dict[str, Any]:
    """The NDCG@20 of a model, and its certificate."""
    train, test = load(FITS[name][0])
    facts: dict[str, Any] = {"ndcg": evaluate(model, train, test)}
    if (certificate := getattr(model, "certificate_", None)) is not None:
        facts |= {"objective": certificate.primal, "gap": certificate.gap, "rank": certificate.rank}
        facts["iterations"] = certificate.iterations
    return facts


def evaluate(model: csrr.Recommender, train: csrr.Log, test: csrr.Log) -> float:
    """NDCG@20."""
    found = csrr.evaluate(model, train, test, at=20)
    return float(found["ndcg@20"])


# A GPU


@contextmanager
def clock(table: dict[str, list[float]]) -> Iterator[None]:
    """Adds up the seconds that each operation of the engine takes, the device waited for after each."""
    import torch

    from csrr.numerics.cuda_engine import CudaEngine

    def measure(work: Callable[..., Any], name: str) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            torch.cuda.synchronize()
            began = time.perf_counter()
            result = work(*args, **options)
            torch.cuda.synchronize()
            table[name].append(time.perf_counter() - began)
            return result

        return run

    names = [name for each in (Engine, RankingEngine) for name in vars(each) if not name.startswith("_")]
    kept = {name: getattr(CudaEngine, name) for name in names if hasattr(CudaEngine, name)}
    for name, work in kept.items():
        setattr(CudaEngine, name, measure(work, name))
    try:
        yield
    finally:
        for name, work in kept.items():
            setattr(CudaEngine, name, work)


def profile_threads(name: str) -> None:
    """Print where a fit on threads spends its time, with all of them."""
    import cProfile
    import pstats

    profiler = cProfile.Profile()
    profiler.runcall(fit, name)
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(45).sort_stats("cumtime").print_stats(60)


def profile(name: str) -> None:
    """Print where a fit on the GPU spends its time: operations of the engine, and functions of ours and numpy's."""
    import cProfile
    import pstats

    table: dict[str, list[float]] = defaultdict(list)
    warm_up()
    with clock(table):
        seconds, _ = timed(lambda: fit(name, engine="cuda"))
    inside = sum(map(sum, table.values()))
    print(f"--- {name}: {seconds:.3f} s with waiting, {inside:.3f} s of it in the engine")
    for each, took in sorted(table.items(), key=lambda item: -sum(item[1])):
        print(f"{1e3 * sum(took):9.1f} ms {len(took):6} x {each}")
    profiler = cProfile.Profile()
    warm_up()
    profiler.runcall(fit, name, engine="cuda")
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(45)


def measure_gpu(results: Results, names: tuple[str, ...], *, quick: bool, profiles: tuple[str, ...]) -> None:
    """Fits on the GPU and on threads, and the lists of everybody."""
    import torch

    device = torch.cuda.get_device_properties(0)
    machine = {"gpu": device.name, "memory_gb": device.total_memory / 1e9, "torch": torch.__version__}
    results.add("gpu", "machine", machine | {"cores": os.cpu_count() or 0, "numpy": np.__version__})
    with go_on():
        measure_kernels(results)
    for name in names:
        with go_on():
            measure_fit(results, name, quick=quick)
    for name in profiles:
        with go_on():
            profile(name)


@contextmanager
def go_on() -> Iterator[None]:
    """Prints an error and goes on: time on the machine is short."""
    try:
        yield
    except Exception:  # whatever it is, the rest can still be measured
        traceback.print_exc()


def measure_fit(results: Results, name: str, *, quick: bool) -> None:
    """A fit on the GPU, after one to warm up, and on threads."""
    import torch

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    first, model = timed(lambda: fit(name, engine="cuda"))
    runs = []
    for _ in range(1 if name in ONCE else 4):
        warm_up()
        runs.append(timed(lambda: fit(name, engine="cuda"))[0])
    best = min(runs)
    facts = {"cuda": best, "cuda_first": first, "peak_gb": torch.cuda.max_memory_allocated() / 1e9}
    facts |= score(name, model)
    if not (quick and name.startswith("gowalla")) and name not in ONCE:
        # The first one may compile.
        fit(name, engine="threads")
        threads, other = timed(lambda: fit(name, engine="threads"))
        facts |= {"threads": threads} | {f"{key}_threads": value for key, value in score(name, other).items()}
    results.add("gpu", name, facts)
    if name == "gowalla, rank 256, neighbors":
        measure_lists(results, model)


def warm_up(seconds: float = 0.3) -> None:
    """Keep the device busy until its clocks are up."""
    import torch

    x, began = torch.randn((SIZE // 2, SIZE // 2), device=DEVICE), time.perf_counter()
    while time.perf_counter() - began < seconds:
        x = x @ x
        x /= x.norm()
        torch.cuda.synchronize()


def measure_lists(results: Results, model: Any) -> None:
    """Twenty items for everybody, on the GPU and on threads."""
    lists, seconds = {}, {}
    for engine in ("cuda", "threads"):
        model.engine = engine
        model.recommend(k=20)
        runs = [timed(lambda: model.recommend(k=20)) for _ in range(3)]
        seconds[engine], lists[engine] = min(runs, key=lambda run: run[0])
    same = float(np.mean(lists["cuda"].items == lists["threads"].items))
    results.add("gpu", "gowalla, lists of 20 for everybody", seconds | {"same_places": same})


def measure_kernels(results: Results) -> None:
    """The main operations on the cells of Gowalla, and their shares of the peaks of memory and arithmetic."""
    import torch

    from csrr.numerics.cuda_engine import CudaEngine
    from csrr.numerics.device_arrays import DeviceArray
    from csrr.numerics.problem import Pattern

    def took(work: Callable[[], Any], times: int = 10) -> float:
        work()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(times):
            work()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / times

    big = torch.empty(SIZE**2 * 8, device=DEVICE)
    target = torch.empty_like(big)
    bandwidth = 2 * 4 * len(big) / took(lambda: target.copy_(big))
    x = torch.randn((SIZE, SIZE), device=DEVICE)
    single = 2 * SIZE**3 / took(lambda: x @ x)
    y = x.double()
    double = 2 * SIZE**3 / took(lambda: y @ y, 4)
    peaks = {"copy_gb_s": bandwidth / 1e9, "fp32_gflop_s": single / 1e9, "fp64_gflop_s": double / 1e9}
    results.add("kernels", "peaks, measured", peaks)
    engine = CudaEngine(DEVICE)
    pattern = Pattern.of(load("gowalla")[0].to_csr(), engine)
    (n, m), nnz = pattern.shape, pattern.nnz
    values = engine.put_cells(pattern, np.ones(nnz, np.float32))
    for k in (64, 256, 1024):
        left, right = (DeviceArray(torch.randn((rows, k), device=DEVICE)) for rows in (n, m))
        matrix = pattern.fill(values)
        # What must move at least: each row of the dense factor for each cell, the result, and the sparse matrix.
        moved = 4 * (nnz * k + n * k + 2 * nnz)
        seconds = took(lambda matrix=matrix, right=right: matrix.times(right))
        results.add(
            "kernels", f"sparse times thin, {k}", {"ms": 1e3 * seconds, "of_memory": moved / seconds / bandwidth}
        )
        moved = 4 * (nnz * k + m * k + 2 * nnz)
        seconds = took(lambda matrix=matrix, left=left: matrix.transposed_times(left))
        results.add("kernels", f"transposed, {k}", {"ms": 1e3 * seconds, "of_memory": moved / seconds / bandwidth})
        moved = 4 * (nnz * k + n * k + 3 * nnz)
        seconds = took(lambda left=left, right=right, k=k: engine.dot_rows(pattern, left, right, k))
        results.add("kernels", f"dots on cells, {k}", {"ms": 1e3 * seconds, "of_memory": moved / seconds / bandwidth})
        seconds = took(lambda right=right: engine.cross(right, right))
        results.add("kernels", f"Gram, {k}", {"ms": 1e3 * seconds, "of_fp64": 2 * m * k * k / seconds / double})
        gram = engine.cross(right, right)
        results.add("kernels", f"eigenproblem, {k}", {"ms": 1e3 * took(lambda gram=gram: np.linalg.eigh(gram))})
    from csrr.numerics.neighbors import Regression, find_nearest

    torch.cuda.synchronize()
    seconds, support = timed(lambda: find_nearest(pattern, 50))
    seconds, support = timed(lambda: find_nearest(pattern, 50))
    results.add("kernels", "50 nearest of all items", {"ms": 1e3 * seconds})
    regression = Regression(
        pattern, values, engine.put(pattern, np.ones(n, np.float32)), np.ones(m, np.float32), support
    )
    seconds = took(lambda: engine.cross_targets(regression), 2)
    results.add("kernels", "products with targets on the support", {"ms": 1e3 * seconds})
    seconds = took(lambda: engine.gather_grams(regression, support), 2)
    results.add("kernels", "Gram matrices of 50 neighbors", {"ms": 1e3 * seconds})
    grams, crossed = engine.gather_grams(regression, support), DeviceArray(torch.randn((1, m, 50), device=DEVICE))
    solve = lambda: engine.solve_items(support, grams, crossed, np.array([50]), np.array([10.0]))  # noqa: E731
    seconds = took(solve, 2)
    flops = m * (50**3 / 3 + 2 * 50**2)
    results.add("kernels", "systems of 50 neighbors", {"ms": 1e3 * seconds, "of_fp64": flops / seconds / double})


# Cores


def measure_cores(results: Results, *, names: tuple[str, ...]) -> None:
    """Default fits, and lists for everybody, with 1 to 16 threads; implicit's ALS with all of them."""
    from csrr._base.threads import n_threads

    results.add(
        "cores", "machine", {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count() or 0}
    )
    counts = [each for each in THREADS if each <= n_threads()]
    measure_implicit(results, {FITS[name][0] for name in names})
    for name in names:
        fit(name)
        seconds = {}
        for threads in counts:
            seconds[str(threads)], model = timed(lambda threads=threads, name=name: fit(name, threads=threads))
        results.add("cores", name, seconds | {"ndcg": evaluate(model, *load(FITS[name][0]))})
        model.recommend(k=20)
        lists = {}
        for threads in counts:
            lists[str(threads)] = timed(partial(model.recommend, k=20, threads=threads))[0]
        results.add("cores", f"{name}, lists of 20 for everybody", lists)


def measure_implicit(results: Results, data_sets: set[str]) -> None:
    """implicit's ALS, 256 factors and 15 iterations, its defaults otherwise."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from implicit.als import AlternatingLeastSquares

    for data in sorted(data_sets):
        clicks = load(data)[0].to_csr().astype(np.float32)
        fits = []
        for _ in range(2):
            model = AlternatingLeastSquares(factors=256, iterations=15, random_state=0)
            fits.append(timed(lambda model=model, clicks=clicks: model.fit(clicks, show_progress=False))[0])
        results.add("cores", f"{data}, implicit's ALS with 256 factors", {"seconds": min(fits)})


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("gpu", "cores"))
    parser.add_argument("--quick", action="store_true", help="a first look, in less than a minute")
    parser.add_argument("--profile", action="append", default=[], metavar="FIT", help="where this fit spends its time")
    parser.add_argument("--only", action="append", default=[], metavar="FIT", help="these fits alone")
    parser.add_argument("-o", "--output", type=Path, default=HERE)
    given = parser.parse_args()
    results = Results(given.output)
    if given.part == "cores":
        for name in given.profile:
            fit(name)
            profile_threads(name)
        measure_cores(results, names=tuple(given.only) or ("ml-1m, default", "gowalla, default"))
    else:
        names = tuple(given.only) or (QUICK if given.quick else tuple(FITS))
        measure_gpu(results, names, quick=given.quick, profiles=tuple(given.profile))


if __name__ == "__main__":
    main()
