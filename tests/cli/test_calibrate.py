import json

import numpy as np
import pytest

import csrr
from tests.cli.conftest import as_json, in_process, write_log


@pytest.fixture(scope="module")
def parts(log, tmp_path_factory):
    """The files of a model fitted to a part of the log, and of the rest."""
    folder = tmp_path_factory.mktemp("parts")
    train, rest = csrr.split(log, ratio=0.7, seed=0)
    csrr.CSRR(threads=1).fit(train).save(folder / "model.csrr")
    return folder / "model.csrr", write_log(folder / "rest.csv", rest)


@pytest.fixture(scope="module")
def calibrated(parts, tmp_path_factory):
    path = tmp_path_factory.mktemp("calibrated") / "model.csrr"
    assert in_process("calibrate", *parts, "-o", path).exit_code == 0
    return path


def test_the_model_is_written_with_what_python_learns(parts, calibrated):
    model = csrr.load(parts[0])
    expected = model.calibrate(csrr.read(parts[1]))
    assert csrr.load(calibrated).calibration_.probabilities.tolist() == expected.probabilities.tolist()
    assert csrr.load(parts[0]).calibration_ is None


def test_the_model_may_be_written_over(parts, tmp_path):
    (tmp_path / "m.csrr").write_bytes(parts[0].read_bytes())
    assert in_process("calibrate", tmp_path / "m.csrr", parts[1], "-o", tmp_path / "m.csrr").exit_code == 0
    assert csrr.load(tmp_path / "m.csrr").calibration_ is not None


def test_what_it_prints(parts, tmp_path):
    args = "calibrate", *parts, "-o", tmp_path / "m.csrr", "--miss", 5, "--false-alarm", 1
    told = as_json(*args)
    calibration = csrr.load(tmp_path / "m.csrr").calibration_
    assert told["n_cells"] == calibration.n_cells.sum()
    assert told["n_positives"] == calibration.n_positives.sum()
    half = csrr.load(parts[0])
    rest = csrr.read(parts[1])
    half.calibrate(rest, users=range(0, 80, 2))
    judged = half.reliability(rest, users=range(1, 80, 2))
    assert told["ece"] == judged.ece > 0
    assert told["bins"] == list(judged.rows())
    threshold = told["threshold"]
    assert threshold["score"] == calibration.threshold(5, 1)
    assert threshold["probability"] == pytest.approx(1 / 6)
    model = csrr.load(tmp_path / "m.csrr")
    # Scores as they were counted: those of lists may have another last bit.
    scores = model.score_rows(np.arange(len(model.users_)))
    above = (scores[model.seen_.toarray() == 0] > threshold["score"]).sum()
    assert threshold["items_per_user"] == above / len(model.users_)
    text = in_process(*args).stdout
    assert f"{told['n_cells']:,} cells" in text
    assert f"calibration error (ECE) {judged.ece:.4f}" in text
    assert f"recommend above probability 0.1667 (score {threshold['score']:.4f})" in text
    assert f"{threshold['items_per_user']:.1f} items a user" in text


def test_groups_are_told_and_learnt(parts, tmp_path):
    args = "calibrate", *parts, "-o", tmp_path / "m.csrr", "--groups", 3
    told = as_json(*args)
    assert csrr.load(tmp_path / "m.csrr").calibration_.curves.groups.shape == (3, 3)
    half, rest = csrr.load(parts[0]), csrr.read(parts[1])
    half.calibrate(rest, users=range(0, 80, 2), n_groups=3)
    judged = half.reliability(rest, users=range(1, 80, 2))
    assert told["by_popularity"] == list(judged.by_popularity.table().rows())
    assert told["by_activity"] == list(judged.by_activity.table().rows())
    text = in_process(*args).stdout
    for what, by in (("items", judged.by_popularity), ("users", judged.by_activity)):
        line = next(line for line in text.splitlines() if f"furthest off by {by.by}: {what} of" in line)
        assert f"{by.worst['probability']:.4f} said, {by.worst['rate']:.4f} true" in line
    assert in_process(*args[:-1], 0).exit_code == 2
    costs = *args, "--miss", 5, "--false-alarm", 1
    chosen = as_json(*costs)["threshold"]
    model = csrr.load(tmp_path / "m.csrr")
    unseen = model.seen_.toarray() == 0
    assert chosen["score"] is None
    assert chosen["items_per_user"] == (model.probability(model.users_.ids)[unseen] > 1 / 6).sum() / len(model.users_)
    assert "recommend above probability 0.1667:" in in_process(*costs).stdout


def test_when_nothing_is_worth_its_cost(parts, tmp_path):
    worst = csrr.load(parts[0]).recommend([6, 7], 20).items[:, -1]
    (tmp_path / "two.csv").write_text(f"user,item\n6,{worst[0]}\n7,{worst[1]}\n")
    args = "calibrate", parts[0], tmp_path / "two.csv", "-o", tmp_path / "m.csrr", "--miss", 1, "--false-alarm", 2
    told = as_json(*args)["threshold"]
    assert (told["score"], told["items_per_user"]) == (None, 0)
    assert "nothing is worth recommending" in in_process(*args).stdout


def test_the_share_and_the_plot(parts, tmp_path):
    told = as_json("calibrate", *parts, "-o", tmp_path / "m", "--observed-share", 0.5, "--plot", tmp_path / "p.svg")
    assert told["observed_share"] == 0.5 > told["label_rate"]
    assert told["threshold"] is None
    assert (tmp_path / "p.svg").read_text().startswith("<svg ")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--observed-share", 0], "0.0 is not in the range 0<x<=1"),
        (["--observed-share", "nan"], "--observed-share=nan must be a number > 0 and <= 1"),
        (["--miss", 1], "--miss and --false-alarm go together"),
        (["--miss", -1, "--false-alarm", 1], "'--miss': -1.0 is not in the range"),
        (["--miss", 1, "--false-alarm", 0], "'--false-alarm': 0.0 is not in the range"),
        (["--plot", "p.png"], "the name must end in .svg or .html"),
    ],
)
def test_bad_usage_is_told_before_anything_is_written(parts, tmp_path, args, message):
    result = in_process("calibrate", *parts, "-o", tmp_path / "m.csrr", *args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_training_events_are_no_positives(parts, tmp_path):
    model = csrr.load(parts[0])
    cells = model.seen_.tocoo()
    seen = tmp_path / "seen.csv"
    seen.write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in zip(cells.row, cells.col, strict=True)))
    result = in_process("calibrate", parts[0], seen, "-o", tmp_path / "m.csrr")
    assert result.exit_code == 2
    assert "calibration needs positives" in result.stderr


def test_events_of_a_single_user_cannot_be_checked(parts, tmp_path):
    unseen = csrr.load(parts[0]).recommend(7, 1).items[0, 0]
    (tmp_path / "one.csv").write_text(f"user,item\n7,{unseen}\n")
    result = in_process("calibrate", parts[0], tmp_path / "one.csv", "-o", tmp_path / "m.csrr")
    assert result.exit_code == 2
    assert "they must be of enough users" in result.stderr
    assert not (tmp_path / "m.csrr").exists()


def test_a_log_is_not_written_over(parts):
    before = parts[1].read_bytes()
    result = in_process("calibrate", *parts, "-o", parts[1])
    assert result.exit_code == 2
    assert "is no model" in result.stderr
    assert parts[1].read_bytes() == before


class TestRecommend:
    def test_probabilities_and_cuts(self, calibrated):
        model = csrr.load(calibrated)
        told = as_json("recommend", calibrated, "--user", 7, "-k", 20, "--min-probability", 0.1)["recommendations"]
        assert told == list(model.recommend(7, 20, min_probability=0.1).rows())
        assert 0 < len(told) < 20
        whole = as_json("recommend", calibrated, "--user", 7, "-k", 20)["recommendations"]
        bound = whole[2]["score"]
        least = as_json("recommend", calibrated, "--user", 7, "-k", 20, "--min-score", bound)["recommendations"]
        assert least == whole[:3]
        text = in_process("recommend", calibrated, "--user", 7).stdout
        assert text.splitlines()[0].split() == ["rank", "item", "title", "score", "probability"]

    def test_nothing_is_worth_it(self, calibrated):
        result = in_process("recommend", calibrated, "--user", 7, "--min-score", 1e6)
        assert result.stdout == "nothing for user 7 is worth recommending\n"
        new = in_process("recommend", calibrated, "--history", "1,2", "--min-score", 1e6)
        assert new.stdout == "nothing for someone with this history is worth recommending\n"
        assert as_json("recommend", calibrated, "--user", 7, "--min-score", 1e6)["recommendations"] == []

    def test_nothing_for_one_of_several(self, calibrated):
        model = csrr.load(calibrated)
        best = model.recommend(k=1).scores[:, 0]
        least, most = int(best.argmin()), int(best.argmax())
        bound = float(best.min() + best.max()) / 2
        lines = in_process("recommend", calibrated, "--user", least, "--user", most, "--min-score", bound).stdout
        assert lines.splitlines()[-1] == f"nothing for user {least} is worth recommending"
        assert lines.splitlines()[1].split()[0] == str(most)

    @pytest.mark.parametrize("bad", ["1.5", "-0.1", "nan", "most"])
    def test_bad_probabilities(self, calibrated, bad):
        result = in_process("recommend", calibrated, "--user", 7, f"--min-probability={bad}")
        assert result.exit_code == 2
        assert "--min-probability" in result.stderr
        assert bad in result.stderr

    def test_without_calibration_or_costs(self, parts):
        result = in_process("recommend", parts[0], "--user", 7, "--min-probability", 0.5)
        assert result.exit_code == 2
        assert "csrr calibrate" in result.stderr

    def test_cost_stands_for_the_costs_of_the_model(self, parts, tmp_path):
        csrr.PopRank().fit(csrr.read(parts[1])).save(tmp_path / "pop.csrr")
        result = in_process("recommend", tmp_path / "pop.csrr", "--user", 7, "--min-probability", "cost", "--json")
        assert result.exit_code == 2
        assert "needs costs, and this PopRank has none" in json.loads(result.stdout)["error"]
