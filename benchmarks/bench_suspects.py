"""How wrong the scores of `suspects()` are, and what `csrr.clean` costs, where the noise is known: it was planted.

Logs of made tastes and real ones (`benchmarks/made_tastes.py`), those that the constants were chosen on and fresh ones
apart, with 0, 5, 10 and 40 % of random clicks and 10 % of accidental ones (`csrr.add_noise`): the share of noise by
estimate, the AUC of finding the planted, and of the clean and the planted clicks the shares that `csrr.clean` removes
by default and with `above=0.5`. What real logs hold of noise before any is planted, nobody knows: all counts as clean.

    python -m benchmarks.bench_suspects chosen --seeds 0 --json docs/results/suspects.json
    python -m benchmarks.bench_suspects fresh --seeds 21 --json docs/results/suspects.json
    python -m benchmarks.bench_suspects movielens --json docs/results/suspects.json

`movielens` measures 30 % of planted clicks of each kind in the training logs of splits 1 to 5, as `csrr robustness`
plants them, and the stability of V and of the suspects of the whole log. Each part replaces what the file had of it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import csrr
from benchmarks.made_tastes import CHOSEN, FRESH, Make
from csrr.data.synthetic import NOISE_KINDS
from csrr.results.table import format_text_table
from csrr_paper.noise_experiment import auc

PLANTED: tuple[tuple[Any, float], ...] = (
    ("random", 0.0),
    ("random", 0.05),
    ("random", 0.1),
    ("random", 0.4),
    ("accidental", 0.1),
)
Rows = list[dict[str, Any]]


def measure(log: csrr.Log, kind: Any, share: float, seed: int) -> dict[str, Any]:
    """Of one log with one kind and share of planted clicks."""
    noisy = csrr.add_noise(log, kind, share, seed=seed)
    planned = csrr.plan_cleaning(noisy.log)
    found, planted = planned.suspects, noisy.planted
    facts: dict[str, Any] = {
        "estimate": found.noise_share,
        "at the bottom": found.share_at_bottom,
        "separation": found.separation,
        "doubt": found.doubt,
    }
    if planted.any():
        facts["auc"] = float(auc(found.scores, planted))
    for name, mask in (("default", planned.mask), ("above 0.5", found.above(0.5))):
        facts[f"clean removed, {name}"] = float(mask[~planted].mean())
        if planted.any():
            facts[f"planted removed, {name}"] = float(mask[planted].mean())
    return facts


def measure_all(logs: dict[str, Make], seeds: list[int]) -> Rows:
    """Of all logs, kinds and shares; a row is printed as soon as it is there."""
    rows: Rows = []
    for name, make in logs.items():
        for seed in seeds:
            log = make(seed)
            for kind, share in PLANTED:
                row = {"data": name, "kind": kind, "planted": share, "seed": seed, **measure(log, kind, share, seed)}
                rows.append(row)
                print(", ".join(f"{key} {_show(value)}" for key, value in row.items()), flush=True)
    return rows


def measure_movielens() -> dict[str, Any]:
    """Of MovieLens-100K: finding 30 % of planted clicks of each kind, splits 1 to 5, and what a small change leaves."""
    log = csrr.read(csrr.locate("ml-100k"), min_rating=3)
    rows: Rows = []
    for kind in NOISE_KINDS:
        for seed in range(1, 6):
            train, test = csrr.split(log, ratio=0.8, seed=seed)
            noisy = csrr.add_noise(train, kind, 0.3, seed=seed, avoid=test)
            events, planted = noisy.log, noisy.planted
            found = csrr.plan_cleaning(events).suspects
            scores = {
                "suspects()": found.scores,
                "rare item": -events.item_counts()[events.item_rows],
                "many clicks": events.user_counts()[events.user_rows],
            }
            aucs = {name: float(auc(each, planted)) for name, each in scores.items()}
            rows.append({"kind": kind, "split": seed, "estimate": found.noise_share, "doubt": found.doubt} | aucs)
            print(rows[-1], flush=True)
    steady = csrr.CSRR(reg_sparse=0.5, neighbors=0, reg_low_rank="noise").fit(log).stability()
    return {"found": rows, "stability": [{key: _plain(value) for key, value in row.items()} for row in steady.rows()]}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _show(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["chosen", "fresh", "movielens"])
    parser.add_argument("--only", nargs="+", choices=[*CHOSEN, *FRESH])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.part == "movielens":
        found: Any = measure_movielens()
    else:
        logs = CHOSEN if given.part == "chosen" else FRESH
        found = measure_all({name: logs[name] for name in given.only or logs}, given.seeds)
        worst = sorted(found, key=lambda row: -row["clean removed, default"])[:10]
        columns = ["data", "kind", "planted", "seed", "estimate", "clean removed, default"]
        print(format_text_table(columns, [[row[column] for column in columns] for row in worst]))
    if given.json:
        kept = json.loads(given.json.read_text()) if given.json.exists() else {}
        given.json.write_text(json.dumps(kept | {given.part: found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
