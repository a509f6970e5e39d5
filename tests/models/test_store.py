"""Model files: whole or refused, written at once or not at all, nothing executed."""

import os
import pickle
import resource
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import csrr
from csrr import CSRR, ModelFileError, PopRank
from csrr.data import Log

PREFIX = 52  # magic 8, version 4, length 8, SHA-256 32


@pytest.fixture(scope="module")
def saved(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "model.csrr"
    CSRR().fit(log).save(path)
    return path.read_bytes()


def refused(tmp_path, data, match):
    path = tmp_path / "bad.csrr"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=match) as caught:
        csrr.load(path)
    assert "bad.csrr" in str(caught.value)


@pytest.mark.parametrize("length", [0, 1, 7])
def test_too_short_to_be_ours(tmp_path, saved, length):
    refused(tmp_path, saved[:length], "not a csrr model")


@pytest.mark.parametrize("length", [8, 30, PREFIX - 1, PREFIX, PREFIX + 1, 500, -64, -1])
def test_cut_short(tmp_path, saved, length):
    refused(tmp_path, saved[:length], "cut short")


def test_longer_than_written(tmp_path, saved):
    refused(tmp_path, saved + b"\0", "cut short or altered")


def test_a_flipped_byte_after_the_prefix(tmp_path, saved):
    places = np.random.default_rng(0).integers(20, len(saved), 60).tolist()
    for place in [20, PREFIX - 1, PREFIX, len(saved) - 1, *places]:
        altered = bytearray(saved)
        altered[place] ^= 0x10
        refused(tmp_path, bytes(altered), "altered")


def test_a_flipped_byte_in_the_magic(tmp_path, saved):
    for place in range(8):
        altered = bytearray(saved)
        altered[place] ^= 1
        refused(tmp_path, bytes(altered), "not a csrr model")


def test_a_flipped_bit_in_version_or_length(tmp_path, saved):
    for place in range(8, 20):
        for bit in range(8):
            altered = bytearray(saved)
            altered[place] ^= 1 << bit
            refused(tmp_path, bytes(altered), "altered|newer|cut short")


def test_a_newer_version(tmp_path, saved):
    refused(tmp_path, saved[:8] + struct.pack("<I", 2) + saved[12:], "written by a newer csrr .format 2")


def test_foreign_files(tmp_path):
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("a", "b")
    for data in (archive.read_bytes(), b"", b"user,item\n1,2\n", b"\0" * 1000):
        refused(tmp_path, data, "not a csrr model")


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def test_a_pickle_is_not_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(tmp_path, pickle.dumps(Bomb()), "not a csrr model")
    assert not (tmp_path / "exploded").exists()


def test_an_unknown_model(tmp_path, log):
    class Other(PopRank):
        pass

    Other().fit(log).save(tmp_path / "other")
    with pytest.raises(ModelFileError, match="holds a model 'Other', which this csrr does not know"):
        csrr.load(tmp_path / "other")


def test_a_parameter_of_a_later_version(tmp_path, log, monkeypatch):
    monkeypatch.setattr(PopRank, "get_params", lambda self: {"half_life": 3})
    PopRank().fit(log).save(tmp_path / "later")
    with pytest.raises(
        ModelFileError, match="later: a PopRank with parameters that this csrr does not know: half_life"
    ):
        csrr.load(tmp_path / "later")


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(tmp_path, log, monkeypatch, call):
    path = tmp_path / "model.csrr"
    PopRank().fit(log).save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="No space left"):
            CSRR().fit(log).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.csrr"]


_FULL_DISK = """
import resource, signal, sys
import csrr
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
model = csrr.load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
try:
    model.save(sys.argv[1])
except OSError as error:
    print("refused", error.errno)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limit on file sizes here")
def test_a_full_disk_leaves_the_old_file(tmp_path, saved):
    path = tmp_path / "model.csrr"
    path.write_bytes(saved)
    done = subprocess.run([sys.executable, "-c", _FULL_DISK, str(path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("refused"), done.stderr
    assert path.read_bytes() == saved
    assert [p.name for p in tmp_path.iterdir()] == ["model.csrr"]


def test_the_mode_follows_the_umask(tmp_path, log):
    old = os.umask(0o027)
    try:
        PopRank().fit(log).save(tmp_path / "m")
    finally:
        os.umask(old)
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o640


def roundtrip(model, tmp_path):
    model.save(tmp_path / "m")
    return csrr.load(tmp_path / "m")


@pytest.mark.parametrize(
    "ids",
    [
        ["", " ", "naïve", "日本", "🎵", "a\0b", 'quote"\\', "x" * 500],
        [-(2**63), -1, 0, 1, 5, 10**12, 2**53 + 1, 2**63 - 1],
    ],
)
def test_ids_come_back_exactly(tmp_path, ids):
    matrix = np.tile(np.eye(4), (2, 2))
    model = PopRank().fit(Log.from_matrix(matrix, user_ids=ids, item_ids=ids))
    again = roundtrip(model, tmp_path)
    assert list(again.users_) == list(again.items_) == sorted(ids)
    assert again.recommend(ids[3], k=3).items.tolist() == model.recommend(ids[3], k=3).items.tolist()


@pytest.mark.parametrize("titles", [["A", None, "", "ü"], [None] * 4, ["", "", "", ""]])
def test_titles_come_back_exactly(tmp_path, titles):
    model = PopRank().fit(Log.from_matrix(np.eye(4), titles=titles))
    again = roundtrip(model, tmp_path)
    if model.titles_ is None:
        assert again.titles_ is None
    else:
        assert again.titles_.tolist() == model.titles_.tolist() == titles


def test_everything_fitted_comes_back(tmp_path, log):
    model = CSRR(reg_sparse=0.5, reg_low_rank=0.3).fit(log)
    again = roundtrip(model, tmp_path)
    assert again.certificate_ == model.certificate_
    assert again.history_ == model.history_
    assert (again.l1_, again.l2_, again.rank_) == (model.l1_, model.l2_, model.rank_)
    assert model.specific_.nnz > 0
    np.testing.assert_array_equal(again.specific_.toarray(), model.specific_.toarray())
    np.testing.assert_array_equal(again.explain(3, 4).amounts, model.explain(3, 4).amounts)
    np.testing.assert_array_equal(again.recommend_for([1, 2]).items, model.recommend_for([1, 2]).items)
    assert again.specific_preferences(3).rows() == model.specific_preferences(3).rows()


def test_a_model_of_rank_zero(tmp_path, log):
    model = CSRR(reg_low_rank=1.5, reg_sparse=1.0).fit(log)
    again = roundtrip(model, tmp_path)
    assert again.rank_ == model.rank_ == 0
    np.testing.assert_array_equal(again.recommend(k=5).items, model.recommend(k=5).items)
