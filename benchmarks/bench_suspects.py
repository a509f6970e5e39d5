"""How wrong the scores of `suspects()` are, and what `csrr.clean` costs, where the noise is known: it was planted.

Six kinds of made tastes and three real logs, with 0, 5, 10 and 40 % of random clicks (`csrr.add_noise`): the share of
noise by estimate and at most, the AUC of finding the planted, and of the clean and the planted clicks the shares that
`csrr.clean` removes by default and with `above=0.5`. What real logs hold of noise before any is planted, nobody knows.

    python -m benchmarks.bench_suspects [--only NAME ...] [--seeds 0 1 2] [--json docs/results/suspects.json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import csrr
from csrr.data import IdMap
from csrr.paper.detection import auc
from csrr.ranking.text_tables import format_text_table

SHARES = (0.0, 0.05, 0.1, 0.4)
TOPICS, CLUSTERS = 20, 10
Rng = np.random.Generator
Weights = npt.NDArray[np.float64]


def draw(weigh: Callable[[int], Weights], n: int, m: int, typical: int, rng: Rng) -> csrr.Log:
    """Return a log in which user i has some `typical` distinct items, drawn in proportion to weigh(i)."""
    items = []
    for user in range(n):
        weights = weigh(user)
        most = min(m // 4, int(0.7 * np.count_nonzero(weights)))
        size = min(max(5, int(rng.lognormal(np.log(typical), 0.5))), most)
        items.append(np.sort(rng.choice(m, size, replace=False, p=weights / weights.sum())))
    rows = np.repeat(np.arange(n), [len(each) for each in items])
    return csrr.Log(IdMap.range(n), IdMap.range(m), rows, np.concatenate(items))


def draw_popularity(m: int, rng: Rng) -> Weights:
    return rng.permutation(np.arange(1, m + 1) ** -0.8)


def sharp_topics(seed: int, n: int = 800, m: int = 1000) -> csrr.Log:
    """Users of one to three topics out of twenty; nobody clicks outside of theirs."""
    rng = np.random.default_rng(seed)
    topics, popularity = rng.integers(TOPICS, size=m), draw_popularity(m, rng)
    per_topic = np.bincount(topics, popularity, minlength=TOPICS)

    def weigh(_: int) -> Weights:
        mine = rng.choice(TOPICS, rng.integers(1, 4), replace=False)
        mixed = np.zeros(TOPICS)
        mixed[mine] = rng.dirichlet(np.ones(len(mine)))
        return mixed[topics] * popularity / per_topic[topics]

    return draw(weigh, n, m, 40, rng)


def mixed_topics(seed: int, n: int = 800, m: int = 1000) -> csrr.Log:
    """Users of all twenty topics, but mostly of few: Dirichlet(0.15)."""
    rng = np.random.default_rng(seed)
    topics, popularity = rng.integers(TOPICS, size=m), draw_popularity(m, rng)
    per_topic = np.bincount(topics, popularity, minlength=TOPICS)

    def weigh(_: int) -> Weights:
        mixed = rng.dirichlet(np.full(TOPICS, 0.15)) + 1e-9
        return mixed[topics] * popularity / per_topic[topics]

    return draw(weigh, n, m, 40, rng)


def diffuse(seed: int, n: int = 800, m: int = 1000, slope: float = 0.35) -> csrr.Log:
    """Low-rank logits of a mild slope, times popularity: hardly anything is quite out of taste."""
    rng = np.random.default_rng(seed)
    users, items, popularity = rng.normal(size=(n, 8)), rng.normal(size=(m, 8)), draw_popularity(m, rng)
    return draw(lambda user: popularity * np.exp(slope * (items @ users[user])), n, m, 40, rng)


def very_diffuse(seed: int, n: int = 800, m: int = 1000) -> csrr.Log:
    """The same with next to no taste."""
    return diffuse(seed, n, m, slope=0.2)


def small_and_diffuse(seed: int, n: int = 200, m: int = 150) -> csrr.Log:
    """Diffuse tastes of a few users and items."""
    return diffuse(seed, n, m)


def hard_clusters(seed: int, n: int = 800, m: int = 1000) -> csrr.Log:
    """Users of one cluster of items out of ten, all of its items alike."""
    rng = np.random.default_rng(seed)
    clusters = rng.integers(CLUSTERS, size=m)
    return draw(lambda user: (clusters == user % CLUSTERS).astype(np.float64), n, m, 40, rng)


def read_movielens(_: int) -> csrr.Log:
    return csrr.read(csrr.locate("ml-100k"), min_rating=3)


def read_steam(file: str, **options: Any) -> csrr.Log:
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(csrr.locate("steam.zip")) as archive:
        path = archive.extract(f"steam/{file}", folder)
        return csrr.read(path, user="User_ID", item="Game_ID", separator="\t", **options)


MADE: dict[str, Callable[[int], csrr.Log]] = {
    "sharp topics": sharp_topics,
    "mixed topics": mixed_topics,
    "diffuse tastes": diffuse,
    "very diffuse tastes": very_diffuse,
    "small and diffuse": small_and_diffuse,
    "hard clusters": hard_clusters,
}
REAL: dict[str, Callable[[int], csrr.Log]] = {
    "MovieLens-100K": read_movielens,
    "Steam, purchases": lambda _: read_steam("game_purchase.dat"),
    "Steam, hours": lambda _: read_steam("game_play.dat", weight="Hours"),
}


def measure(log: csrr.Log, share: float, seed: int) -> dict[str, float]:
    """Of one log with one share of planted clicks."""
    noisy = csrr.add_noise(log, "random", share, seed=seed)
    planned = csrr.plan_cleaning(noisy.log)
    found, planted = planned.suspects, noisy.planted
    facts = {"estimate": found.noise_share, "at most": found.largest_share, "in doubt": float(found.is_doubtful)}
    facts["separation"] = found.separation
    if planted.any():
        facts["auc"] = float(auc(found.scores, planted))
    for name, mask in (("default", planned.mask), ("above 0.5", found.above(0.5))):
        facts[f"clean removed, {name}"] = float(mask[~planted].mean())
        if planted.any():
            facts[f"planted removed, {name}"] = float(mask[planted].mean())
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[*MADE, *REAL], default=[*MADE, *REAL])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in given.only:
        for seed in given.seeds:
            log = (MADE | REAL)[name](seed)
            rows += [{"data": name, "planted": share, "seed": seed, **measure(log, share, seed)} for share in SHARES]
    columns = list(max(rows, key=len))
    print(format_text_table(columns, [[row.get(column, float("nan")) for column in columns] for row in rows]))
    if given.json:
        given.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
