"""How much of a model's lists its exported vectors, and indexes of them, find again.

MovieLens-1M (rating >= 3, 80/20 per user). The figures are kept in docs/results/vectors.json. Needs csrr[vectors].
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import csrr
from benchmarks.measure import movielens_1m

KEPT = Path(__file__).parents[1] / "docs" / "results" / "vectors.json"
K = 20
NEIGHBORS = {"cost_ratio": 4.0, "reg_low_rank": 0.1, "max_rank": 64, "neighbors": 100, "reg_neighbors": 1.0}
MODELS: dict[str, Any] = {
    "WRMF": lambda: csrr.WRMF(64, max_iter=5),
    "CSRR with neighbors": lambda: csrr.CSRR(**NEIGHBORS, max_iter=5),
    "EASE": lambda: csrr.EASE(300.0),
}
ASKED: dict[str, list[dict[str, Any]]] = {
    "WRMF": [{}],
    "CSRR with neighbors": [{"part": "factors"}, {"dims": 64}, {"dims": 256}, {}],
    "EASE": [{"dims": 64}, {"dims": 256}, {}],
}


def main() -> None:
    train, _ = movielens_1m()
    rows = []
    for name, make in MODELS.items():
        model = make().fit(train)
        for asked in ASKED[name]:
            for to in ("faiss", "hnswlib"):
                started = time.perf_counter()
                with tempfile.TemporaryDirectory() as folder:
                    found = csrr.export(model, folder, to=to, k=K, **asked)
                print(f"{name} {asked} {to}: {str(found).splitlines()[-1]} ({time.perf_counter() - started:.0f} s)")
                told = found.summary()
                kept = ("to", "kind", "dims", "covers", "k", "n_compared")
                recalls = {each: told[each] for each in told if each.endswith("recall")}
                chosen = {} if asked or found.is_exact else {"dims_chosen": True}
                told = {each: told[each] for each in (*kept, "n_candidates")}
                rows.append({"model": name, **asked, **chosen, **told, **recalls})
    KEPT.write_text(
        json.dumps({"data": "MovieLens-1M, rating >= 3, 80 % of each user's", "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
