"""What features are worth: docs/results/features.json in Markdown."""

from __future__ import annotations

from benchmarks.features import DATA, GROUPS, MORE, SYSTEMS
from benchmarks.keep import RESULTS, read_results

NAMES = {
    "citeulike-a": "CiteULike-a, tags",
    "toys": "Toys, attributes",
    "sports": "Sports, attributes",
    "ml-100k": "MovieLens-100K, titles and genres",
    "ml-1m": "MovieLens-1M, titles and genres",
}
MEASURES = ("recall@20", "ndcg@20", "recall@100")


def make_cold() -> str:
    """Return a row for each data set and system: hidden items among themselves."""
    kept = read_results(RESULTS / "features.json")
    lines = ["| data | system | Recall@20 | NDCG@20 | Recall@100 |", "|---|---|---|---|---|"]
    for name in DATA:
        rows = {system: kept.get(f"cold/{name}/{system}") for system in SYSTEMS}
        found = {system: row["cold"] for system, row in rows.items() if row is not None}
        best = max(found, key=lambda system: found[system]["ndcg@20"], default="")
        for system, values in found.items():
            cells = [f"{values[each]:.4f}".lstrip("0") for each in MEASURES]
            cells = [f"**{cell}**" for cell in cells] if system == best else cells
            label = "`CSRR()`" if system == "CSRR" else system
            lines.append(f"| {NAMES[name]} | {label} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def make_warm() -> str:
    """Return a row for each data set: NDCG@20 without features and with them, by the events of the item."""
    kept = read_results(RESULTS / "features.json")
    parts = ["all", *(f"{low} to {high}" for low, high in GROUPS), "among all items"]
    labels = ["all events", *(f"{low} to {high}" if high < 10**6 else f"{low} and more" for low, high in GROUPS)]
    labels.append("all, with new items in lists")
    lines = [f"| data | {' | '.join(labels)} |", f"|---|{'---|' * len(labels)}"]
    for name in (*DATA, *MORE):
        row = kept.get(f"warm/{name}")
        if row is not None:
            cells = [
                " → ".join(f"{row[part][which]:.4f}".lstrip("0") for which in ("without", "with")) for part in parts
            ]
            lines.append(f"| {NAMES[name]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def make_mixed() -> str:
    """Return a row for each data set and system: hidden items among all items."""
    kept = read_results(RESULTS / "features.json")
    lines = ["| data | system | places | found: their events | others | NDCG@20 |", "|---|---|---|---|---|---|"]
    labels = {
        "CSRR with their events": "`CSRR()` that knows them",
        "CSRR": "`CSRR()` by features",
        "content neighbors": "content neighbors",
    }
    for name in (*DATA, *MORE):
        row = kept.get(f"mixed/{name}")
        for system, label in labels.items() if row is not None else ():
            found = row[system]
            cells = [f"{100 * found[each]:.1f} %" for each in ("places", "hidden found", "others found")]
            ndcg = f"{found['ndcg@20']:.4f}".lstrip("0")
            lines.append(f"| {NAMES[name]} | {label} | {' | '.join(cells)} | {ndcg} |")
    return "\n".join(lines) + "\n"


def make_cost() -> str:
    """Return what features add to a fit, and the time in which an item is added, in a sentence."""
    kept = read_results(RESULTS / "features.json")
    cost, stream = kept.get("cost"), kept.get("stream")
    if cost is None or stream is None:
        return ""
    more = 100 * (sum(cost["with"]) / sum(cost["without"]) - 1)
    one = f"one item is added in {1e3 * stream['one']:.1f} ms"
    return f"Features add {more:.0f} % to the CPU time of `CSRR()` on Toys; {one}.\n"


def make_stream() -> str:
    """Return what a stream of new items takes, in a sentence."""
    found = read_results(RESULTS / "features.json").get("stream")
    if found is None:
        return ""
    scored = (
        f"{found['items']:,} new items, scored beside a model of Toys in batches of 10,000: {found['cpu']:.0f} seconds"
    )
    memory = f"peak memory {found['first']:.2f} GB after the first batch and {found['peak']:.2f} GB at the end"
    return f"{scored} of one core; {memory}.\n"
