"""The README's table: CSRR() beside its best rival on each data set, how far ahead it is, and how long a fit takes."""

from statistics import mean
from typing import Any

from csrr_paper.today import Today

ROWS = (
    "gowalla/ndcg@20",
    "amazon-cds/ndcg@20",
    "steam-5/ndcg@20",
    "lastfm/ndcg@10",
    "citeulike-a/ndcg@20",
    "ml-1m/ndcg@10",
    "ml-1m-time/ndcg@10",
)
HEAD = ["| data, NDCG | `CSRR()` | best rival | difference | best published | time |", "|---|---|---|---|---|---|"]


def make_table(today: Today, accuracies: dict[str, Any]) -> str:
    """A row for each data set that was measured."""
    return "\n".join([*HEAD, *filter(None, (_make_row(key, today, accuracies) for key in ROWS))]) + "\n"


def _make_row(key: str, today: Today, accuracies: dict[str, Any]) -> str:
    data, measure = key.split("/")
    runs = [each for name, each in accuracies.items() if name.startswith(f"accuracy/{data}/")]
    if not runs:
        return ""
    everywhere = [rival for rival in runs[0]["found"] if all(measure in run["found"].get(rival, ()) for run in runs)]
    values = {rival: mean(run["found"][rival][measure] for run in runs) for rival in everywhere}
    ours = values.pop("CSRR")
    best = max(values, key=values.__getitem__)
    gain = 100 * (ours / values[best] - 1)
    # Splits share their users: the error of the mean is taken to be that of one split, which is never too small.
    known = [run["ahead"][best][measure][1] for run in runs if best in run.get("ahead", ())]
    width = 196 * mean(known) / values[best] if len(known) == len(runs) else None
    said = f"{gain:+.1f} %" if width is None else f"{gain:+.1f} ± {width:.1f} %"
    first, second = f"{_shorten(ours)}", f"{best} {_shorten(values[best])}"
    if width is not None and abs(gain) > width:
        first, second = (f"**{first}**", second) if gain > 0 else (first, f"**{second}**")
    printed = {each.system: each.values[key] for each in today.published if key in each.values}
    name = max(printed, key=printed.__getitem__) if printed else None
    elsewhere = f"{name} {_shorten(printed[name])}" if name else ""
    times = accuracies.get(f"time/{data}")
    time = f"{min(times['ours']) / min(times['als']):.1f}x" if times else ""
    return f"| {_name(data, today)}, @{measure.split('@')[1]} | {first} | {second} | {said} | {elsewhere} | {time} |"


def _name(data: str, today: Today) -> str:
    named = {column.key.split("/")[0]: column.data for column in today.columns}
    return named.get(data, "MovieLens-1M, cut in time" if data == "ml-1m-time" else "MovieLens-1M")


def _shorten(value: float) -> str:
    return f"{value:.4f}".lstrip("0")
