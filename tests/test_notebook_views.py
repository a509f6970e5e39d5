"""What notebooks show: every result has HTML with its numbers, and no id or title in it can do anything."""

import inspect
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import csrr
from csrr._base.text import fold_html, format_html_facts, format_html_table, format_html_words
from csrr.numerics.certificate import Certificate
from csrr.registry import HOMES
from csrr.results.table import ResultTable
from tests.in_order import suit

EVIL = "<script>alert(1)</script>&\"'\x1b[2J"
PLAIN = {"IdMap", "FeatureTable", "EventTypes", "LogColumns", "HeldOut", "Noisy", "Range", "Walk", "Plot"}
"""Public classes that are no results, or are pictures."""
TAGS = {"p", "br", "table", "thead", "tbody", "tr", "th", "td", "strong", "details", "summary"}


class Page(HTMLParser):
    """The tags, attributes and words of some HTML; each tag that is opened must be closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words, self.open = set(), set(), [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= set(attrs)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


def check(text):
    """Return the page of some HTML that is safe: few tags, no attribute but a style, and no control characters."""
    page = Page(text)
    assert page.tags <= TAGS
    styles = {value for name, value in page.attributes - {("open", None)} if name == "style"}
    assert page.attributes == {("style", each) for each in styles} | page.attributes & {("open", None)}
    assert all(re.fullmatch("text-align: (left|right); padding: [0-9. em]+", each) for each in styles)
    assert "\x1b" not in text
    return page


@pytest.fixture(scope="module")
def shown():
    """Results of hostile ids and titles, by the name of their kind."""
    made = csrr.synthetic(120, 40, events_per_user=12, seed=0).log
    users = [f"{EVIL} user {row}" for row in made.user_rows]
    items = [f"{EVIL} item {row}" for row in made.item_rows]
    log = csrr.read({"user": users, "item": items, "title": [f"{EVIL} title {row}" for row in made.item_rows]})
    table = {"item": log.items.ids.tolist(), "genre": [EVIL, "other"] * (log.n_items // 2)}
    train, test = csrr.split(log, seed=0)
    model = csrr.CSRR(reg_low_rank=0.3, reg_sparse=0.5, neighbors=5).fit(train).set_items(table)
    calibration = model.calibrate(test)
    evaluation = csrr.evaluate(model, train, test, at=5, by="genre", rules={"diversity": 0.3})
    evaluations = {EVIL: evaluation, "pop": csrr.evaluate(csrr.PopRank().fit(train), train, test, at=5)}
    rolled = csrr.read({"user": users, "item": items, "time": [86_400 * (n % 30) for n in range(len(users))]})
    recs = model.recommend(k=3, columns=["genre"])
    suspects = csrr.CSRR(reg_low_rank="noise", reg_sparse=0.5, neighbors=0).fit(log).suspects(stability=True)
    found = [
        log,
        csrr.read_items(table),
        model,
        model.certificate_,
        calibration,
        model.reliability(test),
        model.reliability(test).by_activity,
        evaluation,
        evaluation.by_category,
        evaluation.rule_cost,
        csrr.tabulate(evaluations),
        csrr.compare(evaluations, "ndcg@5"),
        recs,
        model.explain(recs.users[0], recs.items[0, 0]),
        model.specific_preferences(recs.users[0]),
        model.similar_items(recs.items[0, 0], k=3),
        csrr.CSRR().fit(csrr.synthetic(200, 40, events_per_user=12, seed=0).log).chosen_,
        suspects,
        suspects.stability,
        csrr.Cleaning(suspects, above=0.5),
        csrr.path(train, n=4, cost_ratio=1, reg_sparse=1, neighbors=0),
        csrr.cost_curve(log, miss=5, false_alarm=1, ratios=[1, 4], reg_low_rank=0.3, neighbors=0),
        csrr.tune("ease", train, space={"reg": [1.0, 20.0]}, defaults=False),
        csrr.evaluate_rolling(csrr.PopRank(), rolled, every="5d"),
    ]
    return {type(each).__name__: each for each in found}


def test_every_public_result_has_html():
    classes = {name for name in csrr.__all__ if inspect.isclass(getattr(csrr, name))}
    results = {name for name in classes if not issubclass(getattr(csrr, name), BaseException)} - PLAIN
    assert len(results) >= 20
    assert [name for name in sorted(results) if not hasattr(getattr(csrr, name), "_repr_html_")] == []


def test_the_results_are_all_here(shown):
    elsewhere = {"Export", "FirstLook", "Robustness", "Recommender", *HOMES}
    classes = {name for name in csrr.__all__ if hasattr(getattr(csrr, name), "_repr_html_")}
    assert classes - set(shown) - elsewhere == set()
    assert len(shown) == 24


NAMES = [
    "Log",
    "ItemTable",
    "CSRR",
    "Certificate",
    "Calibration",
    "Reliability",
    "GroupReliability",
    "Evaluation",
    "CategoryShares",
    "RuleCost",
    "EvaluationTable",
    "Comparison",
    "Recommendations",
    "Explanation",
    "Preferences",
    "Neighbors",
    "Chosen",
    "Suspects",
    "Stability",
    "Cleaning",
    "Path",
    "CostCurve",
    "Tuning",
    "Rolling",
]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_in_it_does_anything(shown, name):
    text = shown[name]._repr_html_()
    page = check(text)
    assert "<script" not in text
    assert len(page.words) > 5


@pytest.mark.parametrize("name", ["Log", "ItemTable", "Recommendations", "Explanation", "Neighbors", "Suspects"])
def test_ids_are_shown_as_they_are(shown, name):
    assert "<script>alert(1)</script>&\"'\\x1b[2J" in check(shown[name]._repr_html_()).text.replace("...", "")


def has_number(page, value):
    return f"{value:.4f}" in page.words


def test_it_holds_the_numbers(shown):
    pages = {name: check(each._repr_html_()) for name, each in shown.items()}
    assert has_number(pages["Evaluation"], shown["Evaluation"]["ndcg@5"])
    assert has_number(pages["Evaluation"], shown["Evaluation"].interval("ndcg@5")[0])
    assert has_number(pages["EvaluationTable"], shown["Evaluation"]["ndcg@5"])
    assert has_number(pages["Recommendations"], float(shown["Recommendations"].scores[0, 0]))
    assert has_number(pages["Explanation"], float(shown["Explanation"].amounts[0]))
    assert has_number(pages["Suspects"], float(shown["Suspects"].events["score"][0]))
    assert has_number(pages["Path"], shown["Path"][-1].reg_low_rank)
    assert has_number(pages["CostCurve"], shown["CostCurve"][0].cost)
    assert shown["CostCurve"].recommendation in pages["CostCurve"].text
    assert f"{shown['Tuning'].best_value:.4f}" in pages["Tuning"].text
    certificate = shown["Certificate"]
    assert {
        f"{certificate.primal:.6g}",
        f"{certificate.dual:.6g}",
        certificate.claim.partition(" above")[0],
        "converged",
    } <= set(pages["Certificate"].words)
    assert shown["Chosen"].note in pages["Chosen"].text
    assert "unreliable" not in pages["Stability"].text
    assert "Share of V" in pages["Suspects"].text


def test_a_model_shows_its_parameters_its_size_and_its_certificate(shown):
    fitted, new = check(shown["CSRR"]._repr_html_()), check(csrr.CSRR(reg_sparse=0.25)._repr_html_())
    size = f"{shown['CSRR'].seen_.nnz:,}"
    assert {"120", "40", size, "reg_low_rank", "0.3"} <= set(fitted.words)
    assert f"Certificate: {shown['CSRR'].certificate_}" in fitted.words
    assert "CSRR(reg_sparse=0.25), not fitted yet" in new.words
    assert f"{len(csrr.CSRR().get_params())} parameters, 1 of them set" in new.words
    ease = csrr.EASE().fit(csrr.synthetic(60, 40, events_per_user=10).log)
    words = check(ease._repr_html_()).words
    assert words[words.index("reg") + 1 : words.index("reg") + 3] == ["'auto'", f"{ease.reg_:.4g}"]


@pytest.mark.parametrize("name", HOMES)
def test_every_model_shows_itself_before_and_after_a_fit(name):
    model = getattr(csrr, name)()
    assert f"{name}(), not fitted yet" in check(model._repr_html_()).words
    fitted = model.fit(suit(model, csrr.synthetic(60, 40, events_per_user=10).log))
    assert any(word.startswith(f"{name}(), fitted to 60 users") for word in check(fitted._repr_html_()).words)


def test_the_best_is_bold_in_a_table_of_models(shown):
    table = shown["EvaluationTable"]
    text = table._repr_html_()
    assert text.count("<strong>") >= len(table.metrics)
    assert f"<strong>{max(each['ndcg@5'] for each in table.evaluations.values()):.4f}</strong>" in text


def test_the_best_is_the_best_of_all_rows():
    many = ResultTable({"ndcg": np.linspace(0, 1, 50)})
    assert "<strong>" not in many.to_html(best={"ndcg": "max"}, rows=20)
    assert "<strong>1.0000</strong>" in many.to_html(best={"ndcg": "max"})
    assert "... 30 more" in many.to_html(rows=20)


def test_a_log_shows_its_first_events_and_their_times():
    log = csrr.read({"user": range(9), "item": range(9), "time": ["2024-01-31 10:00:03.5"] * 9, "plays": range(1, 10)})
    page = check(log._repr_html_())
    assert page.words.count("2024-01-31T10:00:03") == 5
    assert {"user", "item", "weight", "time", "... 4 more"} <= set(page.words)
    assert page.words[0] == repr(log).splitlines()[0]


def test_a_certificate_says_what_binds():
    capped = Certificate(2.0, 1.0, 0.5, 3, 7, "rank_cap", 1.0, rank_capped=True, span_dual=1.98, has_neighbors=True)
    words = check(capped._repr_html_()).words
    assert {"settled at its rank limit", "at most 100 %", "at most 1.1 %", "the neighbors", "3", "7"} <= set(words)


def test_the_parts_escape_everything():
    for text in (
        format_html_table([EVIL], [[EVIL], [None]], bold={(0, 0)}),
        format_html_facts({EVIL: EVIL}),
        format_html_words(f"{EVIL}\n{EVIL}"),
        fold_html(EVIL, "", is_open=True),
    ):
        assert "<script>alert(1)</script>" in check(text).text
