"""EASE on a GPU, for data whose items-by-items matrices need ten gigabytes; tuned as in `benchmarks.defaults`.

    python -m benchmarks.ease_gpu [--json FILE]        (needs PyTorch and a GPU)

Adds EASE's rows of Amazon-CDs and Gowalla to the results.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import csrr
from benchmarks.datasets import DATASETS
from benchmarks.defaults import RESULTS, Score, score

STRENGTHS = (10.0, 30.0, 100.0, 300.0, 600.0, 1200.0)
USERS = 4096
"""The users whose clicks are multiplied at a time."""


def fit(log: csrr.Log, reg: float) -> Score:
    """The scores of EASE: B = I - P / diag(P), P = (X'X + reg*I)^-1, in single precision."""
    import torch

    clicks = log.to_csr().astype(np.float32)
    gram = torch.zeros(log.n_items, log.n_items, device="cuda")
    for first in range(0, log.n_users, USERS):
        block = torch.from_numpy(clicks[first : first + USERS].toarray()).cuda()
        gram += block.T @ block
    gram.diagonal().add_(reg)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
    weights = -inverse / inverse.diagonal()[None, :]
    weights.fill_diagonal_(0)
    return lambda rows: (torch.from_numpy(clicks[rows].toarray()).cuda() @ weights).cpu().numpy()


def measure(name: str) -> dict[str, Any]:
    """The strength that is best on a tenth of the training events, and its measures on the test data."""
    train, test = DATASETS[name].read(0)
    kept, held = csrr.split(train, ratio=0.9, seed=0)
    value_of = {reg: score(fit(kept, reg), kept.to_csr(), held.to_csr(), "ndcg@20") for reg in STRENGTHS}
    best = max(value_of, key=value_of.__getitem__)
    scores = fit(train, best)
    found = {each: score(scores, train.to_csr(), test.to_csr(), each) for each in DATASETS[name].measures}
    return {"reg": best, "found": found}


def main() -> None:
    """Measure both data sets and keep what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ease_gpu", description=main.__doc__)
    parser.add_argument("--json", type=Path, default=RESULTS)
    path = parser.parse_args().json
    kept = json.loads(path.read_text())
    for name in ("amazon-cds", "gowalla"):
        row, found = kept[f"accuracy/{name}/0"], measure(name)
        row["found"]["EASE"], row["params"]["EASE"] = found["found"], {"reg": found["reg"], "on": "GPU"}
        print(name, found, flush=True)
        path.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
