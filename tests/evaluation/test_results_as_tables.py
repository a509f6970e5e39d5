"""Every result is one table, and can be written in every way."""

import re

import pytest

import csrr


@pytest.fixture(scope="module")
def results():
    log = csrr.synthetic(120, 40, events_per_user=10, seed=0).log
    train, test = csrr.split(log, seed=0)
    models = {"pop": csrr.PopRank().fit(train), "R&D <1>": csrr.EASE().fit(train)}
    evaluations = {name: csrr.evaluate(model, train, test, at=5) for name, model in models.items()}
    calibration = models["pop"].calibrate(test)
    return {
        "Evaluation": evaluations["pop"],
        "Comparison": csrr.compare(evaluations, "ndcg@5"),
        "Tuning": csrr.tune("ease", train, space={"reg": [1.0, 20.0]}, defaults=False),
        "CostCurve": csrr.cost_curve(log, miss=5, false_alarm=1, ratios=[1, 4], reg_low_rank=0.3),
        "Calibration": calibration,
        "Reliability": calibration.reliability(),
    }


NAMES = ["Evaluation", "Comparison", "Tuning", "CostCurve", "Calibration", "Reliability"]


@pytest.mark.parametrize("name", NAMES)
def test_one_table_behind_all(results, name):
    result = results[name]
    table = result.table()
    assert len(table) >= 1
    assert result.to_arrow().equals(table.to_arrow())
    assert result.to_frame().equals(table.to_frame())
    assert list(result.to_frame().columns) == list(table.columns)


@pytest.mark.parametrize("name", NAMES)
def test_latex_and_html(results, name):
    result = results[name]
    latex, page = result.to_latex(), result._repr_html_()
    n_rows = latex.count("\\\\") - 1
    assert latex.count("&") % (n_rows + 1) == 0 or name == "Comparison"  # its R\&D is a cell's own
    assert page.startswith(f"<p>{name}: ")
    assert page.count("<tr>") == min(n_rows, 20) + 1
    assert latex.splitlines()[0].removeprefix(r"\begin{tabular}{").strip("lr") == "}"


def test_people_read_means_and_names_are_escaped(results):
    evaluation, comparison = results["Evaluation"], results["Comparison"]
    assert rf"ndcg@5 & {evaluation['ndcg@5']:.4f} & " in evaluation.to_latex()
    assert rf"\textbf{{{max(evaluation.means.values()):.4f}}}" in evaluation.to_latex(best={"mean": "max"})
    assert re.search('<td style="text-align: left; [^"]*">ndcg@5</td>', evaluation._repr_html_())
    assert r"pop & R\&D \textless{}1\textgreater{} & " in comparison.to_latex()
    assert "R&amp;D &lt;1&gt;" in comparison._repr_html_()
    assert r" $\pm$ " in comparison.to_latex()


def test_a_calibration_is_a_table_of_its_bins(results):
    calibration = results["Calibration"]
    rows = list(calibration.table().rows())
    assert sum(row["cells"] for row in rows) == calibration.n_cells.sum()
    assert [row["from"] for row in rows][1:] == [row["to"] for row in rows][:-1] == calibration.edges.tolist()
    assert calibration.probability([row["to"] for row in rows]).tolist() == [row["probability"] for row in rows]
