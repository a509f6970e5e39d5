import re
from dataclasses import dataclass

import pytest

import csrr
from csrr._base.progress import Line
from csrr.cli.options import KINDS, fit_model, list_kinds
from csrr.numerics.solver import Step
from csrr.registry import MODELS
from tests.cli.conftest import as_json, in_process, write_log


def fit(log_file, output, *args):
    return in_process("fit", log_file, "-o", output, "--threads", 1, *args)


def test_the_file_holds_the_model_that_python_fits(log, log_file, tmp_path):
    facts = as_json("fit", log_file, "-o", tmp_path / "m.csrr", "--threads", 1, "--cost-ratio", 3, "--seed", 5)
    loaded = csrr.load(tmp_path / "m.csrr")
    same = csrr.CSRR(cost_ratio=3.0, seed=5, threads=1).fit(csrr.read(log_file))
    assert loaded.get_params() == same.get_params() == facts["params"]
    assert loaded.score(7).tolist() == same.score(7).tolist()
    assert (facts["n_users"], facts["n_items"], facts["n_events"]) == (80, log.n_items, len(log))
    assert facts["certificate"]["primal"] == loaded.certificate_.primal
    assert facts["bytes"] == (tmp_path / "m.csrr").stat().st_size


def test_several_numbers_of_a_parameter_are_a_list(log_file, tmp_path):
    for args in (("-p", "decay=0.5,0.9"), ("-p", "decay=[0.5, 0.9]"), ("--decay", "0.5,0.9")):
        told = as_json("fit", log_file, "-o", tmp_path / "m.csrr", "--threads", 1, *args)
        assert told["params"]["decay"] == [0.5, 0.9]


def test_it_says_the_certificate_and_no_progress_in_a_pipe(log_file, tmp_path):
    result = fit(log_file, tmp_path / "m.csrr")
    assert result.stdout.splitlines()[-1] == str(csrr.load(tmp_path / "m.csrr").certificate_)
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("--loss=II", "loss", "II"),
        ("--positive-cost=0.7", "positive_cost", 0.7),
        ("--reg-low-rank=0.3", "reg_low_rank", 0.3),
        ("--reg-low-rank=auto", "reg_low_rank", "auto"),
        ("--reg-sparse=1", "reg_sparse", 1.0),
        ("--user-scaling=0", "user_scaling", 0.0),
        ("--item-scaling=0.5", "item_scaling", 0.5),
        ("--reg-low-rank=noise", "reg_low_rank", "noise"),
        ("--reg-sparse=auto", "reg_sparse", "auto"),
        ("--neighbors=4", "neighbors", 4),
        ("--neighbors=auto", "neighbors", "auto"),
        ("--reg-neighbors=2.5", "reg_neighbors", 2.5),
        ("--max-rank=2", "max_rank", 2),
        ("--max-rank=auto", "max_rank", "auto"),
        ("--tol=0.1", "tol", 0.1),
        ("--max-iter=3", "max_iter", 3),
        ("--time-limit=9", "time_limit", 9.0),
        ("--engine=threads", "engine", "threads"),
    ],
)
def test_an_option_is_the_parameter_of_its_name(log_file, tmp_path, option, name, value):
    params = as_json("fit", log_file, "-o", tmp_path / "m.csrr", "--threads", 1, option)["params"]
    assert params == csrr.CSRR(**{name: value}, threads=1).get_params()


def test_it_says_what_was_chosen(tmp_path):
    made = csrr.synthetic(400, 80, rank=3, events_per_user=12).log
    path = write_log(tmp_path / "log.csv", made)
    result = fit(path, tmp_path / "m.csrr")
    chosen = csrr.load(tmp_path / "m.csrr").chosen_
    assert chosen.note in result.stdout.splitlines()
    assert re.search(r"chosen on \d+ held-out events of \d+ users: strength [\d.]+ x noise, .* neighbors", chosen.note)
    facts = as_json("fit", path, "-o", tmp_path / "n.csrr", "--threads", 1)["chosen"]
    assert facts["settings"] == chosen.settings._asdict()
    assert len(facts["tried"]) == len(chosen) > 3


def test_a_small_log_goes_by_rule_and_says_so(log_file, tmp_path):
    assert any(
        line.startswith("by rule: too few of 80 users")
        for line in fit(log_file, tmp_path / "m.csrr").stdout.splitlines()
    )


@pytest.mark.parametrize("option", ["--neighbors=-1", "--neighbors=2.5", "--neighbors=some", "--reg-neighbors=-2"])
def test_bad_neighbours_are_refused(log_file, tmp_path, option):
    result = fit(log_file, tmp_path / "m.csrr", option)
    assert result.exit_code == 2
    assert "neighbors" in result.stderr
    assert not (tmp_path / "m.csrr").exists()


def test_miss_cost_and_false_alarm_cost_go_together(log_file, tmp_path):
    costs = ("--miss-cost", 6, "--false-alarm-cost", 2)
    facts = as_json("fit", log_file, "-o", tmp_path / "m.csrr", "--threads", 1, *costs)
    assert facts["costs"].startswith("a miss costs 3 false alarms (as given); clicks weigh")
    weighed = as_json("fit", log_file, "-o", tmp_path / "n.csrr", "--threads", 1, *costs, "--cost-ratio", 3)
    ratio = as_json("fit", log_file, "-o", tmp_path / "n.csrr", "--threads", 1, "--cost-ratio", 3)
    assert weighed["certificate"]["primal"] == pytest.approx(ratio["certificate"]["primal"])


class TestReading:
    def read(self, tmp_path, text, *args):
        (tmp_path / "odd.txt").write_text(text)
        path = tmp_path / "m.csrr"
        result = fit(tmp_path / "odd.txt", path, *args)
        assert result.exit_code == 0, result.stderr
        return csrr.load(path)

    def test_no_header_and_positions(self, tmp_path):
        model = self.read(
            tmp_path,
            "9;a;1\n9;b;2\n8;a;1\n",
            "--no-header",
            "--separator",
            ";",
            "--user-column=1",
            "--item-column=0",
        )
        assert list(model.users_) == ["a", "b"]
        assert list(model.items_) == [8, 9]

    def test_names_a_tab_and_least_rating(self, tmp_path):
        text = "x\ty\tz\n1\t10\t5\n2\t10\t2\n2\t11\t3\n"
        columns = (
            "--user-column=x",
            "--item-column=y",
            "--rating-column=z",
            "--separator=\\t",
            "--min-rating=3",
        )
        model = self.read(tmp_path, text, *columns)
        assert model.seen_.nnz == 2

    def test_least_weight_and_a_column_left_out(self, tmp_path):
        text = "user,item,count\n1,10,5\n2,10,2\n2,11,3\n"
        assert self.read(tmp_path, text, "--weight-column=count", "--min-weight=3").seen_.nnz == 2
        assert self.read(tmp_path, text, "--weight-column=none").seen_.nnz == 3

    def test_a_format_can_be_named(self, tmp_path):
        assert list(self.read(tmp_path, "1 10 11\n2 10\n", "--format=user-lists").users_) == [1, 2]


class TestTheOutput:
    def test_a_model_is_written_over(self, log_file, tmp_path):
        for seed in (1, 2):
            assert fit(log_file, tmp_path / "m.csrr", "--seed", seed).exit_code == 0
        assert csrr.load(tmp_path / "m.csrr").seed == 2

    def test_the_log_itself_is_not_unless_forced(self, log_file, tmp_path):
        copy = tmp_path / "log.csv"
        copy.write_bytes(log_file.read_bytes())
        result = fit(copy, copy)
        assert result.exit_code == 2
        assert "exists and is no model" in result.stderr
        assert copy.read_bytes() == log_file.read_bytes()
        assert fit(log_file, copy, "--force").exit_code == 0
        assert csrr.load(copy).users_ == csrr.read(log_file).users

    @pytest.mark.parametrize(
        ("place", "message"),
        [("no/such/m.csrr", "there is no such folder"), (".", "is a folder"), ("/proc/m.csrr", "cannot write")],
    )
    def test_a_place_that_cannot_be_written_is_refused_before_the_log_is_read(self, tmp_path, place, message):
        result = fit("no-such-log", tmp_path / place)
        assert result.exit_code == 2
        assert message in result.stderr.lower()
        assert "no-such-log" not in result.stderr


class TestOtherModels:
    @pytest.mark.parametrize("name", sorted(MODELS))
    def test_every_model_is_fitted_by_its_name(self, log_file, tmp_path, name):
        facts = as_json("fit", log_file, "-o", tmp_path / "m.csrr", "--model", name)
        same = MODELS[name]().fit(csrr.read(log_file))
        loaded = csrr.load(tmp_path / "m.csrr")
        assert type(loaded) is MODELS[name]
        assert facts["kind"] == name
        assert facts["seconds"] > 0
        assert (facts["certificate"] is not None) == hasattr(same, "certificate_")
        assert loaded.recommend(k=3).items.tolist() == same.recommend(k=3).items.tolist()

    @pytest.mark.parametrize("name", ["ItemKNN", "item-knn", "itemknn", "ITEM_KNN"])
    def test_names_in_any_case_with_or_without_hyphens(self, log_file, tmp_path, name):
        assert as_json("fit", log_file, "-o", tmp_path / "m", "--model", name)["kind"] == "ItemKNN"

    def test_the_names_listed_are_names(self):
        assert list_kinds()["item-knn"] is csrr.ItemKNN
        assert "pop-rank" in list_kinds()
        assert list_kinds()["ease"] is csrr.EASE
        assert all(MODELS.find(name) is kind for name, kind in list_kinds().items())
        assert len(list_kinds()) == len(MODELS)
        assert tuple(list_kinds()) == KINDS

    def test_parameters_are_json_or_text(self, log_file, tmp_path):
        values = ("-p", "neighbors=7", "-p", "similarity=jaccard", "--param", "shrink = 2.5", "-p", "bm25-k1=3")
        facts = as_json("fit", log_file, "-o", tmp_path / "m", "--model", "item-knn", *values, "--threads", 1)
        expected = csrr.ItemKNN(7, similarity="jaccard", shrink=2.5, bm25_k1=3, threads=1)
        assert facts["params"] == expected.get_params()

    def test_parameters_of_csrr_too(self, log_file, tmp_path):
        facts = as_json("fit", log_file, "-o", tmp_path / "m", "--threads", 1, "-p", "max_rank=null", "-p", "loss=II")
        assert facts["params"] == csrr.CSRR("II", max_rank=None, threads=1).get_params()

    def test_without_a_certificate_it_says_users_items_and_seconds(self, log_file, tmp_path):
        lines = in_process("fit", log_file, "-o", tmp_path / "m", "--model", "ease").stdout.splitlines()
        assert "80 users x 60 items" in lines[0]
        assert re.fullmatch(r"EASE, fitted in \d+\.\d\d s", lines[1])

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (
                ("--model", "eaze"),
                "--model eaze: there is no such model; did you mean ease?",
            ),
            (
                ("--model", "ease", "--cost-ratio", 2),
                "--cost-ratio: EASE has no such parameter; it has reg, dtype, threads",
            ),
            (("--model", "ease", "--seed", 2), "--seed: EASE has no such parameter"),
            (("--model", "poprank", "--threads", 1), "PopRank has no such parameter; it has none"),
            (("--model", "ease", "-p", "rank=3"), "-p rank=3: EASE has no such parameter; it has reg, dtype, threads"),
            (("-p", "tol"), "-p tol: write NAME=VALUE"),
            (("-p", "tol=0.1", "--tol", 0.2), "tol is given twice"),
            (("-p", "tol=0.1", "-p", "tol=0.2"), "tol is given twice"),
            (("--model", "ease", "-p", "reg=much"), "reg='much' must be a number > 0"),
            (("--model", "item-knn", "-p", "neighbors=[1]"), "neighbors=[1] must be a whole number"),
        ],
    )
    def test_what_cannot_be_fitted(self, log_file, tmp_path, args, message):
        result = in_process("fit", log_file, "-o", tmp_path / "m", *args)
        assert result.exit_code == 2
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
        assert not list(tmp_path.iterdir())

    def test_a_wrong_name_lists_the_right_ones(self, log_file, tmp_path):
        told = in_process("fit", log_file, "-o", tmp_path / "m", "--model", "forest").stderr
        assert told.split("there are ")[1].split("; see")[0].split(", ") == list(list_kinds())

    def test_the_steps_of_any_model_can_be_shown(self, log, monkeypatch):
        class Told(csrr.PopRank):
            def fit(self, data, *, callback):
                callback(Epoch(3, 0.25))
                return super().fit(data)

        @dataclass
        class Epoch:
            number: int
            value: float

        shown = []
        monkeypatch.setattr(Line, "show", lambda self, text, now=True: shown.append(text))
        fit_model(Told(), log, Line())
        assert shown == ["number 3  value 0.25"]

    @pytest.mark.parametrize(("gap", "told"), [(0.25, "gap 2.5e-01"), (float("nan"), "objective 7.5")])
    def test_a_step_shows_the_gap_or_without_one_the_objective(self, gap, told, monkeypatch):
        shown = []
        monkeypatch.setattr(Line, "show", lambda self, text, now=True, done=None: shown.append(text))
        Line().step(Step(3, 7.5, gap, 2, 0.1))
        assert shown == [f"iteration 3  {told}  rank 2  0.1 s"]


def test_a_number_may_begin_with_its_point(log_file, tmp_path):
    in_process("fit", log_file, "-o", tmp_path / "m.csrr", "-p", "recall_weight=.5", "-p", "user_scaling=.25")
    assert csrr.load(tmp_path / "m.csrr").get_params()["recall_weight"] == 0.5
    assert csrr.load(tmp_path / "m.csrr").user_scaling == 0.25


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--resume",), "--scheduler, --work and --resume go with --engine dask"),
        (("--engine", "dask", "--resume"), "no folder of an interrupted fit"),
        (("--engine", "dask", "--min-rating", 3), "is for logs that one machine reads"),
        (("--engine", "dask", "--scheduler", "tcp://127.0.0.1:1"), "no Dask scheduler answers"),
    ],
)
def test_what_many_machines_cannot(args, said, tmp_path):
    pytest.importorskip("distributed")
    (tmp_path / "events").mkdir()
    done = in_process("fit", tmp_path / "events", "-o", tmp_path / "m.csrr", *args)
    assert done.exit_code == 2
    assert said in done.stderr
