"""What once broke csrr does so no more: every kept case, by the campaign that its name begins with."""

from pathlib import Path

import pytest

CASES = Path(__file__).parents[2] / "fuzz" / "cases"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("file", sorted(CASES.glob("*.case")), ids=lambda file: file.stem)
def test_a_kept_case(file, ready, tmp_path):
    ready(file.name.split("-")[0]).check(file.read_bytes(), tmp_path)
