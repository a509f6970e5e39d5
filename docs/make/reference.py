"""The API reference: a page for every public name of csrr, and an index of them by what they are."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType

import csrr
from csrr.registry import HOMES

GROUPS: dict[str, tuple[str, ...]] = {
    "Models": (*HOMES, "path", "load"),
    "Logs and items": (
        *(
            "read",
            "read_sql",
            "read_new",
            "read_items",
            "read_features",
            "read_split",
            "split",
            "synthetic",
            "add_noise",
        ),
        *("Log", "LogColumns", "ItemTable", "FeatureTable", "IdMap", "HeldOut", "Noisy"),
        *("DATASETS", "fetch", "locate", "data_dir"),
    ),
    "Evaluation and tuning": (
        "evaluate",
        "evaluate_rolling",
        "tabulate",
        "compare",
        "cost_curve",
        "tune",
        "Range",
        "Walk",
    ),
    "Noise": ("clean", "plan_cleaning"),
    "A first report, and plots": ("start", "plot", "plot_lines", "plot_points"),
    "Databases and other libraries": ("publish", "export", "interop"),
    "Many machines": ("open_dask", "write_lists"),
    "Models and metrics of your own": ("Recommender", "register", "register_metric"),
    "What calls return": (),
    "Errors and warnings": (),
}
"""The public names by what they are, in the order of the index; other classes are results, or errors."""
USED = (
    "fit",
    "update",
    "from_costs",
    "settled_params",
    "recommend",
    "recommend_for",
    "recommend_batches",
    "recommend_to",
    "fold_in",
    "fold_in_items",
    "score",
    "explain",
    "similar_items",
    "similar_users",
    "calibrate",
    "probability",
    "reliability",
    "decision_probability",
    "specific_preferences",
    "suspects",
    "stability",
    "strength",
    "neighbors_",
    "popularity",
    "save",
    "can",
    "get_params",
    "set_params",
)
"""What people use of a model, in the order of its page; the whole contract is on the page of Recommender."""
MEMBERS = "   :members:\n   :inherited-members: tuple, dict, Sequence, Mapping, Protocol, Generic\n"


def tell_kind(value: object) -> str:
    """Return the folder of a name's page; names that differ in case only are of different kinds."""
    if isinstance(value, ModuleType):
        return "modules"
    if inspect.isclass(value):
        return "errors" if issubclass(value, BaseException) else "classes"
    return "functions" if callable(value) else "data"


def list_groups() -> dict[str, list[str]]:
    """Return the public names of each group."""
    found = {heading: [name for name in names if name in csrr.__all__] for heading, names in GROUPS.items()}
    for name in sorted({*csrr.__all__}.difference(*GROUPS.values())):
        kind = tell_kind(getattr(csrr, name))
        if kind not in ("classes", "errors"):
            raise ValueError(f"{name} has no place in the index: docs/make/reference.py, GROUPS")
        found["What calls return" if kind == "classes" else "Errors and warnings"].append(name)
    return found


def summarize(value: object) -> str:
    """Return the first line of a docstring; a plain value has none of its own."""
    words = "Data sets that csrr knows, by name." if isinstance(value, dict) else inspect.getdoc(value) or ""
    return words.partition("\n")[0].replace("|", r"\|")


def describe(qualified: str, value: object) -> str:
    """Return the directives that show one name with all that belongs to it."""
    kind = tell_kind(value)
    if kind == "errors":
        return f".. autoexception:: {qualified}\n   :show-inheritance:\n"
    if kind == "functions":
        return f".. autofunction:: {qualified}\n"
    if kind == "data":
        return f".. py:data:: {qualified.rpartition('.')[2]}\n\n   {summarize(value)}\n\n" + "".join(
            f"   - ``{each}``\n"
            for each in value  # type: ignore[attr-defined]
        )
    if isinstance(value, ModuleType):
        parts = [describe(f"{qualified}.{name}", getattr(value, name)) for name in value.__all__]
        return "\n".join([f".. automodule:: {qualified}\n   :no-members:\n", *parts])
    if qualified.rpartition(".")[2] in HOMES:
        shown = [name for name in USED if hasattr(value, name)]
        parts = [
            f".. auto{'method' if callable(getattr(value, name)) else 'property'}:: {qualified}.{name}\n"
            for name in shown
        ]
        more = "What else a model has is on the page of :doc:`Recommender`.\n"
        return "\n".join([f".. autoclass:: {qualified}\n", "Methods\n-------\n", *parts, more])
    return f".. autoclass:: {qualified}\n{MEMBERS}"


def write_page(qualified: str, value: object) -> str:
    """Return the page of one name."""
    above = qualified.rpartition(".")[0]
    return f"{qualified}\n{'=' * len(qualified)}\n\n.. currentmodule:: {above}\n\n{describe(qualified, value)}"


def write_index() -> str:
    """Return the index: a table for each group."""
    title = "API reference"
    parts = [
        f"{title}\n{'=' * len(title)}\n\nEvery public name, with all its parameters; ``import csrr`` has them all.\n"
    ]
    for heading, names in list_groups().items():
        pages = {name: f"{tell_kind(getattr(csrr, name))}/{name}" for name in names}
        rows = "".join(
            f"   * - :doc:`{name} <{page}>`\n     - {summarize(getattr(csrr, name))}\n" for name, page in pages.items()
        )
        tree = "".join(f"   {name} <{page}>\n" for name, page in pages.items())
        parts.append(
            f"{heading}\n{'-' * len(heading)}\n\n.. list-table::\n   :widths: 25 75\n\n{rows}\n"
            f".. toctree::\n   :hidden:\n   :caption: {heading}\n\n{tree}"
        )
    return "\n".join(parts)


def write_reference(folder: Path) -> None:
    """Write the pages and the index; what is there and the same stays, so that Sphinx does not read it again."""
    pages = {folder / "index.rst": write_index()}
    for name in csrr.__all__:
        value = getattr(csrr, name)
        pages[folder / tell_kind(value) / f"{name}.rst"] = write_page(f"csrr.{name}", value)
    for stale in set(folder.rglob("*.rst")) - set(pages):
        stale.unlink()
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
