"""Puts the table of docs/results/summary.json into the README: python docs/readme_table.py."""

import json
from pathlib import Path

from csrr.report import readme_table

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- made by docs/readme_table.py -->\n", "<!-- end -->\n"


def with_table(readme: str) -> str:
    """The README with the table between its two marks made anew."""
    summary = json.loads((ROOT / "docs" / "results" / "summary.json").read_text())
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{readme_table(summary)}{END}{after}"


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(with_table(path.read_text()))
