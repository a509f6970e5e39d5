"""How much accuracy models keep when a share of their training log is noise: `CSRR()` beside what is known to be good.

Ratings of 3 and more, 80/20 per user; noise is planted in the training part only (`csrr.add_noise`), the test part is
clean. Every model chooses its own strengths on held-out events of the noisy log, as its user would have it.

What is kept is NDCG@20 of the model fitted to the noisy log over that of its kind fitted to the clean one. Both are
asked for the same items: nobody is recommended what the noisy log has for them, since the fewer items are left, the
fewer there are to mistake for test items. Intervals are from resampled users, all models on the same ones.

    python -m benchmarks.bench_noise ml-100k --seeds 0 1 2
    python -m benchmarks.bench_noise ml-1m --seeds 0
    python -m benchmarks.bench_noise "Steam, purchases" --levels random:0 --models "CSRR, denoise=0"
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import csrr
from benchmarks.keep import RESULTS, describe_origin, keep_result
from benchmarks.made_tastes import CHOSEN, FRESH
from csrr.results.table import format_text_table

KEPT = RESULTS / "noise.json"
METRIC, RESAMPLED = "ndcg@20", 2000
MODELS: dict[str, Callable[[int], csrr.Recommender]] = {
    "CSRR": lambda threads: csrr.CSRR(threads=threads),
    "CSRR, denoise=0": lambda threads: csrr.CSRR(denoise=0, threads=threads),
    "EASE": lambda threads: csrr.EASE(threads=threads),
    "ItemKNN": lambda threads: csrr.ItemKNN(threads=threads),
    "WRMF": lambda threads: csrr.WRMF(threads=threads),
}
LEVELS = ("random:0.3", "random:0.5", "popular:0.3", "popular:0.5", "push:0.3")
Values = npt.NDArray[np.float64]


def measure(log: csrr.Log, levels: list[str], seeds: list[int], names: list[str], threads: int) -> dict[str, Any]:
    """Return, by level and model, the values of all users of all splits, fitted to the clean and the noisy log."""
    clean: dict[str, list[Values]] = {}
    noisy: dict[str, list[Values]] = {}
    facts: dict[str, list[float]] = {}
    for seed in seeds:
        train, test = csrr.split(log, ratio=0.8, seed=seed)
        plain = {name: MODELS[name](threads).fit(train) for name in names}
        for level in levels:
            kind, share = level.split(":")
            planted = csrr.add_noise(train, kind, float(share), seed=seed, avoid=test)  # type: ignore[arg-type]
            events = planted.log
            genuine = np.zeros(events.n_users, np.bool_)
            genuine[events.users.rows(train.users.ids)] = True
            theirs = events.select(genuine[events.user_rows])
            for name in names:
                model = MODELS[name](threads).fit(events) if planted.planted.any() else plain[name]
                for found, each, seen in ((clean, plain[name], theirs), (noisy, model, events)):
                    values = csrr.evaluate(each, seen, test, at=20, metrics=("ndcg",)).per_user[METRIC]
                    found.setdefault(f"{level} {name}", []).append(values)
                if isinstance(model, csrr.CSRR):
                    facts.setdefault(f"{level} {name}", []).append(float(model.chosen_.settings.denoise))
                print(f"{level}, {name}, split {seed}: {noisy[f'{level} {name}'][-1].mean():.4f}", flush=True)
    return {
        level: compare({name: [np.concatenate(each[f"{level} {name}"]) for each in (clean, noisy)] for name in names})
        | {"denoise": facts[f"{level} CSRR"]}
        for level in levels
    }


def compare(values: dict[str, list[Values]]) -> dict[str, Any]:
    """Return what each model keeps, and how much more of it `CSRR()` keeps and has, with 95 % intervals."""
    n = len(values["CSRR"][0])
    rng = np.random.default_rng(0)
    drawn = [np.bincount(rng.integers(n, size=n), minlength=n) / n for _ in range(RESAMPLED)]
    means = {name: np.array([[weights @ each for each in both] for weights in drawn]) for name, both in values.items()}
    found: dict[str, Any] = {}
    for name, (clean, noisy) in values.items():
        mine, other = means["CSRR"], means[name]
        more = mine[:, 1] / mine[:, 0] - other[:, 1] / other[:, 0]
        found[name] = {
            "clean": float(clean.mean()),
            "noisy": float(noisy.mean()),
            "kept": float(noisy.mean() / clean.mean()),
            "CSRR keeps more": np.quantile(more, (0.025, 0.975)).tolist(),
            "CSRR is better": np.quantile(mine[:, 1] / other[:, 1] - 1, (0.025, 0.975)).tolist(),
        }
    return {"users": n, "models": found}


def read(name: str) -> csrr.Log:
    """Return a log of the data folder, ratings of 3 and more, or one of `made_tastes`."""
    logs = CHOSEN | FRESH
    return logs[name](0) if name in logs else csrr.read(csrr.locate(name), min_rating=3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--levels", nargs="+", default=list(LEVELS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS)[1:], help="beside CSRR")
    parser.add_argument("--threads", type=int, default=0)
    given = parser.parse_args()
    found = measure(read(given.data), given.levels, given.seeds, ["CSRR", *given.models], given.threads)
    for level, each in found.items():
        rows = [[name, *(one[key] for key in ("clean", "noisy", "kept"))] for name, one in each["models"].items()]
        print(level, format_text_table(["model", "clean", "noisy", "kept"], rows), sep="\n")
        command = f"python -m benchmarks.bench_noise {given.data} --seeds {' '.join(map(str, given.seeds))}"
        keep_result(KEPT, f"{given.data}, {level}", each | {"seeds": given.seeds, **describe_origin(command)})


if __name__ == "__main__":
    main()
