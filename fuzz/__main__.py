"""python -m fuzz [CAMPAIGN ...] [--seconds N] [--cases N] [--seed N] [--workers N] [--found DIR] [--again FILE]"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

from fuzz.campaigns import CAMPAIGNS
from fuzz.runner import Failure, run, shrink, try_case

FOUND = Path(__file__).parent / "found"
_KEPT = 200
"""The most failures of a campaign that are written down."""


def main() -> int:
    """Run campaigns; the exit code is 1 where anything was found."""
    options = _read_options()
    if options.again:
        return _try_again(Path(options.again))
    if not options.campaign:
        for campaign in CAMPAIGNS.values():
            print(f"{campaign.name:12} {campaign.about}")
        return 0
    end, code = time.monotonic() + options.seconds, 0
    for place, name in enumerate(options.campaign):
        left = max(end - time.monotonic(), 0.0)
        code |= _attack(name, left / (len(options.campaign) - place), options)
    return code


def _attack(name: str, seconds: float, options: argparse.Namespace) -> int:
    kinds: list[str] = []
    stem = f"{name}-{options.seed}"

    def report(failure: Failure) -> None:
        last = failure.what.splitlines()[-1]
        kind = re.sub(r"/\S+|[0-9]+", "0", last)
        if kind not in kinds:  # the first of a kind is told
            print(f"{name} case {failure.number}: {last[:300]}", flush=True)
        kinds.append(kind)
        if len(kinds) > _KEPT:
            return
        file = options.found / f"{stem}-{failure.number}.case"
        file.write_bytes(failure.case)
        about = f"{name}, seed {options.seed}, case {failure.number}: python -m fuzz --again {file}"
        file.with_suffix(".txt").write_text(f"{about}\n\n{failure.what}\n", errors="backslashreplace")

    options.found.mkdir(parents=True, exist_ok=True)
    state = options.found / f"{stem}.state.json"
    if options.fresh:
        state.unlink(missing_ok=True)
    progress = run(
        CAMPAIGNS[name],
        seed=options.seed,
        seconds=seconds,
        cases=options.cases,
        workers=options.workers,
        state=state,
        say=lambda text: print(text, flush=True) if sys.stdout.isatty() else None,
        report=report,
    )
    missing = getattr(CAMPAIGNS[name], "left_out", "")
    rate = progress.done / max(progress.seconds, 1e-9)
    print(
        f"{name}: {progress.done:,} cases, {progress.failed} failed, {progress.seconds:,.0f} s"
        f" ({rate:,.1f} a second), seed {progress.seed}{missing and f', without {missing}, which is not installed'}",
        flush=True,
    )
    return int(progress.failed > 0)


def _try_again(file: Path) -> int:
    """Try a kept case once more, in this process, and leave a shorter one beside it where it still fails."""
    campaign, case = CAMPAIGNS[file.name.split("-")[0]], file.read_bytes()
    campaign.prepare()
    what = try_case(campaign, case)
    if not what:
        print(f"{file}: nothing goes wrong")
        return 0
    print(what)
    short = shrink(campaign, case)
    file.with_suffix(".short.case").write_bytes(short)
    print(f"{len(case):,} bytes, {len(short):,} once shortened: {file.with_suffix('.short.case')}")
    return 1


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Attack csrr and keep what breaks it.")
    parser.add_argument("campaign", nargs="*", metavar="CAMPAIGN", help=", ".join(CAMPAIGNS))
    parser.add_argument("--seconds", type=float, default=60, help="stop after so long, all campaigns together (60)")
    parser.add_argument("--cases", type=int, help="stop after so many cases, earlier runs counted")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other cases (0)")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time (1)")
    parser.add_argument("--found", metavar="DIR", type=Path, default=FOUND, help="where failures are kept (fuzz/found)")
    parser.add_argument("--fresh", action="store_true", help="from case 0, not from where the last run ended")
    parser.add_argument("--again", metavar="FILE", help="try one kept case again, here, and shorten it")
    options = parser.parse_args()
    if unknown := set(options.campaign) - CAMPAIGNS.keys():
        parser.error(f"no campaign {', '.join(sorted(unknown))}; there are {', '.join(CAMPAIGNS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
