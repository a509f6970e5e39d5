"""The paper's rows: each system tuned on a validation split of the training data, then five splits, beside the print.

python -m benchmarks.paper [movielens-100k | movielens-1m] [system ...]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import csrr
from csrr.ranking.tables import text_table

FILES = {"movielens-100k": "ml-100k.zip", "movielens-1m": "ml-1m.zip"}
METRICS = ("recall", "precision", "list_ndcg", "ndcg")
SEEDS = range(5)


class System(NamedTuple):
    """A model with the parameters that are tried, and what the paper printed: R@5, P@5, NDCG@5."""

    model: type[csrr.Recommender]
    tried: list[dict[str, Any]]
    printed: tuple[float, float, float] | None = None


def grid(**choices: Iterable[Any]) -> list[dict[str, Any]]:
    """Every combination of the choices."""
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


RANKS = range(10, 55, 5)
WRMF = grid(rank=RANKS, reg=[2.0**e for e in range(-5, 1)], confidence=[1.0], reg_exponent=[0.0])
BPRMF = grid(rank=(20, 50), learning_rate=[2.0**-4, 2.0**-3], reg=[0.003, 0.01, 0.03], reg_bias=[0.003])
SHIFT = grid(reg_low_rank=[0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1])
NONNEGATIVE = grid(
    factors=["nonnegative"],
    rank=[100, 200],
    cost_ratio=[1.0, 1.5],
    reg_low_rank=[0.08],
    reg_sparse=[1.0],
    user_scaling=[0.3, 0.4, 0.5],
)
SMALL = grid(
    factors=["nonnegative"],
    rank=[30, 50],
    cost_ratio=[1.0, 2.0],
    reg_low_rank=[0.04, 0.08],
    reg_sparse=[1.0],
    user_scaling=[0.3, 0.4, 0.5],
)
TO_THE_LETTER = grid(
    factors=["nonnegative"],
    rank=[20, 50],
    user_scaling=[0.0],
    item_scaling=[0.0],
    positive_cost=[0.5, 0.7, 0.9],
    reg_low_rank=[0.01, 0.04, 0.12],
)
FREE = [{"rank": 256}]

SYSTEMS: dict[str, dict[str, System]] = {
    "movielens-100k": {
        "PopRank": System(csrr.PopRank, [{}], (0.0634, 0.1661, 0.3935)),
        "BPRMF": System(csrr.BPRMF, BPRMF, (0.1466, 0.3597, 0.6297)),
        "WRMF": System(csrr.WRMF, WRMF, (0.1546, 0.3640, 0.6525)),
        "MC-Shift": System(csrr.MCShift, SHIFT, (0.1301, 0.4522, 0.7097)),
        "CSRR-e": System(csrr.CSRRe, SMALL, (0.1311, 0.4487, 0.7093)),
        "CSRR": System(csrr.CSRR, [{}]),
    },
    "movielens-1m": {
        "PopRank": System(csrr.PopRank, [{}], (0.0421, 0.1879, 0.3763)),
        "BPRMF": System(csrr.BPRMF, BPRMF, (0.0949, 0.3590, 0.6044)),
        "WRMF": System(csrr.WRMF, WRMF, (0.1083, 0.3770, 0.6370)),
        "WRMF, our defaults": System(csrr.WRMF, [{}]),
        "MC-Shift": System(csrr.MCShift, SHIFT, (0.1119, 0.3941, 0.6525)),
        "CSRR-e": System(csrr.CSRRe, NONNEGATIVE, (0.1139, 0.3978, 0.6579)),
        "CSRR-e, rank <= 50": System(csrr.CSRRe, SMALL, (0.1139, 0.3978, 0.6579)),
        "CSRR-e, unscaled": System(csrr.CSRRe, TO_THE_LETTER, (0.1139, 0.3978, 0.6579)),
        "CSRR-e free, rank 256": System(csrr.CSRRe, FREE),
        "CSRR": System(csrr.CSRR, [{}]),
        "EASE": System(csrr.EASE, [{}]),
        "ItemKNN": System(csrr.ItemKNN, [{}]),
    },
}


def choose(system: System, train: csrr.Log) -> dict[str, Any]:
    """The parameters with the best NDCG@5 on a validation split inside `train`."""
    if len(system.tried) == 1:
        return system.tried[0]
    kept, held_out = csrr.split(train, ratio=0.9, seed=0)

    def score(params: dict[str, Any]) -> float:
        model = system.model(**params).fit(kept)
        return csrr.evaluate(model, kept, held_out, at=5, metrics=("ndcg",))["ndcg@5"]

    return max(system.tried, key=score)


def measure(data: str, name: str) -> dict[str, Any]:
    """Parameters chosen on the first split's training data; then the means over the five splits."""
    system = SYSTEMS[data][name]
    log = csrr.read(FILES[data], min_rating=3)
    began = time.perf_counter()
    params = choose(system, csrr.split(log, ratio=0.8, seed=0)[0])
    chosen = time.perf_counter()
    rows = []
    for seed in SEEDS:
        train, test = csrr.split(log, ratio=0.8, seed=seed)
        result = csrr.evaluate(system.model(**params).fit(train), train, test, at=(5, 10), metrics=METRICS)
        rows.append([result[f"{metric}@{k}"] for k in (5, 10) for metric in METRICS])
    recall, precision, list_ndcg, *_, ndcg_10 = np.mean(rows, axis=0)
    return {
        "data": data,
        "system": name,
        "params": params,
        "R@5": float(recall),
        "P@5": float(precision),
        "list NDCG@5": float(list_ndcg),
        "NDCG@10": float(ndcg_10),
        "printed": system.printed,
        "choosing s": round(chosen - began, 1),
        "fitting s": round((time.perf_counter() - chosen) / len(SEEDS), 2),
    }


def line(row: dict[str, Any]) -> list[str]:
    """The row of the table: every value beside the printed one and their ratio."""
    cells = []
    for place, name in enumerate(("R@5", "P@5", "list NDCG@5")):
        printed = row["printed"]
        beside = f" / {printed[place]:.4f} ({row[name] / printed[place]:.2f}x)" if printed else ""
        cells.append(f"{row[name]:.4f}{beside}")
    seconds = f"{row['choosing s']} + {row['fitting s']}"
    return [row["data"], row["system"], *cells, f"{row['NDCG@10']:.4f}", seconds, json.dumps(row["params"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", choices=SYSTEMS)
    parser.add_argument("systems", nargs="*")
    given = parser.parse_args()
    rows = []
    header = ["data", "system", "R@5 / paper", "P@5 / paper", "list NDCG@5 / paper", "NDCG@10", "choose + fit s", ""]
    for name in given.systems or SYSTEMS[given.data]:
        if name not in SYSTEMS[given.data]:
            parser.error(f"no system {name!r}; there are: {', '.join(SYSTEMS[given.data])}")
        rows.append(measure(given.data, name))
        print(text_table(header, [line(rows[-1])]), flush=True)
    print(text_table(header, [line(row) for row in rows]))
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / f"paper-{given.data}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
