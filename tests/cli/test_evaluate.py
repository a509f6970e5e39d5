import numpy as np
import pytest

import csrr
from tests.cli.conftest import as_json, in_process


def parts(log_file, **kwargs):
    return csrr.split(csrr.read(log_file), **kwargs)


def expected(train, test, at=(5, 10, 20)):
    models = {"CSRR": csrr.CSRR(threads=1).fit(train), "PopRank": csrr.PopRank().fit(train)}
    return {name: csrr.evaluate(model, train, test, at=at).summary() for name, model in models.items()}


@pytest.mark.parametrize(
    ("args", "split"),
    [
        ((), {"ratio": 0.8, "seed": 0}),
        (("--ratio", 0.6), {"ratio": 0.6}),
        (("--last", 2), {"last": 2}),
        (("--split", "user"), {"ratio": 0.8}),
        (("--split", "last", "--ratio", 0.7), {"by": "last", "ratio": 0.7}),
        (("--split", "time"), {"by": "time"}),
        (("--at", 30000), {"at": 30000}),
    ],
)
def test_the_numbers_are_those_of_python(log_file, args, split):
    train, test = parts(log_file, **split)
    told = as_json("evaluate", log_file, "--threads", 1, *args)
    assert told["models"] == expected(train, test)
    assert (told["n_train"], told["n_test"]) == (len(train), len(test))
    certificate = csrr.CSRR(threads=1).fit(train).certificate_.to_dict()
    assert told["certificate"] | {"seconds": 0} == certificate | {"seconds": 0}


def test_the_seed_decides_the_split(log_file):
    told = as_json("evaluate", log_file, "--threads", 1, "--seed", 3)
    train, test = parts(log_file, ratio=0.8, seed=3)
    assert told["models"]["PopRank"] == expected(train, test)["PopRank"]


def test_the_table_has_a_line_a_metric_and_a_column_a_model(log_file):
    result = in_process("evaluate", log_file, "--threads", 1, "-k", 10, "-k", 3)
    lines = result.stdout.splitlines()
    assert lines[1].split() == ["CSRR", "PopRank"]
    means = as_json("evaluate", log_file, "--threads", 1, "-k", 3, "-k", 10)["models"]
    line = next(line for line in lines if line.startswith("ndcg@3 ")).split()
    halves = [np.diff(means[name]["intervals"]["ndcg@3"])[0] / 2 for name in ("CSRR", "PopRank")]
    values = [means[name]["means"]["ndcg@3"] for name in ("CSRR", "PopRank")]
    assert line[1:] == f"{values[0]:.4f} ± {halves[0]:.4f} {values[1]:.4f} ± {halves[1]:.4f}".split()
    assert not any("@5" in line for line in lines)


def test_several_models_are_fitted_to_one_split_and_tested_against_the_first(log_file):
    train, test = parts(log_file, ratio=0.8)
    models = {"EASE": csrr.EASE(), "ItemKNN": csrr.ItemKNN(2), "PopRank": csrr.PopRank()}
    found = {name: csrr.evaluate(model.fit(train), train, test, at=(3, 10)) for name, model in models.items()}
    args = ("--model", "ease", "--model", "item-knn", "-k", 10, "-k", 3, "-p", "neighbors=2", "--threads", 1)
    told = as_json("evaluate", log_file, *args)
    assert told["models"] == {name: each.summary() for name, each in found.items()}
    comparison = csrr.compare(found, "ndcg@10", baseline="EASE")
    assert told["comparison"] == comparison.summary()
    lines = in_process("evaluate", log_file, *args).stdout.splitlines()
    assert lines[1].split() == ["EASE", "ItemKNN", "PopRank"]
    assert "\n".join(lines).endswith(f"\n\n{comparison!r}")


def test_metrics_and_their_costs(log_file):
    train, test = parts(log_file, ratio=0.8)
    args = ("--metric", "map", "--metric", "cost", "--threshold", 0.2, "--miss-weight", 0.8, "--threads", 1)
    told = as_json("evaluate", log_file, *args)
    measured = {"at": (5, 10, 20), "metrics": ["map", "cost"], "threshold": 0.2, "positive_cost": 0.8}
    model = csrr.CSRR(threads=1).fit(train)
    assert told["models"]["CSRR"] == csrr.evaluate(model, train, test, **measured).summary()
    assert told["comparison"] is None
    told = as_json("evaluate", log_file, *args, "--model", "ease")
    assert told["models"]["EASE"] == csrr.evaluate(csrr.EASE().fit(train), train, test, **measured).summary()


def test_a_fitted_model_can_be_measured_at_another_cost(log_file, tmp_path):
    train, test = parts(log_file, ratio=0.8)
    model = csrr.EASE().fit(train)
    model.save(tmp_path / "m.csrr")
    told = as_json("evaluate", log_file, "--model", tmp_path / "m.csrr", "--metric", "cost", "--miss-weight", 0.9)
    expected = csrr.evaluate(model, train, test, at=(5, 10, 20), metrics=["cost"], positive_cost=0.9)
    assert told["models"]["EASE"]["means"] == expected.means


def test_every_certificate_is_shown(log_file):
    args = ("--model", "csrr", "--model", "csrr-e", "--model", "ease", "--cost-ratio", 3, "--threads", 1)
    lines = in_process("evaluate", log_file, *args).stdout.splitlines()
    assert [line.split(":")[0] for line in lines if "optimum" in line] == ["CSRR", "CSRRe"]
    assert as_json("evaluate", log_file, *args)["certificate"]["status"] == "converged"


def write(path, log, mask):
    table = log.select(mask).to_arrow().select(["user", "item"]).to_pylist()
    path.write_text("user,item\n" + "".join(f"{row['user']},{row['item']}\n" for row in table))
    return path


def test_another_log_is_the_test_less_what_the_first_does_not_know(log, log_file, tmp_path):
    train, test = parts(log_file, ratio=0.7)
    first = write(tmp_path / "train.csv", train, train.user_rows >= 0)
    second = write(tmp_path / "other.csv", test, test.user_rows >= 0)
    second.write_text(second.read_text() + "7,9999\n9999,7\n")
    told = as_json("evaluate", first, "--test", second, "--threads", 1)
    known = csrr.read(first)
    left = [item in known.items for item in test.items.ids[test.item_rows].tolist()]
    assert told["n_test"] == sum(left)
    assert told["n_test_left_out"] == len(left) - sum(left) + 2


def test_a_model_is_tested_on_what_it_has_not_seen(log_file, tmp_path):
    train, test = parts(log_file, ratio=0.8)
    csrr.CSRR(threads=1).fit(train).save(tmp_path / "m.csrr")
    told = as_json("evaluate", log_file, "--model", tmp_path / "m.csrr", "--threads", 1)
    assert told["models"] == expected(train, test)
    assert told["n_test_left_out"] == len(train)


@pytest.mark.parametrize("kind", [csrr.EASE, csrr.ItemKNN, csrr.PopRank])
def test_other_models_by_name_or_from_a_file(log_file, tmp_path, kind):
    train, test = parts(log_file, ratio=0.8)
    model = kind().fit(train)
    model.save(tmp_path / "m.csrr")
    means = csrr.evaluate(model, train, test, at=(5, 10, 20)).summary()
    for args in (("--model", kind.__name__.lower(), "--threads", 1, "--seed", 0), ("--model", tmp_path / "m.csrr")):
        told = as_json("evaluate", log_file, *args)
        assert told["models"][kind.__name__] == means
        assert told["certificate"] is None


def test_parameters_of_a_model_that_is_fitted(log_file):
    train, test = parts(log_file, ratio=0.8)
    told = as_json("evaluate", log_file, "--model", "item-knn", "-p", "neighbors=2")
    assert told["models"]["ItemKNN"] == csrr.evaluate(csrr.ItemKNN(2).fit(train), train, test).summary()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--model", "none.csrr"), "there is no model file none.csrr; csrr fit LOG -o none.csrr makes one"),
        (("--model", "forest"), "--model forest: there is no such file, nor such a kind of model; there are csrr, "),
        (("--model", "eaze"), "--model eaze: there is no such file, nor such a kind of model; did you mean ease?"),
        (("--model", "m.csrr", "-p", "reg=3"), "-p reg=3 is for fitting"),
        (("--model", "ease", "--cost-ratio", 2), "--cost-ratio: EASE has no such parameter"),
        (("--ratio", 0.5, "--last", 2), "--ratio and --last do not go together"),
        (("--split", "time", "--last", 2), "--split time and --last do not go together"),
        (("--split", "last", "--test", "other.csv"), "--test and --split last do not go together"),
        (("--model", "m.csrr", "--test", "x.csv"), "--model and --test do not go together"),
        (("--model", "m.csrr", "--cost-ratio", 2), "--cost-ratio is for fitting"),
        (("--ratio", 1.5), "--ratio=1.5 must be a number > 0 and < 1"),
        (("--at", "soon"), "'soon' is not a time"),
        (("-k", 61), "there are only 60 items"),
        (("--metric", "mean"), "--metric mean: there is no such metric; there are precision, recall"),
        (("--miss-weight", 1.5), "'--miss-weight': 1.5 is not in the range 0<=x<=1"),
        (("--threshold", "nan"), "error: --threshold=nan must be a number"),
        (("--model", "ease", "--model", "wrmf", "-p", "reg"), "-p reg: write NAME=VALUE"),
        (("--model", "ease", "--model", "EASE"), "--model names the same kind twice"),
        (("--model", "ease", "--model", "m.csrr"), "--model m.csrr: several models must be kinds to fit"),
        (("--model", "ease", "--model", "wrmf", "--loss", "I"), "--loss: none of the models has such a parameter"),
        (("--model", "ease", "--model", "wrmf", "-p", "k=2"), "-p k=2: none of the models has such a parameter"),
    ],
)
def test_what_cannot_be_asked(log_file, args, message):
    result = in_process("evaluate", log_file, *args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("args", [("--threshold", "nan"), ("--metric", "mean"), ("--miss-weight", 1.5)])
def test_what_cannot_be_measured_is_refused_before_the_log_is_read(tmp_path, args):
    result = in_process("evaluate", tmp_path / "none.csv", *args)
    assert args[0] in result.stderr
    assert "none.csv" not in result.stderr


def test_nothing_left_to_ask_is_an_error(log_file, model_file):
    result = in_process("evaluate", log_file, "--model", model_file)
    assert (result.exit_code, "nothing to evaluate" in result.stderr) == (2, True)


def test_users_without_a_history_are_told_apart(tmp_path):
    rows = [f"{user},{item},{10 * user + item}" for user in range(30) for item in range(user % 5, 20, 3)]
    late = [f"{user},{item},{1000 + user}" for user in range(26, 36) for item in (1, 19, 8)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["user,item,timestamp", *rows, *late]) + "\n")
    args = ("evaluate", path, "--at", 1000, "--model", "ease", "-p", "reg=5", "-k", 3, "--metric", "ndcg")
    told = as_json(*args)["models"]
    for name in ("EASE", "PopRank"):
        assert told[name]["n_without_history"] == 6
        assert told[name]["by_history"]["without"]["n_users"] == 6
        assert told[name]["by_history"]["with"]["n_users"] == told[name]["n_users"] - 6
    text = in_process(*args).stdout
    assert "6 of 10 users have no training events and get the same popular items" in text
    assert "with training events: mean over 4 users" in text
    assert "without training events: mean over 6 users" in text


def test_the_last_item_is_judged_by_the_metrics_of_next_items(log_file):
    found = as_json("evaluate", log_file, "--model", "item-knn", "--split", "last", "-k", 10)["models"]["ItemKNN"]
    train, test = parts(log_file, by="last")
    model = csrr.ItemKNN().fit(train)
    wanted = csrr.evaluate(model, train, test, at=10, metrics=["hit_rate", "ndcg", "full_mrr"]).summary()
    assert found == wanted


def test_rolling_is_that_of_python(log_file, tmp_path):
    args = ("evaluate", log_file, "--rolling", "--model", "item-knn", "--metric", "recall", "-k", 5)
    found = csrr.evaluate_rolling("item-knn", csrr.read(log_file), metric="recall@5")
    assert as_json(*args)["models"]["ItemKNN"] == found.summary()
    told = in_process(*args, "--model", "pop-rank").stdout
    assert repr(found) in told
    assert found.recommendation in told
    assert in_process(*args, "--plot", tmp_path / "ages.svg").exit_code == 0
    assert "How ItemKNN ages" in (tmp_path / "ages.svg").read_text()


def test_times_of_loading_are_told(tmp_path):
    rows = [f"{user},{(user + 7 * k) % 40},{user}" for user in range(60) for k in range(8)]
    (tmp_path / "loaded.csv").write_text("\n".join(["user,item,time", *rows]))
    for way in (("--split", "last"), ("--rolling",)):
        told = in_process("evaluate", tmp_path / "loaded.csv", *way, "--model", "pop-rank").stderr
        assert "most of their events at one time" in told
        assert "(--time-column=none), with --ordered where rows are in order" in told
    args = ("--ordered", "--time-column", "none", "--split", "last", "--model", "pop-rank")
    result = in_process("evaluate", tmp_path / "loaded.csv", *args)
    assert "rows in order" in result.result.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--rolling", "--ratio", 0.5), "--ratio and --rolling do not go together"),
        (("--rolling", "--test", "other.csv"), "--test and --rolling do not go together"),
        (("--every", "30d"), "--every goes with --rolling"),
        (("--fold-in",), "--fold-in goes with --rolling"),
        (("--rolling", "--every", "soon"), "--every='soon'"),
        (("--rolling", "--at", "1900-01-01"), "--at='1900-01-01' must lie within"),
        (("--rolling", "--plot", "a.svg", "--model", "ease", "--model", "pop-rank"), "--plot draws one model"),
    ],
)
def test_what_does_not_go_with_rolling(log_file, args, words):
    result = in_process("evaluate", log_file, *args)
    assert (result.exit_code, words in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    "command", [("evaluate", "--model", "item-knn"), ("tune", "--model", "pop-rank", "--trials", 1)]
)
def test_times_of_loading_are_told_in_a_line(tmp_path, command):
    file = tmp_path / "log.csv"
    file.write_text("user,item,time\n" + "".join(f"{user},{item},5\n" for user in range(9) for item in range(user, 12)))
    told = in_process(command[0], file, "--split", "last", *command[1:])
    assert told.exit_code == 0
    assert "csrr: 100% of the users have most of their events at one time" in told.stderr
    assert "leave times out (--time-column=none)" in told.stderr
    assert "Warning" not in told.stderr


def test_cold_items_are_known_by_the_item_table(tmp_path):
    kinds = np.arange(120) % 8
    rng, lines = np.random.default_rng(0), ["user,item"]
    for user in range(200):
        mine = np.flatnonzero(kinds == user % 8)
        lines += [f"{user},{item}" for item in rng.choice(mine, 8, replace=False)]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "tags.csv").write_text("item,tag\n" + "".join(f"{i},kind {kinds[i]}\n" for i in range(120)))
    words = ["evaluate", tmp_path / "log.csv", "--cold-items", "0.1", "--metric", "ndcg", "-k", 3]
    found = as_json(*words, "--items", tmp_path / "tags.csv")
    ndcg = {name: each["means"]["ndcg@3"] for name, each in found["among_hidden"].items()}
    assert found["n_hidden_items"] == 12
    assert ndcg["CSRR"] > 0.9 > ndcg["PopRank"]
    assert "do not go together" in in_process(*words, "--last", 1).stderr
