import json
import re

import pytest

import csrr
from csrr.parameters import ParameterError


@pytest.fixture(scope="module")
def found():
    train, test = csrr.split(csrr.synthetic(60, 40, events_per_user=10).log)
    models = {"popular_items": csrr.PopRank(), "EASE & co": csrr.EASE(10), "EASE again": csrr.EASE(10)}
    measures = {"at": (5, 10), "metrics": ["recall", "ndcg", "cost"]}
    return {name: csrr.evaluate(model.fit(train), train, test, **measures) for name, model in models.items()}


def test_the_means_are_those_of_the_evaluations(found):
    table = csrr.tabulate(found)
    assert table.metrics == tuple(found["EASE & co"].means)
    for row in table.to_list():
        assert {name: row[name] for name in table.metrics} == pytest.approx(found[row["model"]].means)
    json.dumps(table.to_list(), allow_nan=False)


def test_the_best_is_starred_in_text_and_bold_in_latex(found):
    table = csrr.tabulate(found, ["recall@5", "cost"])
    values = {name: {model: each[name] for model, each in found.items()} for name in table.metrics}
    best = {"recall@5": max(values["recall@5"].values()), "cost": min(values["cost"].values())}
    text, latex = repr(table), table.to_latex()
    rows = dict(zip(found, text.splitlines()[2:], strict=True))
    lines = dict(zip(found, latex.splitlines()[4:-2], strict=True))
    for model in found:
        for place, name in enumerate(table.metrics):
            is_best = values[name][model] == best[name]
            assert (f"{values[name][model]:.4f}*" in rows[model]) == is_best
            cell = lines[model].removesuffix(r" \\").split(" & ")[place - len(table.metrics)]
            assert (cell == rf"\textbf{{{values[name][model]:.4f}}}") == is_best
    assert lines["EASE & co"].startswith(r"EASE \& co & ")
    assert lines["popular_items"].startswith(r"popular\_items & ")
    assert r"\textbf" not in table.to_latex(best={})
    assert r"\toprule" in latex
    assert re.search(r"\\begin\{tabular\}\{lrr\}", latex)


def test_evaluations_comparisons_and_tunings_have_latex(found):
    one = found["EASE & co"].to_latex()
    assert r"recall@5 & " in one
    assert r"f1\_of\_means" not in one
    compared = csrr.compare(found, "ndcg@5").to_latex()
    assert r"popular\_items & EASE \& co" in compared
    assert r"$\pm$" in compared
    assert compared.count(r" \\") == 1 + 3


def test_what_cannot_be_one_table(found):
    with pytest.raises(ParameterError, match="needs an evaluation"):
        csrr.tabulate({})
    with pytest.raises(ParameterError, match=r"popular_items has no 'map@5'; it has recall@5"):
        csrr.tabulate(found, ["map@5"])
    train, test = csrr.split(csrr.synthetic(60, 40, events_per_user=10).log)
    fewer = csrr.evaluate(csrr.PopRank().fit(train), train, test, users=[1, 2])
    with pytest.raises(csrr.DataError, match=r"different users \(60 and 2\)"):
        csrr.tabulate(found | {"fewer": fewer})
