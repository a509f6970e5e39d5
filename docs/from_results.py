"""Makes of docs/results what documents say of results: tables of the README, pages, and parts of pages.

`make docs` runs it, and builds docs/reproduction.html. A page or a table is a module of docs/make.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

from pyarrow import parquet

from csrr_paper.claims import judge_claims, write_headlines
from csrr_paper.page import write_page
from csrr_paper.robustness_results import Robustness
from csrr_paper.summary_types import Figure, Summary

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

# The benchmarks and what makes the documents are no part of the package.
from docs.make import (  # noqa: E402
    benchmarks,
    box,
    defaults,
    engines,
    event_types,
    features,
    front,
    interop,
    noise,
    order,
    publish,
    scale,
    serving,
    suspects,
    theory,
    today,
    update,
    words,
)

RESULTS = ROOT / "docs" / "results"
DEFAULTS = defaults.DEFAULTS
NOISE = Robustness.from_arrow(parquet.read_table(RESULTS / "robustness.parquet"))
FOUND = Summary.from_json(json.loads((RESULTS / "summary.json").read_text()))
_RENEWED = words.renew_words(FOUND)
_JUDGED = replace(
    _RENEWED,
    claims=judge_claims(_RENEWED),
    today=today.make_today(json.loads((RESULTS / "today.json").read_text()), DEFAULTS),
    differences=[box.describe_box(json.loads((RESULTS / "box.json").read_text()))],
)
SUMMARY = replace(
    _JUDGED,
    figures=_JUDGED.figures | {name: Figure.from_json(each) for name, each in NOISE.figures().items()},
    headlines=write_headlines(_JUDGED),
)
THEORY = theory.read_simulations()
BLOCKS = {
    "README.md": {
        "front": lambda: front.make_table(SUMMARY.today, DEFAULTS),
        "kept": lambda: noise.list_kept("ml-1m", shares=(0.3,)),
    },
    "docs/recipes/noisy-logs.md": {
        "noise": lambda: noise.make_table(NOISE),
        "suspects": suspects.summarize,
        "suspects, chosen": lambda: suspects.make_table("chosen"),
        "suspects, fresh": lambda: suspects.make_table("fresh"),
        "kept": lambda: noise.list_kept("ml-100k", "ml-1m"),
        "kinds": suspects.list_kinds,
        "stability": suspects.list_changes,
    },
    "docs/concepts/order.md": {
        "order, last": lambda: order.make_table("last"),
        "order, fifth": lambda: order.make_table("fifth"),
        "order, where": order.make_where,
        "order, times": order.make_times,
        "order, growth": order.make_growth,
    },
    "docs/concepts/features.md": {
        "features, cold": features.make_cold,
        "features, warm": features.make_warm,
        "features, mixed": features.make_mixed,
        "features, cost": features.make_cost,
        "features, stream": features.make_stream,
    },
    "docs/concepts/engines.md": {
        "engines, fits": engines.make_fits,
        "engines, kernels": engines.make_kernels,
        "engines, cores": engines.make_cores,
    },
    "docs/recipes/views-and-purchases.md": {"event types": event_types.make_table},
    "docs/recipes/batches.md": {"memory": interop.make_memory_table},
    "docs/recipes/nightly-update.md": {"update": update.make_table},
    "docs/serving.md": {"serving": serving.make_table, "serving, rest": serving.make_text},
    "docs/recipes/databases.md": {"publish": publish.make_table},
    "docs/recipes/vector-index.md": {"recall": interop.make_recall_table},
    "docs/scale.md": {
        "growth": scale.make_growth,
        "kills": scale.make_kills,
        "measured": scale.make_measured,
    },
    "docs/theory.md": {"simulation": lambda: theory.make_text(THEORY)},
}
"""What stands between the marks of a document, by name."""
WHOLE = {
    "docs/benchmarks.md": lambda: benchmarks.make_page(benchmarks.read_rows()),
    "docs/theory.svg": lambda: theory.draw_figure(THEORY),
}
"""Files that are made whole. (docs/reproduction.md is made with docs/reproduction.html.)"""


def list_marks(name: str) -> tuple[str, str]:
    """The lines before and after what is made."""
    return f"<!-- {name}: made by docs/from_results.py -->\n", f"<!-- end of {name} -->\n"


def fill_blocks(document: str, text: str) -> str:
    """The text of a document with everything between its marks made anew."""
    for name, make in BLOCKS[document].items():
        begin, end = list_marks(name)
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}{make()}{end}{after}"
    return text


def drop_blocks(document: str, text: str) -> str:
    """What of a document was written by hand."""
    for name in BLOCKS.get(document, ()):
        begin, end = list_marks(name)
        before, rest = text.split(begin)
        text = before + rest.split(end)[1]
    return text


if __name__ == "__main__":
    for document in BLOCKS:
        path = ROOT / document
        path.write_text(fill_blocks(document, path.read_text()))
    for document, make in WHOLE.items():
        (ROOT / document).write_text(make())
    write_page(SUMMARY, RESULTS.parent / "reproduction.html")
