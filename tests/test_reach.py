"""How many files a call passes through: a reader of the code has to follow it."""

import sys
import threading
from pathlib import Path

import pytest

import csrr

SOURCE = Path(csrr.__file__).parent


def list_files(call):
    """Return the files of csrr with a function that runs during a call; modules that are imported do not count."""
    found = set()

    def look(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and frame.f_code.co_name != "<module>" and path.is_relative_to(SOURCE):
            found.add(str(path.relative_to(SOURCE)))

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(found)


@pytest.fixture(scope="module")
def log():
    return csrr.synthetic(300, 200, events_per_user=20).log


def test_reading_a_csv_file_passes_through_few_files(log, tmp_path):
    file = tmp_path / "clicks.csv"
    rows = zip(log.user_rows.tolist(), log.item_rows.tolist(), strict=True)
    file.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in rows))
    read = csrr.read
    found = list_files(lambda: read(file))
    assert "data/read.py" in found
    assert len(found) <= 10, found


def test_a_fit_and_a_recommendation_pass_through_few_files(log):
    model = csrr.CSRR()
    found = list_files(lambda: model.fit(log))
    assert "models/csrr_base.py" in found
    assert len(found) <= 32, found
    found = list_files(lambda: model.recommend([1, 2]))
    assert "models/base.py" in found
    assert len(found) <= 14, found
