"""The tables of the recipes for batches and vectors: docs/results/stream.json and vectors.json in Markdown."""

from __future__ import annotations

import json
from pathlib import Path

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
    faiss, hnswlib = ([row for row in rows if row["to"] == to] for to in ("faiss", "hnswlib"))
    lines = ["| model | vectors | dimensions | exact products | faiss HNSW32 | hnswlib | 100 candidates, faiss |"]
    lines.append("|---" * 7 + "|")
    for one, other in zip(faiss, hnswlib, strict=True):
        whole = "the factors" if "exactly" in one["covers"] else "all scores"
        vectors = "U alone" if one.get("part") == "factors" else whole
        recalls = (one["vector_recall"], one["index_recall"], other["index_recall"], one["candidate_recall"])
        shown = " | ".join(f"{recall:.3f}" for recall in recalls)
        lines.append(f"| {one['model']} | {vectors} | {one['dims']} | {shown} |")
    return "\n".join(lines) + "\n"
