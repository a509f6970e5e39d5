"""What cleaning a log is worth to models that know nothing of it, beside taking out exactly what was planted.

MovieLens-100K, ratings of 3 and more, 80/20 per user; noise in the training part only. WRMF and EASE are taken as they
come, and tuned on a tenth of the noisy log as it is, twice, whatever they are trained on: a log that was cleaned keeps
what is easy to guess, and would choose models that overfit. Nobody is recommended what the noisy log has for them,
whatever the model saw, neither in the test nor in tuning: what was removed and is genuine would top every list.

    python -m benchmarks.bench_clean [--kind random] [--share 0.3] [--seeds 0 1 2] [--systems WRMF] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import csrr
from csrr.evaluation.statistics import compute_mean_interval
from csrr.results.table import format_text_table
from csrr_paper.systems import NOISE_SYSTEMS

ABOVE = (0.9, 0.7, 0.5, 0.4, 0.3, 0.2)
SYSTEMS = ("WRMF", "EASE", "WRMF, tuned", "EASE, tuned")
FOLDS = 2


def score(name: str, keep: Any, noisy: csrr.Log, test: csrr.Log, seed: int) -> float:
    """NDCG@10 of a system fitted to the events of `noisy` where `keep` is true."""
    kind, log = name.removesuffix(", tuned"), noisy.select(keep)
    model = NOISE_SYSTEMS[kind].model() if kind == name else tuned(kind, keep, noisy, seed)
    return csrr.evaluate(model.fit(log), noisy, test, at=10, metrics=("ndcg",))["ndcg@10"]


def tuned(name: str, keep: Any, noisy: csrr.Log, seed: int) -> csrr.Recommender:
    """The system with the parameters that rank best what is held out of `noisy`."""
    each, log = NOISE_SYSTEMS[name], noisy.select(keep)
    cells = noisy.user_rows * noisy.n_items + noisy.item_rows
    space = each.list_tried_on(log)
    values: dict[tuple[Any, ...], float] = dict.fromkeys(product(*space.values()), 0.0)
    for fold in range(FOLDS):
        _, valid = csrr.split(noisy, ratio=0.9, seed=seed + fold)
        held = np.isin(cells, valid.user_rows * noisy.n_items + valid.item_rows)
        kept, clicked = noisy.select(keep & ~held), noisy.select(~held)
        for params in values:
            model = each.model(**each.fixed, **dict(zip(space, params, strict=True))).fit(kept)
            values[params] += csrr.evaluate(model, clicked, valid, at=10, metrics=("ndcg",))["ndcg@10"]
    best = dict(zip(space, max(values, key=values.__getitem__), strict=True))
    return each.model(**each.fixed, **best)


def measure(log: csrr.Log, kind: Any, share: float, seed: int, systems: Sequence[str] = SYSTEMS) -> dict[str, Any]:
    """Of one split: the NDCG@10 of each system by what it was trained on, and what cleaning took out."""
    train, test = csrr.split(log, ratio=0.8, seed=seed)
    noisy = csrr.add_noise(train, kind, share, seed=seed, avoid=test)
    suspects = csrr.CSRR(reg_sparse=0.5, reg_low_rank="noise", neighbors=0).fit(noisy.log).suspects()
    kept = {"noisy": np.ones(len(noisy.log), np.bool_), "planted removed": ~noisy.planted}
    facts: dict[str, Any] = {"estimated share": suspects.noise_share}
    for above in ABOVE:
        suspect = suspects.scores > above
        kept[f"above {above:g} removed"] = ~suspect
        facts[f"removed above {above:g}"] = float(suspect.mean())
        facts[f"precision above {above:g}"] = float(noisy.planted[suspect].mean())
        facts[f"recall above {above:g}"] = float(suspect[noisy.planted].mean())
    default = csrr.plan_cleaning(noisy.log)
    kept["removed by default"] = ~default.mask
    facts["removed by default"] = float(default.mask.mean())
    facts["precision by default"] = float(noisy.planted[default.mask].mean()) if default.mask.any() else float("nan")
    kept["planted above 0.5 removed"] = ~(noisy.planted & ~kept["above 0.5 removed"])
    assert noisy.log.select(kept["above 0.5 removed"]) == csrr.clean(noisy.log, above=0.5)
    values = {name: {what: score(name, each, noisy.log, test, seed) for what, each in kept.items()} for name in systems}
    return {"seed": seed, "facts": facts, "ndcg": values}


def shares(found: list[dict[str, Any]], name: str, what: str) -> tuple[float, float, float]:
    """The part of what removing the planted would give that a way of cleaning gives, in the mean, and its interval."""
    means = {each: np.mean([one["ndcg"][name][each] for one in found]) for each in ("noisy", "planted removed")}
    gain = means["planted removed"] - means["noisy"]
    parts = [(one["ndcg"][name][what] - one["ndcg"][name]["noisy"]) / gain for one in found]
    return float(np.mean(parts)), *compute_mean_interval(parts)


def figure(found: list[dict[str, Any]], share: float) -> dict[str, Any]:
    """The trade-off as the page of the reproduction shows it: a panel a system."""

    def point(x: float, name: str, what: str, note: str) -> dict[str, Any]:
        values = [one["ndcg"][name][what] for one in found]
        low, high = compute_mean_interval(values)
        return {"x": x, "mean": float(np.mean(values)), "low": low, "high": high, "note": note}

    panels = []
    for name in found[0]["ndcg"]:
        removed = {
            above: float(np.mean([one["facts"][f"removed above {above:g}"] for one in found])) for above in ABOVE
        }
        suspects = [point(0.0, name, "noisy", "the noisy log")]
        suspects += [point(x, name, f"above {a:g} removed", f"score above {a:g}") for a, x in removed.items()]
        planted = [point(share, name, "planted removed", "exactly what was planted")]
        series = [{"name": "suspects removed", "points": suspects}, {"name": "planted removed", "points": planted}]
        words = {"x": "share of the training log removed", "y": "NDCG@10 on clean test data"}
        panels.append({"title": name, **words, "log": False, "series": series})
    caption = (
        f"NDCG@10 of other models after csrr.clean, when {share:.0%} of the training log are random clicks, by how much"
        " is removed, beside removing exactly the planted ones. Models with default settings, and tuned on events held"
        " out of the noisy log."
        f" MovieLens-100K, ratings of 3 and more; splits with the seeds {', '.join(str(one['seed']) for one in found)}."
    )
    words = {
        "title": "Cleaning the log for other models",
        "caption": caption,
        "command": "python -m benchmarks.bench_clean",
    }
    return {**words, "panels": panels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", default="random")
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    log = csrr.read(csrr.locate("ml-100k"), min_rating=3)
    found = [measure(log, given.kind, given.share, seed, given.systems) for seed in given.seeds]
    for name in given.systems:
        lines = []
        for what in found[0]["ndcg"][name]:
            part, low, high = shares(found, name, what)
            values = [one["ndcg"][name][what] for one in found]
            lines.append([what, np.mean(values), f"{part:.0%}", f"{low:.0%} to {high:.0%}"])
        print(format_text_table([f"{name}, trained on the log", "NDCG@10", "of the gain", "95 %"], lines), end="\n\n")
    print(
        format_text_table(
            ["", "mean"], [[each, np.mean([one["facts"][each] for one in found])] for each in found[0]["facts"]]
        )
    )
    if given.json:
        facts = {"kind": given.kind, "share": given.share, "splits": found, "figure": figure(found, given.share)}
        given.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
