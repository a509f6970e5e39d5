"""No measurement is typed: what the documents say was measured is made of the files in docs/results."""

import copy
import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
SCORE = re.compile(r"(?<![\w.@=*/-])(?:\.\d+|0\.\d{3,})(?![\w.\\*])")
"""A number such as .4134 or .69: parameters have their zero, and fewer digits."""
AMOUNT = re.compile(r"(?<![\w.])\d*\.\d+ ?(?:s|ms|min|GB|MB|x|%)(?!\w)")
"""A number with a decimal and a unit, such as 15.8 s or 1.29x."""
CELL = re.compile(r"\d*\.\d+")


@pytest.fixture(scope="module")
def maker():
    """docs/from_results.py, as a module."""
    spec = importlib.util.spec_from_file_location("from_results", ROOT / "docs" / "from_results.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def kept():
    """What `python -m benchmarks` has kept."""
    return json.loads((RESULTS / "benchmarks.json").read_text())


@pytest.fixture(scope="module")
def rows(maker):
    """What `python -m benchmarks` can measure; `maker` has put it within reach."""
    return sys.modules["benchmarks.rows"].ROWS


def find_typed(text):
    """Return the lines that hold what looks like a measurement, code left out."""
    prose = re.sub(r"^```.*?^```$|^    .*?$|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    return [
        line
        for line in prose.splitlines()
        if SCORE.search(line) or AMOUNT.search(line) or (line.startswith("|") and CELL.search(line))
    ]


def list_written(maker):
    """Return the documents that people write, in part or whole."""
    found = [path.relative_to(ROOT) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md*"))]
    made = {*maker.WHOLE, "docs/reproduction.md", "CHANGELOG.md"}
    return sorted(str(path) for path in found if str(path) not in made)


def test_what_is_made_whole_is_made_of_the_results(maker):
    assert {"docs/benchmarks.md", "docs/theory.svg"} <= set(maker.WHOLE)
    for document, make in maker.WHOLE.items():
        assert (ROOT / document).read_text() == make(), document


def test_no_measurement_is_typed(maker):
    written = list_written(maker)
    assert {"README.md", "docs/math.md", "docs/decisions.md", "docs/make/benchmarks.md.in"} <= set(written)
    typed = {each: find_typed(maker.drop_blocks(each, (ROOT / each).read_text())) for each in written}
    assert {document: lines for document, lines in typed.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "| Gowalla | NDCG@20 | .1622 |",
        "| MovieLens-1M | fit, s | 1.9 |",
        "It reaches .4134 there.",
        "an AUC of only .69",
        "It takes 15.8 s, or 1.29x.",
        "EASE stays ahead by 0.6 %.",
        "a peak of 1.58 GB",
    ],
)
def test_a_typed_measurement_is_found(line):
    assert find_typed(f"Before.\n\n{line}\n\nAfter.") == [line]


@pytest.mark.parametrize(
    "line", ["| tol | `0.01` |", "Up to 9 the step is 1.3 times as long.", "    x = 0.1234", "1 %"]
)
def test_what_is_no_measurement_is_let_be(line):
    assert find_typed(f"Before.\n\n{line}\n\nAfter.") == []


def test_every_row_that_was_kept_is_on_the_page_with_its_command_and_origin(maker, kept, rows):
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert kept
    for name, each in kept.items():
        assert each["command"] == f"python -m benchmarks {name}"
        assert {"csrr", "numpy", "commit"} <= set(each["versions"])
        assert f"{each['when']}, {each['machine']}; " in page
        (line,) = [line for line in page.splitlines() if f"| `{name}` |" in line]
        assert line.startswith(f"| {' | '.join(rows[name].show(each['values']))} | ")


def test_every_result_of_the_defaults_has_its_origin_on_the_page(maker):
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    describe_origin = sys.modules["docs.make.origins"].describe_origin
    for key, each in maker.DEFAULTS.items():
        assert f": {describe_origin(each)}\n" in page, key


def test_a_row_that_was_not_measured_is_not_on_the_page(maker, kept):
    some = {name: each for name, each in kept.items() if name != "calibration"}
    assert "| `calibration` |" in maker.benchmarks.make_page(kept)
    assert "| `calibration` |" not in maker.benchmarks.make_page(some)


def test_words_that_speak_of_what_was_not_measured_are_an_error(maker, kept):
    with pytest.raises(KeyError, match="als-early"):
        maker.benchmarks.make_page({name: each for name, each in kept.items() if name != "als-early"})


def test_the_page_follows_the_file(maker, kept):
    other = copy.deepcopy(kept)
    other["calibration"]["values"]["half"] += 0.01
    assert maker.benchmarks.make_page(other) != maker.benchmarks.make_page(kept)


def test_rows_are_kept_one_by_one_and_what_is_kept_is_not_measured_again(maker, rows, tmp_path):
    main = importlib.import_module("benchmarks.__main__")
    path = tmp_path / "new" / "kept.json"
    values = {"iterations": 7, "gap": 1e-6, "apart": 1e-9, "reached": True, "list": [1, 2]}
    main.keep_result(path, "gap", {"values": values})
    main.keep_result(path, "memory", {"values": {}})
    assert main.read_results(path) == {"gap": {"values": values}, "memory": {"values": {}}}
    assert main.choose_rows(["gap"], None, {"gap"}) == ["gap"]
    left = main.choose_rows([], None, {"gap", "memory"})
    assert left == [name for name in rows if name not in ("gap", "memory")]
    times, others = (main.choose_rows([], only, {"gap", "memory"}) for only in ("times", "others"))
    assert sorted(times + others) == sorted(left)
    assert "wrmf" in times
    assert "threads" in others


class TestTheory:
    def test_what_the_words_claim_holds(self, maker):
        main, wrong = maker.THEORY["default"], maker.THEORY["wrong_threshold"]
        for measure in ("cost", "loss", "loss_bound"):
            assert main.slopes["fixed epsilon", measure].high < -1 < main.slopes["fixed density", measure].low
        assert all(row.loss < row.loss_bound for row in main.rows)
        assert wrong.slopes["fixed density", "cost"].low < 0 < wrong.slopes["fixed density", "cost"].high
        assert wrong.slopes["fixed density", "loss"].high < 0
        totals = maker.theory.sum_costs(main)
        assert max(totals) < 1.2 * min(totals)

    def test_the_runs_are_those_that_are_declared(self, maker):
        plain = json.loads((RESULTS / "theory.json").read_text())
        runs = importlib.import_module("benchmarks.theory").RUNS
        assert {name: each["changes"] for name, each in plain.items()} == runs
        for name, each in plain.items():
            found = maker.THEORY[name]
            assert {"alpha": found.alpha, "q": found.q, "rho": found.rho}.items() <= each.items()
            assert len(found.rows) == len(each["rows"]) == 10 * runs[name].get("repeats", 10)
            assert "commit" in each["versions"]

    def test_a_simulation_is_read_as_it_was_written(self, maker):
        module = importlib.import_module("benchmarks.theory")
        found = maker.THEORY["default"]
        again = module.read_plain(json.loads(json.dumps(module.write_plain(found))))
        assert again.rows == found.rows
        assert maker.theory.draw_figure({"default": again}) == (ROOT / "docs" / "theory.svg").read_text()

    def test_the_numbers_and_the_figure_follow_the_file(self, maker):
        other = maker.THEORY | {"default": maker.THEORY["low_cost"]}
        assert maker.theory.make_text(other) != maker.theory.make_text(maker.THEORY)
        assert maker.theory.draw_figure(other) != maker.theory.draw_figure(maker.THEORY)
