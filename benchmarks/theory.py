"""The simulation of docs/theory.md, kept in docs/results/theory.json: `python -m benchmarks.theory`, about a minute.

One run with the defaults, and one for each change of the problem that the page speaks of. A run that is kept is not
done again; to simulate anew, delete the file.
"""

from __future__ import annotations

import argparse
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import csrr_paper
from benchmarks.keep import RESULTS, describe_origin, keep_result, read_results
from csrr_paper.theory import Measurement, Simulation

KEPT = RESULTS / "theory.json"
RUNS: dict[str, dict[str, Any]] = {
    "default": {},
    "low_cost": {"alpha": 2.0, "repeats": 5},
    "low_threshold": {"q": 0.3, "repeats": 5},
    "quarter_observed": {"rho": 0.25, "alpha": 8.0, "repeats": 5},
    "wrong_threshold": {"q": 0.85, "repeats": 5},
}
COLUMNS = [each.name for each in fields(Measurement)]


def write_plain(found: Simulation) -> dict[str, Any]:
    """A simulation as plain values: its problem, and a list of values for each fit."""
    problem = {"alpha": found.alpha, "q": found.q, "rho": found.rho, "seed": found.seed}
    return problem | {"columns": COLUMNS, "rows": [list(astuple(each)) for each in found.rows]}


def read_plain(plain: dict[str, Any]) -> Simulation:
    """The simulation that `write_plain` made these values of."""
    rows = [Measurement(**dict(zip(plain["columns"], values, strict=True))) for values in plain["rows"]]
    return Simulation(rows, plain["alpha"], plain["q"], plain["rho"], plain["seed"])


def main() -> None:
    """Simulate what is not kept yet."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.theory", description=main.__doc__)
    parser.add_argument("--json", type=Path, default=KEPT)
    path = parser.parse_args().json
    for name, changes in RUNS.items():
        if name not in read_results(path):
            found = csrr_paper.theory.simulate(**changes)
            keep_result(
                path, name, write_plain(found) | {"changes": changes, **describe_origin("python -m benchmarks.theory")}
            )
        print(name, read_plain(read_results(path)[name]), "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
