import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

from csrr.data.ids import IdMap
from csrr.results.recommendations import Neighbors, Recommendations
from csrr.results.table import SHOWN_IN_HTML, ResultTable, format_latex_table

NASTY = r"100% <b>R&D</b> $x_1^2$ #{a}~\b | "


def example():
    titles = np.array(["Heat", None, NASTY], object)
    return ResultTable({"item": np.array([1, 2, 3]), "title": titles, "score": np.array([0.5, -0.25, np.nan])})


class Cells(HTMLParser):
    """The texts of the cells of a table, as a browser shows them, and the tags."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.tags = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        if self.cells and data.strip():
            self.cells[-1] += data


def test_columns_and_rows():
    table = example()
    assert len(table) == 3
    assert table["item"].tolist() == [1, 2, 3]
    assert list(table.head(1).rows()) == [{"item": 1, "title": "Heat", "score": 0.5}]
    assert table.take(table["item"] > 1)["item"].tolist() == [2, 3]
    with pytest.raises(ValueError, match=r"differ in length: \{'a': 1, 'b': 2\}"):
        ResultTable({"a": np.ones(1), "b": np.ones(2)})


def test_rows_that_lack_a_value_have_none():
    table = ResultTable.from_rows([{"a": 1, "b": 0.5}, {"a": 2, "c": "x"}])
    assert list(table.rows()) == [{"a": 1, "b": 0.5, "c": None}, {"a": 2, "b": None, "c": "x"}]
    arrow = table.to_arrow()
    assert arrow.schema.types == [pa.int64(), pa.float64(), pa.string()]
    assert arrow["b"].null_count == 1


def test_arrow_types():
    table = ResultTable.from_lists(
        {"whole": [1, 2], "real": [1, 0.5], "yes": [True, False], "mixed": ["auto", 0.5], "title": [None, None]}
    )
    kinds = [pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.string()]
    assert table.to_arrow().schema.types == kinds
    assert table.to_arrow()["mixed"].to_pylist() == ["auto", "0.5"]
    unknown = ResultTable.from_lists({"value": [None]}, types={"value": pa.float64()})
    assert unknown.head().to_arrow().schema.types == [pa.float64()]
    narrow = ResultTable({"score": np.ones(2, np.float32), "name": np.array(["a", "b"])})
    assert narrow.to_arrow().schema.types == [pa.float32(), pa.string()]
    assert list(example().to_frame().columns) == ["item", "title", "score"]


def test_text():
    table = example().take(np.array([0, 1]))
    assert str(table).splitlines() == ["item  title    score", "   1  Heat    0.5000", "   2         -0.2500"]
    assert repr(ResultTable({"n": np.arange(12)})).splitlines()[-2:] == ["9", "... 2 more"]


def test_summary_is_fit_for_json():
    rows = json.loads(json.dumps(example().summary(), allow_nan=False))["rows"]
    assert rows[2] == {"item": 3, "title": NASTY, "score": None}
    assert rows[1] == {"item": 2, "title": None, "score": -0.25}


def test_latex():
    table = ResultTable.from_lists({"model": ["EASE", "CSRR", "none"], "ndcg": [0.25, -0.5, None], "rank": [1, 2, 3]})
    assert table.to_latex().splitlines() == [
        r"\begin{tabular}{llr}",
        r"\toprule",
        r"model & ndcg & rank \\",
        r"\midrule",
        r"EASE & 0.2500 & 1 \\",
        r"CSRR & $-$0.5000 & 2 \\",
        r"none &  & 3 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_latex_leaves_no_special_character_bare():
    text = ResultTable.from_lists({"a_b%": [NASTY], "line": ["two\nlines"]}).to_latex()
    row = text.splitlines()[4]
    assert row == (
        r"100\% \textless{}b\textgreater{}R\&D\textless{}/b\textgreater{} \$x\_1\textasciicircum{}2\$"
        r" \#\{a\}\textasciitilde{}\textbackslash{}b \textbar{} & two lines \\"
    )
    assert text.splitlines()[2] == r"a\_b\% & line \\"
    # Nothing is cut, however long.
    assert "x" * 100 in ResultTable.from_lists({"a": ["x" * 100]}).to_latex()


def test_latex_numbers_that_are_none():
    table = ResultTable({"x": np.array([np.nan, np.inf, -np.inf])})
    assert table.to_latex().splitlines()[4:7] == [r"-- \\", r"$\infty$ \\", r"$-\infty$ \\"]


def test_the_best_is_bold_and_what_looks_the_same():
    table = ResultTable({"ndcg": np.array([np.nan, 0.1, 0.30001, 0.30002]), "cost": np.array([3, 4, 3, 5])})
    rows = table.to_latex(best={"ndcg": "max", "cost": "min"}).splitlines()[4:8]
    assert rows == [
        r"-- & \textbf{3} \\",
        r"0.1000 & 4 \\",
        r"\textbf{0.3000} & \textbf{3} \\",
        r"\textbf{0.3000} & 5 \\",
    ]
    assert "textbf" not in ResultTable.from_lists({"x": [None, "a"]}).to_latex(best={"x": "max"})


@pytest.mark.parametrize(
    ("best", "message"), [({"auc": "max"}, "no column 'auc'"), ({"ndcg": "top"}, "'max' or 'min'")]
)
def test_a_best_that_cannot_be(best, message):
    with pytest.raises(ValueError, match=message):
        format_latex_table(["ndcg"], [[0.5]], best)


def test_latex_and_html_need_no_library(monkeypatch):
    for name in ("pandas", "jinja2"):
        monkeypatch.setitem(sys.modules, name, None)
    assert example().to_latex().startswith(r"\begin{tabular}")
    assert "<table>" in example()._repr_html_()
    with pytest.raises(ImportError, match="to_frame needs pandas"):
        example().to_frame()


def test_html_shows_what_is_there_and_runs_nothing():
    evil = '<script>alert("x")</script>'
    table = ResultTable.from_lists({"<i>": [evil, "a & b"], "title": [None, "Heat"], "score": [0.5, 1.0]})
    page = Cells(table._repr_html_())
    assert page.cells == ["<i>", "title", "score", evil, "", "0.5000", "a & b", "Heat", "1.0000"]
    assert page.tags == {"table", "thead", "tbody", "tr", "th", "td"}


def test_html_is_short():
    text = ResultTable({"n": np.arange(1000)})._repr_html_()
    assert len(re.findall("<td", text)) == SHOWN_IN_HTML
    assert f"... {1000 - SHOWN_IN_HTML} more" in text
    assert "more" not in ResultTable({"n": np.arange(SHOWN_IN_HTML)})._repr_html_()
    long = Cells(ResultTable.from_lists({"title": ["x" * 200]})._repr_html_())
    assert len(long.cells[1]) == 40


def test_empty_tables():
    empty = example().head(0)
    assert len(empty) == 0
    assert str(empty) == repr(empty) == "item  title  score"
    assert empty.to_arrow().column_names == ["item", "title", "score"]
    assert empty.summary() == {"rows": []}
    assert empty.to_latex(best={"score": "max"}).splitlines()[2:5] == [
        r"item & title & score \\",
        r"\midrule",
        r"\bottomrule",
    ]
    assert Cells(empty._repr_html_()).cells == ["item", "title", "score"]
    nothing = ResultTable.from_rows([])
    assert (len(nothing), str(nothing), list(nothing.rows())) == (0, "", [])
    assert nothing.to_arrow().num_columns == 0


def test_recommendations_and_neighbours_get_it_all():
    titles = np.array([None, "R&D <1>"], object)
    rows = np.array([[1, 0]], np.int32)
    recs = Recommendations.from_rows(np.array([7]), rows, np.array([[2.0, 1.0]], np.float32), IdMap([3, 4]), titles)
    assert r"7 & 4 & 1 & 2.0000 & R\&D \textless{}1\textgreater{} \\" in recs.to_latex()
    page = recs._repr_html_()
    assert page.startswith("<p>Recommendations: 1 user, k = 2</p>")
    assert Cells(page).cells[5:] == ["7", "4", "1", "2.0000", "R&D <1>", "7", "3", "2", "1.0000", ""]
    near = Neighbors("<b>", np.array([3]), np.array([0.5], np.float32), titles[:1])
    assert near._repr_html_().startswith("<p>Neighbors of &#x27;&lt;b&gt;&#x27;</p>")
    assert near.to_arrow().schema.types == [pa.int64(), pa.float32(), pa.string()]
