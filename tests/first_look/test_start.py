"""From a log to an answer: the numbers are those of the library, and the files hold them."""

import json
from dataclasses import replace
from html import escape

import numpy as np
import pytest

import csrr
from csrr.deadline import TimeUpError
from csrr.first_look import contest, prospects
from csrr.first_look import start as start_file
from csrr.first_look.contest import CONTESTANTS
from csrr.first_look.findings import list_findings
from csrr.first_look.user_groups import group_items


@pytest.fixture(scope="module")
def log():
    return csrr.synthetic(300, 120, rank=5, events_per_user=20, seed=2).log


@pytest.fixture(scope="module")
def look(log, tmp_path_factory):
    return csrr.start(log, 2, tmp_path_factory.mktemp("look") / "deep" / "down")


def test_all_is_done_and_the_best_is_the_best(look):
    assert [each.name for each in look.contestants] == list(CONTESTANTS)
    assert look.pending == []
    means = {each.name: each.judged["ndcg@10"] for each in look.done}
    assert look.best.name == max(means, key=means.get)
    assert means[look.best.name] > 1.2 * means["PopRank"]


def test_numbers_are_those_of_the_library(look):
    train, test = look.test.train, look.test.test
    own = {name: csrr.evaluate(getattr(csrr, name)().fit(train), train, test, at=10) for name in ("PopRank", "WRMF")}
    for each in look.done:
        if each.name in own:
            assert each.judged["ndcg@10"] == own[each.name]["ndcg@10"]
    assert {row.against for row in look.comparison.rows} == {look.best.name}
    assert len(look.comparison.rows) == len(look.done) - 1


def test_the_model_is_fitted_to_all_events(look, log):
    kept = csrr.load(look.folder / "model.csrr")
    assert look.refitted
    assert np.array_equal(kept.seen_.indices, log.to_csr().indices)
    assert kept.recommend(5, k=3).items.tolist() == look.model.recommend(5, k=3).items.tolist()


def test_groups_part_the_users_and_the_test_events(look):
    best = [each for each in look.by_users if each.model == look.best.name]
    assert sum(each.n for each in best) == look.best.evaluation.n_users
    whole = sum(each.n * each.mean for each in best) / sum(each.n for each in best)
    assert whole == pytest.approx(look.best.evaluation["ndcg@10"])
    items = [each for each in look.by_items if each.model == look.best.name]
    assert sum(each.n for each in items) == len(look.test.test)
    hits = look.best.judged.hits[:, :10].sum()
    assert sum(each.n * each.mean for each in items) == pytest.approx(hits)
    assert all(each.low <= each.mean <= each.high for each in look.by_users)


def test_the_floor_finds_popular_items_only(look):
    floor = look.contestants[0]
    popular, *others = group_items([floor], look.test)
    assert popular.mean > 0
    assert [each.mean for each in others] == [0.0] * len(others)


def test_costs_add_up(look):
    relevant = look.best.judged.n_relevant.mean()
    assert look.lists[0].cost == pytest.approx(10 * relevant)
    for each in look.lists:
        assert each.found + each.missed == pytest.approx(relevant)
        assert each.found + each.in_vain == pytest.approx(each.length)
        assert each.cost == pytest.approx(10 * each.missed + each.in_vain)
        assert each.low <= each.cost <= each.high
    assert look.costs.miss == 10


def test_less_is_learned_of_less(look):
    shares = [each.share for each in look.learning]
    assert shares == [0.25, 0.5, 1.0]
    assert look.learning[0].mean < look.learning[-1].mean
    assert look.learning[-1].mean == look.best.judged["ndcg@10"]
    assert look.learning[0].n_events == round(len(look.test.train) / 4)


def test_reasons_are_of_the_history(look):
    assert len(look.examples) == 3
    for each in look.examples:
        log = look.model.training_log()
        own = {log.title(row) or str(log.items.ids[row]) for row in log.items.rows(log.history(each.user))}
        assert set(each.history) <= own
        assert len(each.items) == 5
        assert not own & {item for item, _ in each.items}
        assert all(set(reasons) <= own for _, reasons in each.items)


def test_the_summary_holds_it_all_and_is_plain_json(look):
    kept = json.loads((look.folder / "summary.json").read_text())
    assert kept["best"] == look.best.name
    assert kept["finished"] is True
    assert {each["model"]: each["means"]["ndcg@10"] for each in kept["models"]} == {
        each.name: each.judged["ndcg@10"] for each in look.done
    }
    assert kept["findings"][0] in repr(look)
    page = look._repr_html_()
    assert escape(kept["findings"][0]) in page
    assert all(f">{each.judged['ndcg@10']:.4f}<" in page for each in look.done)
    assert [each["line"].split()[1] for each in kept["commands"]] == ["recommend", "info", "update"]


def test_the_same_log_and_seed_give_the_same(look, log):
    again = csrr.start(log, 2)
    assert again.folder is None
    assert again.table().to_arrow().drop(["seconds"]) == look.table().to_arrow().drop(["seconds"])


def test_a_model_without_time_is_told_of_and_the_others_stand(log, monkeypatch):
    fit = contest.fit_within

    def refuse(model, events, seconds):
        if isinstance(model, csrr.WRMF):
            raise TimeUpError
        fit(model, events, seconds)

    monkeypatch.setattr(contest, "fit_within", refuse)
    found = csrr.start(log, 2)
    (lost,) = [each for each in found.contestants if each.evaluation is None]
    assert lost.name == "WRMF"
    assert lost.note.startswith("not finished within ")
    assert len(found.done) == 4


def test_ease_is_left_out_where_items_are_many(log):
    found = contest.fit_contestant("EASE", start_file.hold_out(log), 60, 1e-3)
    assert found.evaluation is None
    assert found.note == "left out: 120 items would take too long"


def test_a_stop_leaves_what_was_known(log, tmp_path, monkeypatch):
    fit = start_file.fit_contestant

    def stop(name, *rest):
        if name == "WRMF":
            raise KeyboardInterrupt
        return fit(name, *rest)

    monkeypatch.setattr(start_file, "fit_contestant", stop)
    with pytest.raises(KeyboardInterrupt):
        csrr.start(log, 2, tmp_path)
    kept = json.loads((tmp_path / "summary.json").read_text())
    assert [each["model"] for each in kept["models"]] == ["PopRank", "ItemKNN", "EASE"]
    assert len(kept["comparison"]["rows"]) == 2
    assert kept["finished"] is False
    assert kept["pending"][:2] == ["WRMF", "CSRR"]
    assert type(csrr.load(tmp_path / "model.csrr")).__name__ == kept["best"]
    page = (tmp_path / "page.html").read_text()
    assert "Not done, because the run was stopped" in page
    assert "the training part of the events, not yet to all" in page


@pytest.mark.parametrize("wrong", [{"minutes": 0}, {"miss": -1}, {"false_alarm": 0}, {"seed": -1}])
def test_numbers_that_make_no_sense_are_refused(log, wrong):
    (name,) = wrong
    with pytest.raises(csrr.ParameterError, match=name):
        csrr.start(log, **wrong)


def test_files_of_others_are_not_written_over(log, tmp_path):
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(csrr.ParameterError, match="no first look; give another"):
        csrr.start(log, 1, tmp_path)
    assert (tmp_path / "page.html").read_text() == "mine"


def test_a_log_too_small_leaves_no_files(tmp_path):
    with pytest.raises(csrr.DataError, match="no test is possible"):
        csrr.start({"user": [1, 1, 2], "item": [1, 2, 1]}, folder=tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_passwords_in_addresses_stay_out_of_the_page(log, tmp_path):
    found = start_file.look_at_log(
        log, 1, tmp_path, miss=1, false_alarm=1, seed=0, callback=None, source="postgresql://ann:secret@host/shop"
    )
    assert found.source is None
    assert "secret" not in (tmp_path / "page.html").read_text() + (tmp_path / "summary.json").read_text()


def test_a_cost_curve_that_would_not_end_in_time_is_not_begun(log):
    assert prospects.draw_costs(log, 10, 1, 300 * 120 / prospects.CELLS_A_SECOND - 1e-9, 0) is None


def test_a_handful_of_users_is_no_group_that_fails(look):
    few = [replace(each, n=19, mean=-1.0) for each in look.by_users[:1]]
    said = " ".join(list_findings(replace(look, by_users=[*few, *look.by_users[1:]])))
    assert "It does worst for " in said
    assert few[0].name not in said


def test_a_best_that_is_not_surely_better_than_popularity_is_told_of(look):
    rows = [replace(row, t_p_holm=0.3 if row.model == "PopRank" else 0.01) for row in look.comparison.rows]
    doubtful = replace(look, comparison=replace(look.comparison, rows=rows))
    assert "it does not differ significantly from PopRank (p 0.300);" in list_findings(doubtful)[1]
    assert "a benefit of personalization is not shown" in list_findings(doubtful)[1]
    sure = replace(look, comparison=replace(look.comparison, rows=[replace(row, t_p_holm=0.01) for row in rows]))
    assert "significantly better than each of the others" in list_findings(sure)[1]


def test_lists_that_would_best_be_longer_are_told_of(look):
    cheap = [replace(each, cost=100.0 - each.length) for each in look.lists]
    assert "lists of 50 (the longest tried) cost least" in " ".join(list_findings(replace(look, lists=cheap)))
    nothing = [replace(each, cost=100.0 + each.length) for each in look.lists]
    assert "showing nothing costs least" in " ".join(list_findings(replace(look, lists=nothing)))
