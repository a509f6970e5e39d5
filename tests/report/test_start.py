"""From a log to an answer: the numbers are those of the library, and the files hold them."""

import json
import time
from dataclasses import replace
from html import escape

import numpy as np
import pytest

import csrr
from csrr._base.threads import TimeUpError
from csrr.report import comparison
from csrr.report import start as start_file
from csrr.report.comparison import COMPARED, HALVES, NEXT, group_items
from csrr.report.findings import count_hits, list_commands, list_findings


@pytest.fixture(scope="module")
def log():
    return csrr.synthetic(300, 120, rank=5, events_per_user=20, seed=2).log


@pytest.fixture(scope="module")
def look(log, tmp_path_factory):
    return csrr.start(log, 2, tmp_path_factory.mktemp("look") / "deep" / "down")


def test_all_is_done_and_the_best_is_the_best(look):
    assert [each.name for each in look.results] == list(COMPARED)
    assert look.pending == []
    means = {each.name: each.with_history["ndcg@10"] for each in look.done}
    assert look.best.name == max(means, key=means.get)
    assert means[look.best.name] > 1.2 * means["PopRank"]


def test_numbers_are_those_of_the_library(look):
    train, test = look.test.train, look.test.test
    own = {name: csrr.evaluate(getattr(csrr, name)().fit(train), train, test, at=10) for name in ("PopRank", "WRMF")}
    for each in look.done:
        if each.name in own:
            assert each.with_history["ndcg@10"] == own[each.name]["ndcg@10"]
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
    hits = look.best.with_history.hits[:, :10].sum()
    assert sum(each.n * each.mean for each in items) == pytest.approx(hits)
    assert all(each.low <= each.mean <= each.high for each in look.by_users)


def test_the_floor_finds_popular_items_only(look):
    floor = look.results[0]
    popular, *others = group_items([floor], look.test)
    assert popular.mean > 0
    assert [each.mean for each in others] == [0.0] * len(others)


def test_costs_add_up(look):
    relevant = look.best.with_history.n_relevant.mean()
    assert look.lists[0].cost == pytest.approx(10 * relevant)
    for each in look.lists:
        assert each.found + each.missed == pytest.approx(relevant)
        assert each.found + each.in_vain == pytest.approx(each.length)
        assert each.cost == pytest.approx(10 * each.missed + each.in_vain)
        assert each.low <= each.cost <= each.high
    assert look.costs.miss == 10


def test_half_of_the_users_keep_all_they_chose_and_half_of_each_history_is_of_all_users(look):
    few, short = look.learning
    assert (few.part, short.part) == HALVES
    assert (few.n_users, short.n_users) == (150, 300)
    assert few.n_events / few.n_users > 1.8 * short.n_events / short.n_users
    # Both of the same users, whom the model that saw all is judged on too.
    assert few.n_compared == short.n_compared == 150
    drawn = np.random.default_rng(0).permutation(300) < 150
    assert few.whole == pytest.approx(look.personal.with_history.per_user["ndcg@10"][drawn].mean())
    assert few.whole == pytest.approx(short.whole)
    for each in look.learning:
        assert each.whole - each.mean == pytest.approx(each.gain)
        assert each.gain_low < each.gain < each.gain_high
    assert short.gain_low > 0


def test_what_half_of_the_data_says_of_more_is_told(look):
    few, short = (replace(each, whole=0.2, mean=0.1, gain=0.1) for each in look.learning)
    sure, chance = replace(few, gain_low=0.05, gain_high=0.2), replace(short, gain_low=-0.1, gain_high=0.3)
    said = list_findings(replace(look, learning=[sure, chance]))[-1]
    assert said == (
        "More users of this kind would help (lists learned from half of them are 50.0 % worse) and longer histories of"
        " this kind would help little (lists learned from half of each are 50.0 % worse, which may be chance)."
    )
    worse = replace(few, mean=0.3, gain=-0.1, gain_low=-0.2, gain_high=-0.05)
    assert (
        "would not help (lists learned from half of them are 50.0 % better)"
        in list_findings(replace(look, learning=[worse]))[-1]
    )


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
        each.name: each.with_history["ndcg@10"] for each in look.done
    }
    assert kept["findings"][0] in repr(look)
    page = look._repr_html_()
    assert escape(kept["findings"][0]) in page
    assert all(f">{each.with_history['ndcg@10']:.4f}<" in page for each in look.done)
    assert [each["line"].split()[1] for each in kept["commands"]] == ["recommend", "similar", "info", "update"]


def test_the_same_log_and_seed_give_the_same(look, log):
    again = csrr.start(log, 2)
    assert again.folder is None
    assert again.table().to_arrow().drop(["seconds"]) == look.table().to_arrow().drop(["seconds"])


def test_a_model_without_time_is_told_of_and_the_others_stand(log, monkeypatch):
    fit = comparison.fit_within

    def refuse(model, events, seconds):
        if isinstance(model, csrr.WRMF):
            raise TimeUpError
        fit(model, events, seconds)

    monkeypatch.setattr(comparison, "fit_within", refuse)
    found = csrr.start(log, 2)
    (lost,) = [each for each in found.results if each.evaluation is None]
    assert lost.name == "WRMF"
    assert lost.note.startswith("not finished within ")
    assert len(found.done) == 4


def test_ease_is_left_out_where_items_are_many_and_fitted_where_it_is_asked_for(log, look, monkeypatch):
    found = comparison.fit_and_evaluate("EASE", comparison.hold_out(log), 60, 1e-4)
    assert found.evaluation is None
    assert found.note == (
        "left out: its 120 items would take about 0.00035 s and 172.8 kB; --ease (in Python: ease=True) has it fitted"
    )
    assert "EASE was left out: its" in " ".join(list_findings(replace(look, results=[*look.results, found])))
    monkeypatch.setattr(comparison, "EASE_SHARE", 0)
    assert [each.name for each in csrr.start(log, 1e-6).unfinished][:1] == ["EASE"]
    run = start_file.Run(log, 60, 0, print, items=None, ease=True)
    began, left = time.perf_counter(), run.left(0.5)
    asked = run.add_model(run.begin(10, 1), "EASE").results[0]
    assert asked.evaluation is not None
    assert left - run.left(0.5) <= time.perf_counter() - began - asked.seconds + 1e-3


def test_a_stop_leaves_what_was_known(log, tmp_path, monkeypatch):
    fit = comparison.fit_and_evaluate

    def stop(name, *rest):
        if name == "WRMF":
            raise KeyboardInterrupt
        return fit(name, *rest)

    monkeypatch.setattr(comparison, "fit_and_evaluate", stop)
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
    with pytest.raises(csrr.ParameterError, match="holds other files of the same names; give another"):
        csrr.start(log, 1, tmp_path)
    assert (tmp_path / "page.html").read_text() == "mine"


def test_a_log_too_small_leaves_no_files(tmp_path):
    with pytest.raises(csrr.DataError, match="no test is possible"):
        csrr.start({"user": [1, 1, 2], "item": [1, 2, 1]}, folder=tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_passwords_in_addresses_stay_out_of_the_page(log, tmp_path):
    found = csrr.start(log, 1, tmp_path, source="postgresql://ann:secret@host/shop")
    assert found.source is None
    assert "secret" not in (tmp_path / "page.html").read_text() + (tmp_path / "summary.json").read_text()


def test_a_cost_curve_that_would_not_end_in_time_is_not_begun(log):
    assert comparison.compute_cost_curve(log, 10, 1, 300 * 120 / comparison.CELLS_A_SECOND - 1e-9, 0) is None


def test_a_handful_of_users_is_no_group_that_fails(look):
    few = [replace(each, n=19, mean=-1.0) for each in look.by_users[:1]]
    said = " ".join(list_findings(replace(look, by_users=[*few, *look.by_users[1:]])))
    assert f"{look.best.name} does worst for " in said
    assert few[0].name not in said


def change_tests(look, **ps):
    """Return the look with p values of the t test and of Wilcoxon's, by model, else both small."""
    rows = []
    for row in look.comparison.rows:
        t_p, wilcoxon_p = ps.get(row.model, (0.01, 0.01))
        paired = replace(row.paired, better=0.2, worse=0.6)
        rows.append(replace(row, t_p_holm=t_p, wilcoxon_p_holm=wilcoxon_p, paired=paired))
    return replace(look, comparison=replace(look.comparison, rows=rows))


def test_how_sure_the_best_is_goes_by_both_tests(look):
    others = [row.model for row in look.comparison.rows]
    first, *_, last = others
    said = list_findings(change_tests(look))[1]
    assert f"its lead over {', '.join(others[:-1])} and {last} is more than chance (5 % level)." in said
    said = list_findings(change_tests(look, PopRank=(0.3, 0.3)))[1]
    assert "(5 % level), that over PopRank may be chance." in said
    assert "A benefit over popularity is not shown here." in said
    said = list_findings(change_tests(look, **{last: (0.01, 0.4)}))[1]
    assert f", that over {last} is more than chance by one of two tests only." in said
    rows = [replace(row, paired=replace(row.paired, better=0.7)) for row in change_tests(look).comparison.rows[:1]]
    said = list_findings(replace(look, comparison=replace(look.comparison, rows=rows)))[1]
    assert f"its lead over {first} is more than chance by one of two tests only." in said


def test_people_are_counted_as_the_lists_find_them(look):
    mine, floor = count_hits(look)
    assert (mine.model, floor.model, mine.of, floor.of) == (look.personal.name, "PopRank", 100, 100)
    assert mine.found == round(100 * look.personal.with_history["hit_rate@10"])
    assert mine.low <= mine.found <= mine.high
    assert list_findings(look)[0].startswith(f"Of 100 people, {mine.found} find something")
    evaluation = look.personal.with_history
    rare = replace(look.personal, evaluation=replace(evaluation, means=evaluation.means | {"hit_rate@10": 0.0042}))
    (few, _) = count_hits(replace(look, personal=rare))
    assert (few.found, few.of) == (4, 1000)


@pytest.fixture(scope="module")
def popular(tmp_path_factory):
    """A look at a log where everybody chooses by popularity alone, in a folder that an earlier run had."""
    rng = np.random.default_rng(0)
    chances = 1 / np.arange(1, 41)
    rows = [(user, item) for user in range(150) for item in rng.choice(40, 8, False, chances / chances.sum())]
    users, items = zip(*rows, strict=True)
    table = {"item": [f"i{k}" for k in range(40)], "title": [f"Title {k}" for k in range(40)]}
    log = csrr.Log.from_table({"user": users, "item": [f"i{item}" for item in items]})
    return csrr.start(log, 2, tmp_path_factory.mktemp("popular"), items=table)


def test_where_popularity_wins_the_best_personal_model_is_kept_too(popular):
    assert popular.best.name == "PopRank"
    assert type(csrr.load(popular.folder / "model.csrr")).__name__ == "PopRank"
    kept = csrr.load(popular.folder / "personal.csrr")
    assert type(kept).__name__ == popular.personal.name != "PopRank"
    assert kept.seen_.nnz == 1200
    assert popular.by_users[0].model == popular.personal.name
    assert "No personal model makes better lists than PopRank, the most popular items" in list_findings(popular)[1]
    assert all("personal.csrr" in each.line for each in list_commands(popular))
    assert "the best personal model" in (popular.folder / "page.html").read_text()
    again = csrr.start(csrr.synthetic(100, 40, rank=3, events_per_user=15).log, 1, popular.folder)
    assert (popular.folder / "personal.csrr").exists() == (again.best.name == "PopRank")


def test_titles_of_an_item_table_are_shown_and_kept(popular):
    assert popular.n_titled == 40
    assert all(item.startswith("Title ") for each in popular.examples for item, _ in each.items)
    assert popular.model.item_table_ is not None
    with pytest.raises(csrr.DataError, match="has none of the 40 items"):
        csrr.start(popular.test.train, 1, items={"item": ["x"], "title": ["y"]})


def test_two_runs_do_not_share_a_folder_and_the_lock_of_a_dead_one_does_not_count(log, tmp_path):
    folder = tmp_path / "look"
    told = []

    def start_another(words):
        if words == "fitting PopRank":
            with pytest.raises(csrr.ParameterError, match="another first look is written there now; wait"):
                csrr.start(log, 1, folder)
            told.append(words)

    csrr.start(log, 1e-6, folder, callback=start_another)
    assert told == ["fitting PopRank"]
    assert (folder / ".lock").exists()
    csrr.start(log, 1e-6, folder)


def test_ids_in_commands_are_such_as_can_be_typed(look):
    users = [replace(look.examples[0], user=user) for user in ("a\x1bb", "x" * 61, "two words")]
    assert list_commands(replace(look, examples=users))[0].line.split(" --user ")[1].startswith("'two words'")
    assert " --user ID" in list_commands(replace(look, examples=users[:2]))[0].line


def test_lists_that_would_best_be_longer_are_told_of(look):
    cheap = [replace(each, cost=100.0 - each.length) for each in look.lists]
    assert "lists of 50 (the longest tried) cost least" in " ".join(list_findings(replace(look, lists=cheap)))
    nothing = [replace(each, cost=100.0 + each.length) for each in look.lists]
    assert "showing nothing costs least" in " ".join(list_findings(replace(look, lists=nothing)))


@pytest.fixture(scope="module")
def in_order(tmp_path_factory):
    """A first look at a log in which what is chosen follows from what came before."""
    log = csrr.synthetic(400, 60, rank=4, events_per_user=12, order=0.7, decay=0.3, noise=0, specific=0, seed=2).log
    return csrr.start(log, 2, tmp_path_factory.mktemp("order") / "look")


def test_the_model_in_order_competes_and_a_sentence_says_what_order_is_worth(in_order):
    results = {each.name: each.with_history for each in in_order.done}
    assert list(results) == [*COMPARED, NEXT]
    assert in_order.best.name == NEXT
    before, after = results["CSRR"]["ndcg@10"], results[NEXT]["ndcg@10"]
    assert after > 1.1 * before
    said = f"Knowing what came last raises the ndcg@10 of CSRR from {before:.4f} to {after:.4f}."
    assert said in in_order.summary()["findings"]
    assert said in (in_order.folder / "page.html").read_text()


def test_what_follows_is_of_the_model_in_order(in_order):
    kept = csrr.load(in_order.folder / "model.csrr")
    assert kept.order == "next"
    assert kept.training_log().is_ordered
    lines = [each.line for each in list_commands(replace(in_order, source="a.csv"))]
    assert "csrr tune a.csv --model csrr -p order=next --minutes 10" in lines
    assert [each.part for each in in_order.learning] == list(HALVES)


def test_of_a_log_without_times_a_command_declares_its_order(in_order):
    timeless = replace(in_order, source="a.csv", facts=replace(in_order.facts, first=None, last=None))
    declare = "csrr start a.csv --ordered"
    assert declare in [each.line for each in list_commands(timeless)]
    for look in (replace(timeless, options="--ordered"), replace(in_order, source="a.csv"), in_order):
        assert declare not in " ".join(each.line for each in list_commands(look))


def test_what_order_is_worth_may_be_nothing_or_less(in_order):
    plain, ordered = (next(each for each in in_order.results if each.name == name) for name in ("CSRR", NEXT))
    swapped = [replace(plain, name=NEXT), replace(ordered, name="CSRR")]
    assert "Knowing what came last lowers the" in " ".join(list_findings(replace(in_order, results=swapped)))
    same = [plain, replace(plain, name=NEXT)]
    assert "changes the" in (said := " ".join(list_findings(replace(in_order, results=same))))
    assert ", which may be chance." in said
    assert "Knowing what came last" not in " ".join(list_findings(replace(in_order, results=[plain])))
