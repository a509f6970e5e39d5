"""`csrr serve` before it serves: what it refuses, and keys."""

import json

import pytest

import csrr
from tests.cli.conftest import in_process


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "model.csrr"
    csrr.PopRank().fit(csrr.synthetic(60, 40, events_per_user=10).log).save(path)
    return path


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--host", "192.0.2.1"], "there are no keys"),
        (["--limit", "kk=3"], "did you mean k?"),
        (["--limit", "k=0"], "a number above 0"),
        (["--limit", "k=many"], "a number above 0"),
    ],
)
def test_what_it_does_not_begin_with(model_file, words, part):
    told = in_process("serve", model_file, *words)
    assert (told.exit_code, part in told.stderr) == (2, True), told.stderr


def test_a_file_that_is_no_model(tmp_path):
    assert "there is no model file" in in_process("serve", tmp_path / "none.csrr").stderr
    (tmp_path / "text").write_text("text")
    assert "is not a csrr model" in in_process("serve", tmp_path / "text").stderr


def test_a_new_key_is_printed_once_and_hashed(model_file):
    told = in_process("serve", model_file, "--new-key", "both", "--key-name", "shop")
    key = told.stdout.strip()
    (kept,) = json.loads((model_file.parent / "model.csrr.state" / "keys.json").read_text())
    assert (kept["name"], kept["rights"]) == ("shop", ["read", "write"])
    assert key.startswith("csrr_")
    assert key not in json.dumps(kept) + told.stderr
    assert "already" in in_process("serve", model_file, "--new-key", "read", "--key-name", "shop").stderr
