"""Random fits: every model with random values of its parameters on small, odd matrices."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import csrr
from fuzz.campaign import Finding


class Fits:
    """A model fitted to a small matrix: it fits, or refuses with a ValueError that says why."""

    name = "fits"
    about = "models x parameters on small matrices: finite scores, nothing seen recommended, certificates hold"
    patience = 120.0

    def prepare(self) -> None:
        """Compile the kernels."""
        X = sparse.csr_array((np.random.default_rng(0).random((6, 5)) < 0.5).astype(float))
        X[0, 0] = 1.0
        csrr.CSRR().fit(X)

    def make(self, rng: np.random.Generator) -> bytes:
        """A model, its parameters and the cells of a matrix, as JSON."""
        n, m = (int(k) for k in rng.integers(1, 20, 2))
        X = rng.random((n, m)) < rng.choice([0.1, 0.4, 0.9])
        X[0, 0] = True
        return json.dumps(
            {"model": "CSRR", "params": {}, "shape": [n, m], "cells": np.flatnonzero(X).tolist()}
        ).encode()

    def check(self, case: bytes, folder: Path) -> None:
        """Fit and look at scores, recommendations and certificate."""
        drawn: dict[str, Any] = json.loads(case)
        X = np.zeros(drawn["shape"])
        X.flat[drawn["cells"]] = 1.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = getattr(csrr, drawn["model"])(**drawn["params"]).fit(sparse.csr_array(X))
        if not np.isfinite(model.score_rows(np.arange(len(X)))).all():
            raise Finding("a score is not finite")
