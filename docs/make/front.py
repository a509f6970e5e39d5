"""The README's table: six data sets, ours beside what is known best, and how long a fit takes."""

from typing import Any

from csrr.paper.today import OURS, Today

ROWS = (
    "gowalla/ndcg@20",
    "amazon-cds/ndcg@20",
    "steam-5/ndcg@20",
    "lastfm/ndcg@10",
    "citeulike-a/ndcg@20",
    "ml-1m/ndcg@10",
)
SYSTEMS = (OURS, "EASE", "implicit ALS")


def make_table(today: Today, accuracies: dict[str, Any]) -> str:
    """A row for each data set."""
    lines = ["| data, NDCG | `CSRR()` | EASE | implicit ALS | best published | time |", "|---|---|---|---|---|---|"]
    return "\n".join([*lines, *(_make_row(key, today, accuracies) for key in ROWS)]) + "\n"


def _make_row(key: str, today: Today, accuracies: dict[str, Any]) -> str:
    data, measure = key.split("/")
    runs = [each["found"] for name, each in accuracies.items() if name.startswith(f"accuracy/{data}/")]
    values = {}
    for system in SYSTEMS:
        found = [
            run[own][measure] for run in runs if measure in run.get(own := "CSRR" if system == OURS else system, ())
        ]
        if found:
            values[system] = sum(found) / len(found)
    best = max(values.values())
    cells = [_show(values.get(system), best) for system in SYSTEMS]
    printed = {each.system: each.values[key] for each in today.published if key in each.values}
    name = max(printed, key=printed.__getitem__) if printed else None
    cells.append(f"{name} {_show(printed[name])}" if name else "")
    times = accuracies.get(f"time/{data}")
    cells.append(f"{min(times['ours']) / min(times['als']):.1f}x" if times else "")
    return f"| {_name(data, today)}, @{measure.split('@')[1]} | {' | '.join(cells)} |"


def _name(data: str, today: Today) -> str:
    named = {column.key.split("/")[0]: column.data for column in today.columns}
    return named.get(data, "MovieLens-1M")


def _show(value: float | None, best: float | None = None) -> str:
    if value is None:
        return "–"
    text = f"{value:.4f}".lstrip("0")
    return f"**{text}**" if value == best else text
