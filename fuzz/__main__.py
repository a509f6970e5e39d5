"""python -m fuzz [CAMPAIGN ...] [--seconds N] [--cases N] [--seed N] [--workers N] [--again FILE]"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fuzz.campaigns import CAMPAIGNS
from fuzz.runner import Failure, run, shrink, try_case

HERE = Path(__file__).parent
FOUND = HERE / "found"


def main() -> int:
    """Run campaigns; the exit code is 1 where anything was found."""
    options = _read_options()
    if options.again:
        return _try_again(Path(options.again))
    if not options.campaign:
        for campaign in CAMPAIGNS.values():
            print(f"{campaign.name:12} {campaign.about}")
        return 0
    return max(_attack(name, options) for name in options.campaign)


def _attack(name: str, options: argparse.Namespace) -> int:
    campaign, kinds = CAMPAIGNS[name], set()

    def report(failure: Failure) -> None:
        last = failure.what.splitlines()[-1]
        print(f"{name} case {failure.number}: {last}", flush=True)
        if last not in kinds and len(kinds) < 50:  # the first of a kind is kept
            kinds.add(last)
            FOUND.mkdir(exist_ok=True)
            (FOUND / f"{name}-{options.seed}-{failure.number}.case").write_bytes(failure.case)
            (FOUND / f"{name}-{options.seed}-{failure.number}.txt").write_text(failure.what + "\n")

    state = FOUND / f"{name}-{options.seed}.state.json"
    if options.fresh:
        state.unlink(missing_ok=True)
    progress = run(
        campaign,
        seed=options.seed,
        seconds=options.seconds,
        cases=options.cases,
        workers=options.workers,
        state=state,
        say=lambda text: print(text, flush=True),
        report=report,
    )
    rate = progress.done / max(progress.seconds, 1e-9)
    print(
        f"{name}: {progress.done:,} cases, {progress.failed} failed, {progress.seconds:,.0f} s"
        f" ({rate:,.1f} a second), seed {progress.seed}"
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
    parser.add_argument("--seconds", type=float, default=60, help="stop after so long (60)")
    parser.add_argument("--cases", type=int, help="stop after so many cases, earlier runs counted")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other cases (0)")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time (1)")
    parser.add_argument("--fresh", action="store_true", help="from case 0, not from where the last run ended")
    parser.add_argument("--again", metavar="FILE", help="try one kept case again, here, and shorten it")
    options = parser.parse_args()
    if unknown := set(options.campaign) - CAMPAIGNS.keys():
        parser.error(f"no campaign {', '.join(sorted(unknown))}; there are {', '.join(CAMPAIGNS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
