"""The solvers, measured: `python -m benchmarks` measures what docs/results/benchmarks.json has not got yet.

Rows that are named are measured again. Every row is kept as it comes, so that a run that was stopped goes on; `make
docs` makes docs/benchmarks.md of them. The defaults against tuned rivals: `python -m benchmarks.defaults`; order
against its rivals: `python -m benchmarks order`; what items are: `python -m benchmarks features`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import features, order
from benchmarks.keep import RESULTS, describe_origin, keep_result, read_results
from benchmarks.measure import timed
from benchmarks.rows import ROWS
from csrr.results.table import format_text_table
from csrr_paper.results import describe_machine

KEPT = RESULTS / "benchmarks.json"


def choose_rows(named: list[str], only: str | None, kept: set[str]) -> list[str]:
    """The rows to measure: those named; else those not kept, all or only times, or only what is no time."""
    missing = [name for name in ROWS if name not in kept]
    return named or [name for name in missing if only is None or ROWS[name].is_time == (only == "times")]


def main() -> None:
    """Measure rows, keep each as it comes, and print the table of all that are kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"any of: {', '.join(ROWS)}; without: what is missing")
    parser.add_argument("--only", choices=("times", "others"), help="of what is missing, times or all but times")
    parser.add_argument("--json", type=Path, default=KEPT)
    arguments = parser.parse_args()
    unknown = set(arguments.rows) - set(ROWS)
    if unknown:
        parser.error(f"no row {', '.join(sorted(unknown))}; there are: {', '.join(ROWS)}")
    for name in choose_rows(arguments.rows, arguments.only, set(read_results(arguments.json))):
        seconds, values = timed(ROWS[name].work)
        print(f"{name}: {' | '.join(ROWS[name].show(values))} | {seconds:.0f} s", flush=True)
        origin = describe_origin(f"python -m benchmarks {name}")
        keep_result(arguments.json, name, {"values": values, "seconds": round(seconds, 1), **origin})
    kept = read_results(arguments.json)
    lines = [
        (name, *(text.replace("**", "") for text in row.show(values)), row.judge(values))
        for name, row in ROWS.items()
        if name in kept and (values := kept[name]["values"])
    ]
    print(f"\n{describe_machine()}\n")
    print(format_text_table(("row", "data", "measure", "ours", "rival", "wanted", "reached"), lines))


if __name__ == "__main__":
    others = {"order": order.main, "features": features.main}
    others[sys.argv[1]](sys.argv[2:]) if sys.argv[1:2] and sys.argv[1] in others else main()
