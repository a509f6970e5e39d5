import json

import pytest
from pyarrow import csv, ipc, parquet

import csrr
from tests.cli.conftest import as_json, in_child, in_process


def test_lists_are_those_of_python_ids_being_matched_as_written(model, model_file):
    told = as_json("recommend", model_file, "--user", "7", "--user", "3", "-k", 4)
    assert told["recommendations"] == list(model.recommend([7, 3], 4).rows())


def test_the_table_shows_titles_and_names_users_only_where_there_are_several(model, model_file):
    one = in_process("recommend", model_file, "--user", 7, "-k", 3).stdout
    titles = model.recommend(7, 3).titles[0]
    assert one.splitlines()[0].split() == ["rank", "item", "title", "score"]
    assert [title in line for title, line in zip(titles, one.splitlines()[1:], strict=True)] == [True] * 3
    assert in_process("recommend", model_file, "--user", 7, "--user", 8).stdout.split()[0] == "user"


@pytest.mark.parametrize("history", [["--history", "1,5, 9"], ["--history", "1", "--history", "5,9"]])
def test_someone_new(model, model_file, history):
    told = as_json("recommend", model_file, *history, "-k", 5)["recommendations"]
    assert [row["item"] for row in told] == model.recommend_for([1, 5, 9], 5).items[0].tolist()
    assert {row["user"] for row in told} == {None}


def test_the_choice_of_items(model, model_file):
    mine = model.seen_[[7]].indices.tolist()

    def items(*args):
        return {row["item"] for row in as_json("recommend", model_file, "-k", 60, *args)["recommendations"]}

    assert not items("--user", 7) & set(mine)
    assert items("--user", 7, "--include-seen") == set(model.items_)
    assert items("--user", 7, "--candidate", "1,2", "--candidate", 3, "--include-seen") == {1, 2, 3}
    assert items("--user", 7, "--exclude", 4, "--include-seen") == set(model.items_) - {4}
    assert items("--history", "1,2", "--include-seen", "--candidate", "2,3") == {2, 3}


def test_reasons_are_the_largest_shares_of_the_score(model, model_file):
    told = as_json("recommend", model_file, "--user", 7, "-k", 2, "--explain")["recommendations"]
    for row in told:
        assert row["because"] == model.explain(7, row["item"]).rows()[:3]
    text = in_process("recommend", model_file, "--user", 7, "-k", 2, "--explain").stdout
    assert text.count("because of") == 2
    assert told[0]["because"][0]["title"] in text.splitlines()[2]


def test_ids_of_text_stay_text_and_may_hold_commas(tmp_path):
    table = {"user": ["1", "1", "2", "2", "x"], "item": ["a", "b,c", "a", "d", "7"]}
    csrr.CSRR(threads=1).fit(table).save(tmp_path / "m.csrr")
    told = as_json("recommend", tmp_path / "m.csrr", "--user", "1")["recommendations"]
    assert {row["user"] for row in told} == {"1"}
    told = as_json("recommend", tmp_path / "m.csrr", "--history", "b,c", "--history", "a,7")["recommendations"]
    assert {row["item"] for row in told} == {"d"}


class TestFiles:
    @pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl", "arrow"])
    def test_all_users_in_a_file(self, model, model_file, tmp_path, suffix):
        path = tmp_path / f"recs.{suffix}"
        assert as_json("recommend", model_file, "--all-users", "-o", path, "-k", 3) == {
            "output": str(path),
            "n_users": 80,
            "n_fallback": 0,
            "k": 3,
        }
        readers = {
            "csv": lambda: csv.read_csv(path).to_pylist(),
            "parquet": lambda: parquet.read_table(path).to_pylist(),
            "arrow": lambda: ipc.open_file(path).read_all().to_pylist(),
            "jsonl": lambda: [json.loads(line) for line in path.read_text().splitlines()],
        }
        expected = list(model.recommend(k=3).rows())
        read = readers[suffix]()
        assert [row["item"] for row in read] == [row["item"] for row in expected]
        assert [row["score"] for row in read] == pytest.approx([row["score"] for row in expected])
        assert list(tmp_path.iterdir()) == [path]

    def test_some_users_in_a_file(self, model_file, tmp_path):
        result = in_process("recommend", model_file, "--user", 7, "-o", tmp_path / "r.csv", "-k", 2)
        assert result.exit_code == 0
        assert len((tmp_path / "r.csv").read_text().splitlines()) == 3


STOPPED = """
import os, signal
import csrr.models.base as lists
from csrr.results.recommendations import Recommendations
lists.BATCH_ROWS, plain, told = 35, Recommendations.to_arrow, []
def to_arrow(self):
    told.append(len(self))
    if len(told) == 3: os.kill(os.getpid(), signal.SIGINT)
    return plain(self)
Recommendations.to_arrow = to_arrow
"""


@pytest.mark.parametrize("old", [None, b"an old file"])
def test_ctrl_c_between_batches_leaves_the_file_as_it_was(model_file, tmp_path, old):
    path = tmp_path / "recs.csv"
    if old is not None:
        path.write_bytes(old)
    done = in_child("recommend", model_file, "--all-users", "-k", 5, "-o", path, before=STOPPED)
    assert (done.returncode, done.stderr) == (130, "interrupted: nothing was written\n")
    assert list(tmp_path.iterdir()) == ([] if old is None else [path])
    assert old is None or path.read_bytes() == old


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "give one of --user, --history and --all-users"),
        (("--user", 7, "--all"), "give one of"),
        (("--all",), "--all-users needs a file"),
        (("--user", 7, "-o", "recs.txt"), "must end in .csv, .parquet, .jsonl or .arrow"),
        (("--history", 1, "--explain"), "--explain goes with --user"),
        (("--user", 7, "-k", 0), "'-k'"),
        (("--user", 999), "unknown user id: 999"),
        (("--user", "bob"), "unknown user id: 'bob' (ids are integers)"),
        (("--history", "1,999"), "unknown item id: 999"),
        (("--user", 7, "--candidate", "x"), "unknown item id: 'x'"),
        (("--user", 7, "-o", "/no/such/recs.csv"), "there is no such folder"),
    ],
)
def test_what_cannot_be_asked(model_file, args, message):
    result = in_process("recommend", model_file, *args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_popularity_cannot_explain(log, tmp_path):
    csrr.PopRank().fit(log).save(tmp_path / "pop.csrr")
    result = in_process("recommend", tmp_path / "pop.csrr", "--user", 7, "--explain")
    assert (result.exit_code, "PopRank does not explain; these do: CSRR, CSRRe, WRMF, " in result.stderr) == (2, True)
    assert "PopRank" not in result.stderr.split("these do")[1]
    for args in (("--user", 7), ("--history", 1)):
        assert in_process("recommend", tmp_path / "pop.csrr", *args).exit_code == 0


class TestWhatIsNotKnown:
    @pytest.fixture(scope="class")
    @classmethod
    def cold(cls, tmp_path_factory):
        """A model of which user 5 has no events."""
        clicks = csrr.synthetic(80, 60, rank=4, events_per_user=10).log.to_csr().toarray()
        clicks[5] = 0
        path = tmp_path_factory.mktemp("cold") / "m.csrr"
        csrr.EASE(reg=10, threads=1).fit(clicks).save(path)
        return path

    def test_users_without_a_history_are_marked_and_counted_in_one_line(self, cold):
        result = in_process("recommend", cold, "--user", 5, "--user", 7, "-k", 3)
        assert result.exit_code == 0
        assert result.stderr == "csrr: 1 of 2 users has no history and gets popular items\n"
        lines = result.stdout.splitlines()
        assert lines[0].split()[-1] == "why"
        assert [line.split()[-1] == "popular" for line in lines[1:]] == [True] * 3 + [False] * 3

    def test_json_says_who_and_how_many(self, cold):
        told = json.loads(in_process("recommend", cold, "--user", 5, "--user", 7, "-k", 2, "--json").stdout)
        assert told["n_fallback"] == 1
        assert [row["why"] for row in told["recommendations"]] == ["popular", "popular", None, None]

    def test_files_say_why(self, cold, tmp_path):
        result = in_process("recommend", cold, "--all", "-k", 2, "-o", tmp_path / "r.csv")
        assert result.stderr.startswith("csrr: 1 of 80 users has no history")
        rows = csv.read_csv(tmp_path / "r.csv").to_pylist()
        assert {row["user"] for row in rows if row["why"] == "popular"} == {5}

    def test_unknown_ids_are_left_out_on_request(self, cold):
        args = ("--user", 7, "--user", "bob", "--candidate", "1,2,999", "--exclude", "x", "--unknown", "ignore")
        result = in_process("recommend", cold, *args)
        assert result.exit_code == 0
        assert result.stderr.splitlines() == [
            "csrr: unknown ids were left out: 1 of 3 in candidates, 1 of 1 in exclude",
            "csrr: 1 of 2 users has no history (1 unknown) and gets popular items",
        ]

    @pytest.mark.parametrize("history", ["", "999,1000"])
    def test_a_history_of_nothing_known(self, cold, history):
        result = in_process("recommend", cold, "--history", history, "--unknown", "ignore", "-k", 3, "--json")
        assert json.loads(result.stdout)["n_fallback"] == 1
        assert "1 of 1 user has no history" in result.stderr

    def test_there_is_no_reason_for_what_is_popular(self, cold):
        result = in_process("recommend", cold, "--user", 5, "--user", 7, "-k", 2, "--explain")
        assert result.stdout.count("because of") == 2
        assert result.exit_code == 0

    def test_the_error_names_the_option(self, cold):
        result = in_process("recommend", cold, "--user", 999)
        assert (result.exit_code, "--unknown='ignore'" in result.stderr) == (2, True)
        assert in_process("recommend", cold, "--user", 7, "--unknown", "drop").exit_code == 2
