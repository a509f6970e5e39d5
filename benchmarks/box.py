"""CSRR-II inside the paper's box, by Algorithm 1, on all of MovieLens-1M.

    python -m benchmarks.box RESULTS [-o FILE]        (a GPU is used where PyTorch finds one)

RESULTS is the folder of a `csrr reproduce`. Two fits: with the parameters that were chosen for CSRR-II without the box
on the first split, and with α = 1 and λ₁ divided by the α chosen, so that the targets of the clicks fit in the box.
Each is compared with the fit of the same parameters without the box.
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
from csrr._base.arrays import FloatArray
from csrr_paper.jobs import STEP_ITERATIONS
from csrr_paper.printed import LENGTHS
from csrr_paper.reproduce import RATIO, read_log
from csrr_paper.results import MEASURED, read_versions

DATA, AT_LEAST, SPLIT = "ml-1m", 3.0, 0
NUMPY_EIGH = np.linalg.eigh


def decompose(X: FloatArray, full_matrices: bool = False, compute_uv: bool = True) -> Any:
    """Return X = P * sigma @ Qt by the eigenvalues of X'X, in double precision: ten times as fast as an SVD.

    Singular values below 1e-8 of the largest are lost. Algorithm 1 cuts them off anyway.
    """
    assert not full_matrices
    squares, Q = _eigh(X.T @ X)
    sigma, Q = np.sqrt(np.maximum(squares, 0))[::-1], Q[:, ::-1]
    if not compute_uv:
        return sigma
    return (X @ Q) / np.maximum(sigma, 1e-8 * sigma[0]), sigma, np.ascontiguousarray(Q.T)


def _eigh(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    try:
        import torch

        on_gpu = torch.cuda.is_available()
    except ImportError:
        on_gpu = False
    if not on_gpu:
        return NUMPY_EIGH(gram)
    values, vectors = torch.linalg.eigh(torch.from_numpy(gram).cuda())
    return values.cpu().numpy(), vectors.cpu().numpy()


def find_params(folder: Path, system: str) -> dict[str, Any]:
    """Return what was chosen for a system on that split."""
    for file in folder.glob("rows/*.json"):
        task = json.loads(file.read_text())["task"]
        if (task["data"], task["at_least"], task["split"], task["system"]) == (DATA, AT_LEAST, SPLIT, system):
            return dict(task["params"])
    raise SystemExit(f"{folder} has no result of {system} on {DATA}, split {SPLIT}")


def measure(params: dict[str, Any]) -> dict[str, Any]:
    """Fit with and without the box, and measure both on the test data."""
    train, test = csrr.split(read_log(DATA, AT_LEAST), ratio=RATIO, seed=SPLIT)
    free = csrr.CSRR(**params).fit(train)
    boxed = csrr.CSRR(**params, box="paper", max_iter=STEP_ITERATIONS)
    began = time.perf_counter()
    with mock.patch.object(np.linalg, "svd", decompose):
        boxed.fit(train, callback=lambda step: print(step, flush=True))
    seconds = time.perf_counter() - began
    scores = free.score_rows(np.arange(train.n_users))
    found = {
        name: csrr.evaluate(model, train, test, at=LENGTHS, metrics=MEASURED).means
        for name, model in (("free", free), ("boxed", boxed))
    }
    return {
        "params": params,
        "found": found,
        "outside": {"below": float((scores < 0).mean()), "above": float((scores > 1).mean())},
        "status": boxed.certificate_.status,
        "iterations": boxed.certificate_.iterations,
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Run both fits, and write what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.box", description=main.__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/results/box.json"))
    args = parser.parse_args()
    chosen = find_params(args.results, "CSRR-II")
    alpha = chosen["positive_cost"] / (1 - chosen["positive_cost"])
    fits = [measure(chosen), measure(chosen | {"positive_cost": 0.5, "l1": chosen["l1"] / alpha})]
    found = {"data": DATA, "split": SPLIT, "versions": read_versions(), "fits": fits}
    args.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
