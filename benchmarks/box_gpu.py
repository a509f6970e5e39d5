"""CSRR-II inside the paper's box, by Algorithm 1, on all of MovieLens-1M: its singular values are found on a GPU.

    python -m benchmarks.box_gpu RESULTS [-o FILE]        (needs PyTorch and a GPU)

RESULTS is the folder of a `csrr reproduce`. The fit has the parameters that were chosen for CSRR-II without the box
on the first split, so that the box is all that differs.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import csrr
from csrr.arrays import FloatArray
from csrr.paper.lists import MEASURED
from csrr.paper.printed import LENGTHS
from csrr.paper.reproduce import RATIO, read_log

DATA, AT_LEAST, SPLIT, SYSTEM = "ml-1m", 3.0, 0, "CSRR-II"


def svd_on_gpu(X: FloatArray, full_matrices: bool = False) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return X = P * sigma @ Qt by the eigenvalues of X'X, in double precision.

    Singular values below 1e-8 of the largest are lost. Algorithm 1 cuts them off anyway.
    """
    import torch

    assert not full_matrices
    on_gpu = torch.from_numpy(np.ascontiguousarray(X, np.float64)).cuda()
    squares, Q = torch.linalg.eigh(on_gpu.T @ on_gpu)
    sigma, Q = squares.clamp_min(0).sqrt().flip(0), Q.flip(1)
    P = (on_gpu @ Q) / sigma.clamp_min(1e-8 * float(sigma[0]))
    return P.cpu().numpy(), sigma.cpu().numpy(), Q.T.contiguous().cpu().numpy()


def find_row(folder: Path) -> dict[str, Any]:
    """Return the result of CSRR-II without the box on that split."""
    for file in folder.glob("rows/*.json"):
        row: dict[str, Any] = json.loads(file.read_text())
        task = row["task"]
        if (task["data"], task["at_least"], task["split"], task["system"]) == (DATA, AT_LEAST, SPLIT, SYSTEM):
            return row
    raise SystemExit(f"{folder} has no result of {SYSTEM} on {DATA}, split {SPLIT}")


def measure(row: dict[str, Any]) -> dict[str, Any]:
    """Fit inside the box with the row's parameters, and measure both on the test data."""
    train, test = csrr.split(read_log(DATA, AT_LEAST), ratio=RATIO, seed=SPLIT)
    free = csrr.CSRR(**row["task"]["params"]).fit(train)
    boxed = csrr.CSRR(**row["task"]["params"], box="paper", max_iter=200)
    began = time.perf_counter()
    with mock.patch.object(np.linalg, "svd", svd_on_gpu):
        boxed.fit(train, callback=lambda step: print(step, flush=True))
    seconds = time.perf_counter() - began
    scores = free.score_rows(np.arange(train.n_users))
    found = {
        name: csrr.evaluate(model, train, test, at=LENGTHS, metrics=MEASURED).means
        for name, model in (("free", free), ("boxed", boxed))
    }
    return {
        "data": DATA,
        "split": SPLIT,
        "params": row["task"]["params"],
        "found": found,
        "outside": {"below": float((scores < 0).mean()), "above": float((scores > 1).mean())},
        "status": boxed.certificate_.status,
        "iterations": boxed.certificate_.iterations,
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Run the box once, and write what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.box_gpu", description=main.__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/results/box.json"))
    args = parser.parse_args()
    args.output.write_text(json.dumps(measure(find_row(args.results)), indent=1) + "\n")


if __name__ == "__main__":
    main()
