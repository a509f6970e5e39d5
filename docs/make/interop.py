"""The tables of the recipes for batches and vectors: docs/results/stream.json and vectors.json in Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"


def make_memory_table() -> str:
    """What writing all lists takes, a row a format."""
    found = json.loads((RESULTS / "stream.json").read_text())
    lines = ["| format | memory above the loaded model | time | file |", "|---|---|---|---|"]
    for name, each in found["formats"].items():
        lines.append(f"| {name} | {each['above_mb']:.0f} MB | {each['seconds']:.0f} s | {each['file_mb']:.0f} MB |")
    return "\n".join(lines) + "\n"


def make_recall_table() -> str:
    """What vectors and indexes find again, a row a kind of vectors."""
    rows = json.loads((RESULTS / "vectors.json").read_text())["rows"]
    hnswlib = {_find_key(row): row["index_recall"] for row in rows if row["to"] == "hnswlib"}
    lines = ["| model | vectors | dimensions | exact products | faiss HNSW32 | hnswlib | candidates that keep 99 % |"]
    lines.append("|---" * 7 + "|")
    for one in (row for row in rows if row["to"] == "faiss"):
        whole = "the factors" if "exactly" in one["covers"] else "all scores"
        vectors = "U alone" if one.get("part") == "factors" else whole
        dims = f"{one['dims']}, chosen" if one.get("dims_chosen") else str(one["dims"])
        recalls = (one["vector_recall"], one["index_recall"], hnswlib.get(_find_key(one)))
        shown = " | ".join("" if recall is None else f"{recall:.3f}" for recall in recalls)
        kept = f"{one['n_candidates']} ({one['candidate_recall']:.3f})"
        lines.append(f"| {one['model']} | {vectors} | {dims} | {shown} | {kept} |")
    return "\n".join(lines) + "\n"


def _find_key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["model"], row.get("part"), row["dims"], row.get("dims_chosen")
