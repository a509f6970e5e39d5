"""`csrr costs` and the cost options of `csrr fit`."""

import pytest

import csrr
from tests.cli.conftest import as_json, in_process


def test_the_curve_is_printed_and_drawn(log_file, tmp_path):
    plot = tmp_path / "curve.svg"
    result = in_process("costs", log_file, "--miss", 5, "--false-alarm", 1, "--ratio", 1, "--ratio", 4, "--plot", plot)
    assert result.exit_code == 0, result.stderr
    assert "cost_ratio" in result.stdout
    assert "5 per miss, 1 per false alarm" in plot.read_text()


def test_it_says_what_the_library_says(log_file):
    said = as_json("costs", log_file, "--miss", 5, "--false-alarm", 1, "--ratio", 2)
    curve = csrr.cost_curve(csrr.read(log_file), miss=5, false_alarm=1, ratios=[2])
    assert said["recommended"]["cost"] == pytest.approx(curve.recommended.cost)
    assert said["recommendation"] == curve.recommendation


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--miss", 0, "--false-alarm", 1), "'--miss': 0.0 is not in the range"),
        (("--miss", 1), "--false-alarm"),
        (("--miss", 1, "--false-alarm", 1, "--plot", "x.png"), ".svg or .html"),
    ],
)
def test_bad_input_is_one_line(log_file, args, words):
    result = in_process("costs", log_file, *args)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_fit_takes_weights_as_confidence(tmp_path):
    table = csrr.synthetic(60, 40, rank=4, events_per_user=10).log.to_frame()
    table["plays"] = range(1, len(table) + 1)
    table.to_csv(tmp_path / "plays.csv", index=False)
    args = ("fit", tmp_path / "plays.csv", "-o", tmp_path / "m.csrr")
    assert in_process(*args, "--event-weights", "log", "--recall-weight", 0.3).exit_code == 0
    model = csrr.load(tmp_path / "m.csrr")
    assert model.event_weights == "log"
    assert "T_n/T_p" in str(model.costs_)
