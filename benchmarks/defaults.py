"""`CSRR()` without arguments against rivals that are tuned: accuracy, the choice against its grid, time, memory.

Every choice is made on training data alone: ours by the fit itself, the rivals' on a tenth of each user's training
events, by the first measure of the data set. Results are kept as they come, so that a run that was stopped goes on.

    python -m benchmarks.defaults [accuracy|regret|time|memory ...] [--data ml-1m ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import csrr
from benchmarks import rivals
from benchmarks.datasets import DATASETS, Dataset
from benchmarks.keep import describe_origin
from benchmarks.measure import READ_PEAK, in_fresh_process, timed
from csrr.ranking.metrics import mark_hits, ndcg, recall
from csrr.ranking.topk import top_k
from csrr.results.table import format_text_table
from csrr_paper.results import describe_machine

EASE_ITEMS = 20_000
"""With more items EASE is left out: 36,000 take more than ten gigabytes a fit."""
RESULTS = Path("docs/results/defaults.json")

Score = Callable[[Any], Any]


def score(scores: Score, train: Any, test: Any, measure: str) -> float:
    """The mean of "ndcg@k" or "recall@k" over users with test items."""
    return float(score_users(scores, train, test, measure).mean())


def score_users(scores: Score, train: Any, test: Any, measure: str) -> Any:
    """ "ndcg@k" or "recall@k" of each user with test items."""
    name, k = measure.split("@")
    counts = np.diff(test.indptr).astype(np.int64)
    rows = np.flatnonzero(counts)
    items, _ = top_k(scores, rows, test.shape[1], int(k), seen=train)
    hits = mark_hits(items, test, rows)
    return {"ndcg": ndcg, "recall": recall}[name](hits, counts[rows])


def make_fit(rival: str, params: dict[str, Any]) -> Callable[[csrr.Log], Score]:
    """The fit of a rival with these parameters."""

    def als(log: csrr.Log) -> Score:
        found = rivals.als(log.to_csr(), **params)
        return rivals.factor_scores(found.users, found.items)

    if rival == "implicit ALS":
        return als
    if rival == "SANSA":
        return lambda log: rivals.sansa(log.to_csr(), **params)
    return lambda log: getattr(csrr, rival)(**params).fit(log).score_rows


def candidates(train: csrr.Log) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rivals with each of the parameters that are tried."""
    if train.n_items <= EASE_ITEMS:
        for reg in (10.0, 30.0, 100.0, 300.0, 600.0, 1200.0)[: 6 if train.n_items < EASE_ITEMS // 2 else 3]:
            yield "EASE", {"reg": reg, "dtype": "float32"}
    rank = min(256, train.n_users, train.n_items)
    for confidence, exponent, multiple in product((4.0, 16.0), (0.0, 0.5), (0.35, 0.7, 1.4)):
        auto = csrr.WRMF(confidence=confidence).start_value("reg", train)
        yield "WRMF", {"rank": rank, "confidence": confidence, "reg": multiple * auto, "reg_exponent": exponent}
    for neighbors, (similarity, weighting) in product((50, 200), (("cosine", "none"), ("asymmetric", "degree"))):
        yield "ItemKNN", {"neighbors": neighbors, "similarity": similarity, "weighting": weighting}
    for size, reg in ((64, 0.001), (64, 0.01), (64, 0.05), (256, 0.01)):
        yield "BPRMF", {"rank": min(size, rank), "reg": reg}
    for alpha, ratio in ((2.0, 16.0), (2.0, 4.0), (8.0, 16.0), (8.0, 4.0), (8.0, 0.1)):
        yield "implicit ALS", {"alpha": alpha, "regularization": alpha * ratio}
    for alpha, ratio in product((32.0, 128.0), (0.1, 1.0, 4.0)):
        yield "implicit ALS", {"alpha": alpha, "regularization": alpha * ratio}
    yield "PopRank", {}


def choose(data: Dataset, train: csrr.Log, seed: int, tried: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """The best parameters of each rival, by the first measure on a tenth of each user's training events."""
    kept, held = csrr.split(train, ratio=0.9, seed=seed)
    best: dict[str, tuple[float, dict[str, Any]]] = {}
    for rival, params in tried:
        value = score(make_fit(rival, params)(kept), kept.to_csr(), held.to_csr(), data.measures[0])
        if rival not in best or value > best[rival][0]:
            best[rival] = value, params
    return {rival: params for rival, (_, params) in best.items()}


def accuracy(name: str, seed: int) -> dict[str, Any]:
    """The measures of CSRR() and of each rival with its best parameters, on one split."""
    data = DATASETS[name]
    train, _ = data.read(seed)
    return measure_at(name, seed, choose(data, train, seed, candidates(train)))


def measure_at(name: str, seed: int, params: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The measures of CSRR() and of each rival with these parameters, on the test data of one split.

    `ahead` has by how much CSRR() is ahead of each rival, for each measure: the mean over users and its standard error.
    """
    data = DATASETS[name]
    train, test = data.read(seed)
    seconds, model = timed(lambda: csrr.CSRR().fit(train))

    def measure(scores: Score) -> dict[str, Any]:
        return {each: score_users(scores, train.to_csr(), test.to_csr(), each) for each in data.measures}

    ours = measure(model.score_rows)
    found, ahead = {"CSRR": _take_means(ours)}, {}
    for rival, each in params.items():
        theirs = measure(make_fit(rival, each)(train))
        found[rival] = _take_means(theirs)
        gains = {measure: ours[measure] - theirs[measure] for measure in ours}
        ahead[rival] = {name: [gain.mean(), gain.std(ddof=1) / np.sqrt(len(gain))] for name, gain in gains.items()}
    settings = model.chosen_.settings._asdict()
    facts = {"settings": settings, "rank": model.rank_, "seconds": seconds, "params": params}
    return {"found": found, "ahead": ahead} | facts


def _take_means(values: dict[str, Any]) -> dict[str, float]:
    return {measure: float(each.mean()) for measure, each in values.items()}


def measure_again(before: dict[str, Any], name: str, seed: int) -> dict[str, Any]:
    """What was kept, measured again without a search by the rivals; those of another machine stay as they were."""
    here = {rival: each for rival, each in before["params"].items() if rival != "SANSA" and "on" not in each}
    new = measure_at(name, seed, here)
    return before | new | {"found": before["found"] | new["found"], "params": before["params"]}


def regret(name: str, seed: int) -> dict[str, Any]:
    """The first measure at the chosen point and at every point of its grid, on test data: how much the choice loses."""
    data = DATASETS[name]
    train, test = data.read(seed)
    chosen = csrr.CSRR().fit(train)
    own = chosen.chosen_.settings
    grid = {
        own._replace(strength=c, neighbors=k, reg_neighbors=f)
        for c, k, f in product((0.4, 0.5, 0.6, 0.72), (20, 50), (1.0, 3.0, 10.0))
    }
    measure = data.measures[-1]
    values = {
        "chosen": score(chosen.score_rows, train.to_csr(), test.to_csr(), measure),
        "grid": [
            [
                list(point),
                score(_fit_at(point, train), train.to_csr(), test.to_csr(), measure),
            ]
            for point in sorted(grid)
        ],
    }
    return values | {"settings": own._asdict(), "measure": measure}


def _fit_at(settings: Any, train: csrr.Log) -> Score:
    """The scores of CSRR() with settings that were not chosen by itself."""
    model = csrr.CSRR()
    model.fixed_settings = settings
    return model.fit(train).score_rows


def times(name: str, seed: int = 0) -> dict[str, Any]:
    """The seconds of the whole default fit and of implicit's ALS, 256 factors, 15 iterations, in turn, five times."""
    train, _ = DATASETS[name].read(seed)
    csrr.CSRR().fit(DATASETS["ml-100k"].read(0)[0])
    ours, theirs = [], []
    for _ in range(5):
        ours.append(timed(lambda: csrr.CSRR().fit(train))[0])
        theirs.append(rivals.als(train.to_csr(), regularization=8.0, alpha=8.0).seconds)
    return {"ours": ours, "als": theirs}


def gowalla_rows() -> dict[str, Any]:
    """Gowalla at rank 256 with given strengths, at rank 1,000, and recommending for all, in time over ALS."""
    train, test = DATASETS["gowalla"].read(0)
    csrr.CSRR().fit(DATASETS["ml-100k"].read(0)[0])
    als = min(rivals.als(train.to_csr(), regularization=8.0, alpha=8.0).seconds for _ in range(2))
    found: dict[str, Any] = {"als": als}
    fast = {"reg_low_rank": "noise", "reg_sparse": 1.0, "neighbors": 50, "reg_neighbors": 3.0, "max_rank": 256}
    for label, model in {
        "default": csrr.CSRR(),
        "rank 256, given": csrr.CSRR(**fast),
        "max_rank=1000": csrr.CSRR(max_rank=1000),
    }.items():
        seconds, _ = timed(lambda model=model: model.fit(train))
        clicks, asked = train.to_csr(), test.to_csr()
        measured = {m: score(model.score_rows, clicks, asked, m) for m in ("recall@20", "ndcg@20")}
        found[label] = {"seconds": seconds, "rank": model.rank_, **measured, "note": model.chosen_.note}
    default = csrr.CSRR().fit(train)
    wide = csrr.CSRR(reg_low_rank="noise", neighbors=0, reg_sparse=1.0, max_rank=1000, max_iter=1).fit(train)
    for label, model in {"default": default, "rank 1,000, no neighbours": wide}.items():
        model.recommend(model.users_.ids[:500], k=20)
        found[f"recommending, {label}"] = min(timed(lambda model=model: model.recommend(k=20))[0] for _ in range(2))
    return found


def memory() -> dict[str, Any]:
    """The peak memory, in GB, of a default fit to Amazon-CDs and of recommending for all."""
    code = """
import json, csrr
train, _ = csrr.read_split("amazon-cds.zip")
model = csrr.CSRR().fit(train)
fit = read_peak()
model.recommend(k=20)
print(json.dumps({"fit": fit, "all": read_peak(), "rank": model.rank_}))
"""
    return in_fresh_process(READ_PEAK + code)


def jobs(parts: list[str], names: list[str]) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """What there is to do, by the name under which it is kept."""
    if "time" in parts:
        for name in ("ml-1m", "gowalla", "amazon-cds"):
            yield f"time/{name}", lambda name=name: times(name)
        yield "gowalla", gowalla_rows
    if "memory" in parts:
        yield "memory/amazon-cds", memory
    for part, work in (("accuracy", accuracy), ("regret", regret)):
        for seed in range(5):
            for name in names if part in parts else ():
                if seed < (DATASETS[name].seeds if part == "accuracy" else 1):
                    yield f"{part}/{name}/{seed}", lambda work=work, name=name, seed=seed: work(name, seed)


def name_command(key: str) -> str:
    """The arguments that measure what is kept under a name: "accuracy/ml-1m/0", "time/ml-1m", "gowalla"."""
    part, *of = key.split("/")
    return f"{part} --data {of[0]}" if part in ("accuracy", "regret") else "time" if part == "gowalla" else part


def table(kept: dict[str, Any]) -> str:
    """The accuracy rows as a text: means over seeds, each rival's, and ours over the best."""
    lines = []
    for name, data in DATASETS.items():
        runs = [kept[key]["found"] for key in sorted(kept) if key.startswith(f"accuracy/{name}/")]
        for measure in data.measures if runs else ():
            everywhere = [each for each in runs[0] if all(measure in run.get(each, ()) for run in runs)]
            means = {each: float(np.mean([run[each][measure] for run in runs])) for each in everywhere}
            ours = means.pop("CSRR")
            best = max(means, key=means.__getitem__)
            gain = f"{100 * (ours / means[best] - 1):+.1f} %"
            shown = "  ".join(f"{each} {value:.4f}" for each, value in means.items())
            lines.append((data.name, measure, len(runs), f"{ours:.4f}", best, gain, shown))
    return format_text_table(("data", "measure", "splits", "CSRR()", "best rival", "over it", "rivals, tuned"), lines)


def main() -> None:
    """Measure what is not measured yet, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description=main.__doc__)
    everything = ["time", "memory", "accuracy", "regret"]
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of: {', '.join(everything)}")
    parser.add_argument("--data", nargs="*", choices=list(DATASETS), default=list(DATASETS))
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument(
        "--again", action="store_true", help="measure again what was, with the rivals' parameters as kept"
    )
    arguments = parser.parse_args()
    kept = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    for key in [key for key in kept if arguments.again and key.startswith("accuracy/")]:
        _, name, seed = key.split("/")
        if name in arguments.data:
            again = measure_again(kept[key], name, int(seed))
            kept[key] = again | {"again": describe_origin(f"python -m benchmarks.defaults --again --data {name}")}
            print(key, kept[key]["found"]["CSRR"], flush=True)
            arguments.json.write_text(json.dumps(kept, indent=1, default=float) + "\n")
    for key, work in jobs(arguments.parts or everything, arguments.data):
        if key in kept:
            continue
        seconds, kept[key] = timed(work)
        kept[key] |= describe_origin(f"python -m benchmarks.defaults {name_command(key)}")
        print(f"{key}: {seconds:.0f} s", flush=True)
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(kept, indent=1, default=float) + "\n")
    print(f"\n{describe_machine()}\n")
    print(table(kept))


if __name__ == "__main__":
    main()
