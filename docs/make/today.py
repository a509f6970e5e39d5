"""Systems of today, for the reproduction's page: what is said of them, and what was measured."""

from typing import Any

from benchmarks.datasets import DATASETS
from csrr_paper.today import OURS, Today


def make_today(plain: dict[str, Any], accuracies: dict[str, Any]) -> Today:
    """The systems of today: what is said of them in `plain`, and the means of what `benchmarks.defaults` found."""
    columns, rows = [], [row | {"values": {}, "fewer": {}} for row in plain["rows"]]
    for column in plain["columns"]:
        data, measure = column["key"].split("/")
        runs = [each["found"] for key, each in accuracies.items() if key.startswith(f"accuracy/{data}/")]
        columns.append(column | {"splits": len(runs), "fixed": DATASETS[data].seeds == 1})
        for row in rows:
            system = "CSRR" if row["system"] == OURS else row["system"]
            if found := [run[system][measure] for run in runs if measure in run.get(system, ())]:
                row["values"][column["key"]] = sum(found) / len(found)
            if 0 < len(found) < len(runs):
                row["fewer"][column["key"]] = len(found)
    return Today.from_json(plain | {"columns": columns, "rows": rows})
