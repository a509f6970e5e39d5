"""Random fits: every model with any values that its parameters allow, on small and odd matrices."""

from __future__ import annotations

import json
import math
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import csrr
from csrr.model_parameters import MOST
from csrr.models.csrr_base import CSRRBase
from csrr.numerics.factored import FactoredSolution
from csrr.parameters import Choice, Duration, Number, Parameter, Service, Whole, list_parameters, list_rivals
from csrr.registry import HOMES, MODELS
from fuzz.campaign import Finding
from tests.reference import dense

KINDS = {name: MODELS[name] for name in HOMES}
"""Our own models; others may have been registered."""
_SMALL = 200
"""Up to this many cells a certificate is held against the optimum by a dense solver; beyond, against U alone."""
_SLOW = {"max_iter": 60, "epochs": 5, "iterations": 5}


class Fits:
    """A model fitted to a small matrix: it fits, or refuses with a ValueError that says why."""

    name = "fits"
    about = "every model x any parameters on small matrices: scores are finite, certificates hold, files round-trip"
    patience = 120.0

    def prepare(self) -> None:
        """Compile the kernels."""
        warnings.simplefilter("ignore")
        X = (np.random.default_rng(0).random((8, 6)) < 0.5).astype(float)
        for kind in KINDS.values():
            kind().fit(_make_log(X, None, is_ordered=True)).recommend(0, 2)

    def make(self, rng: np.random.Generator) -> bytes:
        """A model, its parameters and a matrix, as JSON."""
        kind = KINDS[str(rng.choice(list(KINDS)))]
        values = draw_matrix(rng)
        cells = np.flatnonzero(values)
        case = {
            "model": kind.__name__,
            "params": draw_parameters(rng, kind, min(values.shape)),
            "shape": values.shape,
            "cells": cells.tolist(),
            "values": values.flat[cells].tolist(),
            "history": rng.integers(values.shape[1], size=rng.integers(0, 4)).tolist(),
            "is_saved": bool(rng.random() < 0.5),
            "times": rng.integers(0, 10 ** rng.integers(1, 12), len(cells)).tolist() if rng.random() < 0.3 else None,
            "is_ordered": bool(rng.random() < 0.2) or kind().uses_order,
            "update": rng.integers(values.shape, size=(3, 2)).tolist() if rng.random() < 0.2 else None,
        }
        return json.dumps(case).encode()

    def check(self, case: bytes, folder: Path) -> None:
        """Fit, and look at all that the model answers."""
        drawn: dict[str, Any] = json.loads(case)
        X = np.zeros(drawn["shape"])
        X.flat[drawn["cells"]] = drawn["values"]
        found: list[tuple[Any, FactoredSolution]] = []
        model: Any = watch(KINDS[drawn["model"]], found)(**drawn["params"])
        try:
            model.fit(_make_log(X, drawn.get("times"), is_ordered=drawn.get("is_ordered", False)))
        except (csrr.ParameterError, csrr.DataError) as error:
            if not str(error):
                raise Finding(f"{type(error).__name__} without a word") from error
            return
        check_answers(model, X > 0, drawn["history"])
        if model.can("suspects"):
            with suppress(csrr.ParameterError):
                if not np.isfinite(model.suspects().scores).all():
                    raise Finding("a score of a suspect is not finite")
        if drawn["is_saved"]:
            model.save(folder / "model.csrr")
            again = csrr.load(folder / "model.csrr")
            if not np.array_equal(again.score_rows(np.arange(len(X))), model.score_rows(np.arange(len(X)))):
                raise Finding("a loaded model scores otherwise")
        if drawn.get("update"):
            users, items = zip(*drawn["update"], strict=True)
            columns = {"user": users, "item": items, "weight": [1.0] * 3, "time": [10**6] * 3}
            with suppress(csrr.ParameterError, csrr.DataError):
                model.update(columns)
                if not np.isfinite(model.score_rows(np.arange(len(X)))).all():
                    raise Finding("after an update a score is not finite")
        for problem, fit in found:
            check_certificate(problem, fit)


def _make_log(X: Any, times: list[int] | None, *, is_ordered: bool) -> csrr.Log:
    """The log of a matrix, its events at these times, or else in the order of the cells."""
    log = csrr.Log.from_matrix(sparse.csr_array(X))
    if is_ordered:
        log = replace(log, places=np.arange(len(log)))
    return log if times is None else replace(log, times=np.resize(np.array(times), len(log)))


def draw_matrix(rng: np.random.Generator) -> Any:
    """A small matrix, (n, m), of a random kind: sparse to full, in blocks, with odd weights.

    Now and then there are users enough for a search over what is "auto".
    """
    n, m = (int(k) for k in rng.integers(1, rng.choice([3, 8, 20, 40]), 2))
    n = int(rng.integers(150, 260)) if rng.random() < 0.03 else n
    kind = rng.integers(6)
    X = rng.random((n, m)) < rng.choice([0.05, 0.3, 0.6, 1.0])
    if kind == 0:
        X = np.eye(n, m, dtype=bool)
    elif kind == 1:
        X = np.repeat(X[:1], n, axis=0)
    elif kind == 2:
        X[: n // 2, : m // 2] = X[n // 2 :, m // 2 :] = True
    elif kind == 3:
        X[rng.integers(n)] = True
        X[:, rng.integers(m)] = True
    if not X.any():
        X[0, 0] = True
    weights = np.ones((n, m))
    if rng.random() < 0.3:
        weights = 10.0 ** rng.uniform(-30, 30, (n, m)) if rng.random() < 0.3 else rng.integers(1, 6, (n, m)) * 1.0
    return X * weights


def draw_parameters(rng: np.random.Generator, kind: Any, small: int) -> dict[str, Any]:
    """Values for some of a model's parameters, within what they may be and often at the edge of it."""
    declared, chosen = list_parameters(kind), {}
    for name in rng.permutation(list(declared))[: rng.integers(0, 6)]:
        name = str(name)
        if set(list_rivals(name, declared)) & chosen.keys() or name in ("threads", "time_limit"):
            continue
        chosen[name] = draw_value(rng, declared[name], small)
        for other in declared[name].given_with:
            chosen[other] = draw_value(rng, declared[other], small)
    return chosen | {name: most for name, most in _SLOW.items() if name in declared and name not in chosen}


def draw_value(rng: np.random.Generator, declared: Parameter, small: int) -> Any:
    """A value that a parameter may have."""
    if declared.words and rng.random() < 0.3:
        return str(rng.choice(declared.words))
    if declared.optional and rng.random() < 0.1:
        return None
    match declared:
        case Service():
            return None
        case Choice():
            return str(rng.choice(declared.words))
        case Duration():
            return float(10.0 ** rng.uniform(-30, 30)) if rng.random() < 0.5 else str(rng.choice(["1d", "90d", "2h"]))
        case Whole():
            most = {"rank": small, "max_rank": 2 * small}.get(declared.name, 12)
            return int(rng.integers(declared.least, max(most, declared.least) + 1))
        case Number(below=1):
            return float(rng.choice([1e-9, 0.01, rng.uniform(0.05, 0.95), 0.99, 1 - 1e-9]))
        case Number():
            low = declared.above if declared.above is not None else declared.least
            low, most = -MOST if low is None else low, min(declared.most, MOST)
            edges = [
                value
                for value in (low, most, float(np.nextafter(low, np.inf)), 1e-38, 1e-45)
                if math.isfinite(value) and declared.allows(value)
            ]
            if edges and rng.random() < 0.2:
                return float(rng.choice(edges))
            size = 10.0 ** (rng.uniform(-3, 1) if rng.random() < 0.7 else rng.uniform(-30, 30))
            return float(np.clip(max(low, 0.0) + size, np.nextafter(low, np.inf), most))
    raise TypeError(f"no way to draw {declared.name}")


def check_answers(model: Any, seen: Any, history: list[int]) -> None:
    """A finding where an answer is not finite, not in order, or has been seen."""
    n, m = seen.shape
    scores = model.score_rows(np.arange(n))
    if scores.shape != (n, m) or not np.isfinite(scores).all():
        raise Finding("a score is not finite")
    best = model.recommend(np.arange(n), m)
    is_there = best.scores > -np.inf
    if not np.isfinite(best.scores[is_there]).all():
        raise Finding("a recommendation's score is not finite")
    if (is_there.sum(axis=1) != (~seen).sum(axis=1)).any():
        raise Finding("not all that is new is recommended")
    users, _ = np.nonzero(is_there)
    if seen[users, best.items[is_there].astype(int)].any():
        raise Finding("an item is recommended to one who has it")
    if (best.scores[:, 1:] > best.scores[:, :-1]).any():
        raise Finding("recommendations are not in order")
    if not history:
        return
    new = model.recommend_for(history, m)
    is_there = new.scores > -np.inf
    if set(new.items[is_there].tolist()) & set(history) or not np.isfinite(new.scores[is_there]).all():
        raise Finding("a new user's recommendations hold what they have, or are not finite")
    if model.can("explain"):
        # Factors beside which a penalty is lost can be fitted, but explain nothing, and say so.
        with suppress(csrr.ParameterError):
            model.explain(0, int(np.argmin(seen[0])))
    if model.can("similar_items"):
        model.similar_items(history[0])


def watch(kind: Any, found: list[tuple[Any, FactoredSolution]]) -> Any:
    """The same kind of model, whose solver also puts what it finds, with its problem, into a list."""
    if not issubclass(kind, CSRRBase):
        return kind

    class Watched(kind):
        def _solve(self, problem: Any, *given: Any) -> FactoredSolution:
            fit: FactoredSolution = super()._solve(problem, *given)
            found.append((problem.problem, fit))
            return fit

    Watched.__name__ = kind.__name__
    return Watched


def check_certificate(problem: Any, fit: FactoredSolution) -> None:
    """A finding where the certificate's bounds do not hold, by dense arithmetic in double precision."""
    certificate = fit.certificate
    exact = _Exact(problem)
    U = fit.factors.users.astype(float) @ fit.factors.items.astype(float).T
    primal, lower = dense.objective_eliminated(U, exact), certificate.dual
    # The factors are rounded once more than the U that was certified.
    rounded = float(np.finfo(fit.factors.users.dtype).eps) ** 2 * float(exact.weight.sum() * (U**2).max())
    allowed = (2 * certificate.rounding + 1e-6) * certificate.primal + 4 * rounded + 1e-30
    if not certificate.gap >= 0:
        raise Finding(f"a gap of {certificate.gap}: {certificate}")
    if primal - lower > (certificate.gap + 1e-5) * primal + allowed and certificate.status == "converged":
        raise Finding(f"objective {primal}, above the certified {certificate.primal}: {certificate}")
    if U.size <= _SMALL:
        try:
            best = min(primal, dense.solve(exact, tol=1e-9, max_iter=1000).objective)
        except RuntimeError:
            best = primal
        if lower > best + allowed:
            raise Finding(f"dual {lower} above the optimum {best}: {certificate}")


class _Exact(dense.Dense):
    """A problem in dense arrays, with the cells' numbers as they are."""

    def __init__(self, problem: Any) -> None:
        pattern = problem.pattern
        seen = pattern.make_matrix(np.ones(pattern.nnz)).toarray() > 0

        def spread(values: Any, elsewhere: float) -> Any:
            out = np.full(pattern.shape, elsewhere)
            out[seen] = values
            return out

        object.__setattr__(self, "l1", float(problem.l1))
        cells = vars(self)
        cells["observed"] = seen
        cells["weight"] = spread(problem.weight, 1.0)
        cells["target"] = cells["T"] = spread(problem.target, 0.0)
        cells["cap"] = spread(np.inf if problem.v_penalty is None else problem.v_penalty, np.inf)
