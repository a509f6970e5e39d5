"""Makes the README's table and docs/reproduction.html and .md of docs/results: python docs/from_results.py."""

import json
from pathlib import Path

from csrr.report import readme_table, write

ROOT = Path(__file__).parents[1]
SUMMARY = json.loads((ROOT / "docs" / "results" / "summary.json").read_text())
BEGIN, END = "<!-- made by docs/from_results.py -->\n", "<!-- end -->\n"


def with_table(readme: str) -> str:
    """The README with the table between its two marks made anew."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{readme_table(SUMMARY)}{END}{after}"


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(with_table(path.read_text()))
    write(SUMMARY, ROOT / "docs" / "reproduction.html")
