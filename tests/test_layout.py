"""Imports go one way, and no file hides behind a name that says nothing."""

import ast
import re
import sys
from pathlib import Path

import pytest

import csrr
from csrr.registry import HOMES, MODELS

SOURCE = Path(__file__).parents[1] / "src" / "csrr"
ROOMS = (
    "_base",
    "data",
    "numerics",
    "results",
    "ranking",
    "noise",
    "models",
    "evaluation",
    "report",
    "interop",
    "serve",
    "cli",
)
DECLARED = {"parameters", "model_parameters", "registry", "rules"}
"""The modules of the package itself, which every room may import."""
MAY_IMPORT = {room: {*ROOMS[: place + 1], *DECLARED} for place, room in enumerate(ROOMS)} | {
    "_base": {"_base"},
    "numerics": {"_base", "numerics"},
    "serve": {*ROOMS, *DECLARED, ""} - {"cli"},
    "cli": {*ROOMS, *DECLARED, ""},
    "rules.py": {"_base", "data", "ranking", "models", *DECLARED},
}
"""What each room may import; "" is the package itself."""
FILES = sorted(SOURCE.rglob("*.py"))


def imported_parts(text):
    """Return the parts of our package that a source text imports, at any depth."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return {(*name.split("."), "")[1] for name in names if name.split(".")[0] == "csrr"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    part = path.relative_to(SOURCE).parts[0]
    assert not re.search(r"^\s*(from|import) csrr_paper", path.read_text(), re.MULTILINE)
    if part not in ("__init__.py", "__main__.py"):
        assert imported_parts(path.read_text()) <= MAY_IMPORT.get(part, {"_base", *DECLARED})


@pytest.mark.parametrize("room", ["numerics", "noise"])
def test_no_engine_is_a_default_below_the_models(room):
    for path in (SOURCE / room).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                own = node.args
                optional = [*own.args[len(own.args) - len(own.defaults) :], *own.kwonlyargs]
                assert "engine" not in [each.arg for each in optional], f"{path.name}, {node.name}"


def test_numerics_knows_nothing_of_html():
    assert [path.name for path in (SOURCE / "numerics").glob("*.py") if "html" in path.read_text().lower()] == []


def test_every_room_has_its_place():
    assert {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} == set(ROOMS)


def test_no_file_is_too_long():
    long = {str(path.relative_to(SOURCE)): n for path in FILES if (n := len(path.read_text().splitlines())) > 1000}
    assert not long


@pytest.mark.parametrize("name", HOMES)
def test_between_a_model_and_the_contract_stands_at_most_one_class(name):
    above = [kind.__name__ for kind in MODELS[name].__mro__[1:] if kind.__module__.startswith("csrr.")]
    assert above[-3:] == ["Recommender", "Scorer", "Estimator"]
    assert len(above) <= 4


def test_the_reader_of_imports_sees_them_all():
    text = "import csrr\nimport csrr.data.log\nfrom csrr import optim\ndef f():\n    from csrr.models.a import B"
    assert imported_parts(text) == {"", "data", "optim", "models"}


@pytest.mark.parametrize("word", ["utils", "helpers", "common", "manager"])
def test_no_file_has_a_name_that_says_nothing(word):
    assert [path for path in SOURCE.rglob("*") if word in path.stem.split("_")] == []


def list_reached(work):
    """Return the files of the package whose functions run in a call, on this thread."""
    found = set()

    def see(frame, event, argument):
        found.add(frame.f_code.co_filename)

    before = sys.gettrace()
    sys.settrace(see)
    try:
        work()
    finally:
        sys.settrace(before)
    return {Path(each).relative_to(SOURCE) for each in found if Path(each).is_relative_to(SOURCE)}


def test_a_call_passes_through_few_files():
    log = csrr.synthetic(200, 80, events_per_user=12).log
    model = csrr.CSRR(threads=1)
    assert len(list_reached(lambda: model.fit(log))) <= 24
    assert len(list_reached(lambda: model.recommend([3, 5], k=5))) <= 10


def test_reading_a_csv_file_passes_through_few_files(tmp_path):
    log, read = csrr.synthetic(60, 40, events_per_user=10).log, csrr.read
    rows = zip(log.user_rows.tolist(), log.item_rows.tolist(), strict=True)
    (tmp_path / "clicks.csv").write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in rows))
    assert len(list_reached(lambda: read(tmp_path / "clicks.csv"))) <= 9
