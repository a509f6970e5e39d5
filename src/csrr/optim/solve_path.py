"""Solutions along a falling l1, each for a fraction of the price of a fit of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from csrr.optim.certificate import Certificate, Point, compute_relative_gap, compute_span_norm, sum_squares
from csrr.optim.krylov import LowRankPlusSparse, estimate_spectral_norm
from csrr.optim.lowrank import LowRank
from csrr.optim.problem import Problem
from csrr.optim.solver import Options, Solution, solve


def solve_path(
    problem: Problem,
    strengths: Sequence[float],
    options: Options,
    *,
    callback: Callable[[Solution], object] | None = None,
) -> list[Solution]:
    """A solution for each l1 of `strengths`, falling: by one SVD where that is enough, else warm-started fits."""
    if problem.is_one_shot:
        solutions = _solve_one_shot_path(problem, strengths, options)
        for solution in solutions if callback else ():
            callback(solution)  # type: ignore[misc]
        return solutions
    solutions, start = [], LowRank.zero(problem.pattern.shape, problem.target.dtype.type)
    for l1 in strengths:
        solution = solve(problem.with_strength(l1), options, start=start)
        solutions.append(solution)
        start = solution.low_rank
        if callback is not None:
            callback(solution)
    return solutions


def _solve_one_shot_path(problem: Problem, strengths: Sequence[float], options: Options) -> list[Solution]:
    """One SVD, at the weakest strength, serves all: U(l1) = left (sigma - l1)_+ right'."""
    began = time.perf_counter()
    weakest = problem.with_strength(strengths[-1])
    base = solve(weakest, options)
    u = base.low_rank
    sigma = u.s + weakest.l1
    gradient = LowRankPlusSparse(u, problem.pattern, Point.at(weakest, u).gradient_values)
    rng, dtype = np.random.default_rng(options.seed), u.left.dtype.type
    norm = estimate_spectral_norm(gradient, rng, dtype=dtype, rtol=0.1 * options.tol)[0]
    span_norm = compute_span_norm(gradient)
    # <left_i right_i', T>: sigma, but for the error of the triplets
    along = problem.engine.dot_columns(u.left, problem.pattern.fill(problem.target).times(u.right))
    square = problem.engine.sum_cells(sum_squares, problem.target)
    solutions = []
    for l1 in strengths:
        s = np.maximum(sigma - l1, 0)
        inner, own = float(s @ along), float(s @ s)
        primal = l1 * float(s.sum()) + 0.5 * (square - 2 * inner + own)
        dual, span_dual = (
            c * (square - inner) - 0.5 * c**2 * (square - 2 * inner + own)
            # The gradients of two strengths differ by at most the difference of the strengths.
            for c in (min(1.0, l1 / (each + l1 - weakest.l1)) for each in (norm, span_norm))
        )
        is_capped = base.certificate.rank_capped and bool(np.all(s > 0))
        certificate = replace(
            base.certificate,
            primal=primal,
            dual=dual,
            gap=compute_relative_gap(primal, dual),
            rank=int(np.count_nonzero(s)),
            seconds=time.perf_counter() - began,
            rank_capped=is_capped,
            span_dual=span_dual if is_capped else None,
        )
        solutions.append(Solution(LowRank(u.left, s, u.right), _mark_converged(certificate, options), []))
    return solutions


def _mark_converged(certificate: Certificate, options: Options) -> Certificate:
    return replace(certificate, status="converged") if certificate.gap <= options.tol else certificate
