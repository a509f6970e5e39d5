"""A few hundred hostile model files, the same ones every time; and that the campaign sees what it must."""

import json
from pathlib import Path

import numpy as np
import pytest

import csrr
from csrr.models.schema import Values
from fuzz import model_files
from fuzz.campaign import Finding
from fuzz.model_files import File, reseal, seal
from fuzz.runner import draw, try_case

CASES = Path(model_files.__file__).parent / "cases"


@pytest.fixture(scope="module")
def campaign(ready):
    return ready("models")


def test_hostile_files_are_refused_or_work(campaign):
    found = {number: try_case(campaign, draw(campaign, 0, number)) for number in range(400)}
    assert {number: what for number, what in found.items() if what} == {}


def test_a_number_gives_the_same_case_again(campaign):
    assert [draw(campaign, 0, number) for number in range(20)] == [draw(campaign, 0, number) for number in range(20)]


def test_files_are_altered_in_both_ways(campaign, tmp_path):
    words = []
    for number in range(150):
        (tmp_path / "m").write_bytes(draw(campaign, 1, number))
        try:
            csrr.load(tmp_path / "m")
            words.append("loaded")
        except csrr.ModelFileError as error:
            words.append(str(error).partition(": ")[2])
    assert 0.05 < np.mean(["cut short or altered" in word for word in words]) < 0.4
    assert 0.05 < np.mean(["loaded" in word for word in words]) < 0.4
    assert len({word[:40] for word in words}) > 30


def test_it_takes_a_file_apart_and_together(campaign):
    for whole in campaign.whole:
        file = File.parse(whole)
        payload = b"".join(array.tobytes().ljust(-(-array.nbytes // 64) * 64, b"\0") for _, array in file.arrays)
        assert seal(json.dumps({**file.header, "arrays": file.place()}).encode(), payload) == whole == reseal(whole)


def test_numbers_that_are_not_finite_are_found_where_the_library_lets_them_in(campaign, monkeypatch, tmp_path):
    case = _with_nan(campaign.whole[8])
    campaign.check(case, tmp_path)
    check = Values.check

    def overlook(self, arrays, sizes):
        check(self if "factors" not in self.name else Values(self.name, self.shape, is_free=True), arrays, sizes)

    monkeypatch.setattr(Values, "check", overlook)
    with pytest.raises(Finding, match="scores are not finite"):
        campaign.check(case, tmp_path)


REFUSED = [file for file in sorted(CASES.glob("models-*.case")) if not file.name.startswith("models-works-")]


@pytest.mark.parametrize("file", REFUSED, ids=lambda file: file.stem)
def test_kept_cases_are_refused_and_take_no_memory(campaign, monkeypatch, tmp_path, file):
    monkeypatch.setattr(model_files, "WATCHED", 1)
    monkeypatch.setattr(model_files, "use", lambda model, folder: pytest.fail("loaded"))
    campaign.check(file.read_bytes(), tmp_path)


def test_memory_is_found(campaign, monkeypatch, tmp_path):
    monkeypatch.setattr(csrr, "load", lambda path: np.ones(10**6))
    with pytest.raises(Finding, match="loading took"):
        campaign.check(b"", tmp_path)  # of which the sum is 0: watched


def test_another_error_is_found(campaign, monkeypatch, tmp_path):
    def fail(path):
        raise KeyError("seen")

    monkeypatch.setattr(csrr, "load", fail)
    with pytest.raises(KeyError):
        campaign.check(b"", tmp_path)


def _with_nan(whole):
    file = File.parse(whole)
    place = whole.index(file.arrays[[name for name, _ in file.arrays].index("user_factors")][1].tobytes())
    return reseal(whole[:place] + np.float32("nan").tobytes() + whole[place + 4 :])
