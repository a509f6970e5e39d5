"""Model files: whole or refused, written at once or not at all, nothing executed."""

import hashlib
import json
import mmap
import os
import pickle
import re
import resource
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import csrr
from csrr import CSRR, ModelFileError, PopRank
from csrr.data.log import Log
from csrr.models import store as model_file

PREFIX = 52  # magic 8, version 4, length 8, SHA-256 32


class Counted(csrr.Recommender):
    """A model from outside, saved as it is."""

    def __init__(self, damping=0.5):
        self.damping = damping

    def fit(self, data):
        log = self.read(data)
        self.remember(log)
        self.mean_ = float(log.item_counts().mean())
        return self


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


# Files whose checksum fits, and that are wrong all the same: anyone can write one


@pytest.fixture(scope="module")
def kinds(log, tmp_path_factory):
    """A saved model of each kind, by name."""
    folder = tmp_path_factory.mktemp("kinds")
    models = {
        "CSRR": CSRR(reg_low_rank=0.2, neighbors=3),
        "CSRRe": csrr.CSRRe(rank=2, factors="nonnegative", max_iter=5),
        "MCShift": csrr.MCShift(reg_low_rank=0.5),
        "BiasMC": csrr.BiasMC(reg_low_rank=0.5),
        "WRMF": csrr.WRMF(rank=3, reg=1.0, max_iter=2),
        "BPRMF": csrr.BPRMF(rank=3, epochs=1),
        "EASE": csrr.EASE(reg=10.0),
        "ItemKNN": csrr.ItemKNN(neighbors=4),
        "PopRank": PopRank(),
    }
    for name, model in models.items():
        model.fit(log).save(folder / name)
    return folder


def altered(folder, kind, tmp_path, change):
    """Return a file of that kind after a change of its header and arrays, its checksum right."""
    header, arrays = model_file.read(folder / kind)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(header, arrays)
    model_file.write(tmp_path / "bad.csrr", header, arrays)
    return tmp_path / "bad.csrr"


def set_to(name, place, value):
    def change(header, arrays):
        arrays[name].flat[place] = value

    return change


@pytest.mark.parametrize(
    ("kind", "name", "place", "value"),
    [
        ("EASE", "seen.indices", 3, 10**9),
        ("CSRR", "seen.indices", 0, -1),
        ("CSRR", "neighbors.indices", 0, 60),
        ("CSRR", "specific.indptr", 4, 10**6),
        ("ItemKNN", "weights.indptr", 0, 1),
        ("ItemKNN", "weights.indptr", -1, 3),
        ("WRMF", "seen.indptr", 5, 0),
    ],
)
def test_a_sparse_array_that_points_outside(kinds, tmp_path, kind, name, place, value):
    data = altered(kinds, kind, tmp_path, set_to(name, place, value)).read_bytes()
    refused(tmp_path, data, f"array '{name}'")


def test_choices_of_a_user_are_among_their_events(log, tmp_path):
    model = CSRR(reg_sparse=0.5, reg_low_rank=0.3).fit(log)
    model.save(tmp_path / "CSRR")
    row = int(np.diff(model.specific_.indptr).argmax())

    def change(header, arrays):
        mine = slice(*arrays["specific.indptr"][row : row + 2])
        unseen = np.setdiff1d(np.arange(60), model.seen_[[row]].indices)
        arrays["specific.indices"][mine] = unseen[: mine.stop - mine.start]

    words = f"array 'specific.indices' has entries of row {row} that 'seen' does not have"
    refused(tmp_path, altered(tmp_path, "CSRR", tmp_path, change).read_bytes(), words)


@pytest.mark.parametrize("same", [True, False])
def test_items_of_a_row_rise(kinds, tmp_path, same):
    def change(header, arrays):
        two = arrays["seen.indices"][:2]
        two[:] = two[0] if same else two[::-1].copy()

    refused(tmp_path, altered(kinds, "EASE", tmp_path, change).read_bytes(), "does not rise within a row, at entry 1")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, "item_factors") for kind in ("CSRR", "CSRRe", "MCShift", "BiasMC", "WRMF", "BPRMF")),
        *(("EASE", "weights"), ("ItemKNN", "weights.data"), ("PopRank", "popularity"), ("CSRR", "user_scaling")),
    ],
)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_numbers_are_finite(kinds, tmp_path, kind, name, value):
    data = altered(kinds, kind, tmp_path, set_to(name, 1, value)).read_bytes()
    refused(tmp_path, data, f"array '{name}' has values from .* they must be")


@pytest.fixture(scope="module")
def weighing(log, tmp_path_factory):
    """A folder with a saved model that keeps weights and times of its events."""
    folder = tmp_path_factory.mktemp("weighing")
    numbers = np.arange(1, len(log) + 1)
    model = CSRR(reg_low_rank=0.2, neighbors=0, event_weights="log", half_life="1d")
    model.fit(replace(log, weights=numbers, times=86_400 * numbers)).save(folder / "CSRR")
    return folder


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("seen.weights", np.float32(bad)) for bad in (0, -1, np.nan, np.inf)),
        *(("seen.times", bad) for bad in (np.nan, np.inf, -np.inf)),
    ],
)
def test_weights_and_times_of_events(weighing, tmp_path, name, value):
    def change(header, arrays):
        arrays[name] = arrays[name].astype(type(value))
        arrays[name][3] = value

    data = altered(weighing, "CSRR", tmp_path, change).read_bytes()
    refused(tmp_path, data, f"array '{name}' has values from .* they must be")


@pytest.mark.parametrize("name", ["seen.weights", "seen.times"])
def test_there_are_as_many_weights_and_times_as_events(weighing, tmp_path, name):
    def cut(header, arrays):
        arrays[name] = arrays[name][:-1]

    def change_type(header, arrays):
        arrays[name] = np.ones(len(arrays[name]), np.int8)

    for change in (cut, change_type):
        refused(tmp_path, altered(weighing, "CSRR", tmp_path, change).read_bytes(), f"array '{name}'")


@pytest.mark.parametrize("name", ["seen.times", "recent_popularity", "item_ages"])
def test_what_follows_from_times_is_in_a_file_with_them_or_not_at_all(weighing, tmp_path, name):
    data = altered(weighing, "CSRR", tmp_path, lambda header, arrays: arrays.pop(name)).read_bytes()
    refused(tmp_path, data, f"array '{name}' is missing")


@pytest.mark.parametrize(("place", "age"), [(0, -1), (0, 10**6), (0, None)])
def test_ages_number_the_events_of_each_user(log, tmp_path, monkeypatch, place, age):
    monkeypatch.setattr(csrr.PopRank, "uses_order", True)
    csrr.PopRank().fit(replace(log, places=np.arange(len(log)))).save(tmp_path / "PopRank")
    assert csrr.load(tmp_path / "PopRank").seen_ages_[0] == log.user_counts()[0] - 1

    def change(header, arrays):
        arrays["seen.ages"][place] = arrays["seen.ages"][place + 1] if age is None else age

    data = altered(tmp_path, "PopRank", tmp_path, change).read_bytes()
    refused(tmp_path, data, r"seen\.ages' (has values from|does not number the events of each user)")


def test_curves_of_groups_need_the_common_curve(log, tmp_path):
    model = csrr.PopRank().fit(log.select(np.arange(len(log)) % 2 == 0))
    model.calibrate(log, n_groups=2)
    model.save(tmp_path / "PopRank")

    def drop(header, arrays):
        for name in [name for name in arrays if re.match(r"calibration\.(?!groups)", name)]:
            del arrays[name]

    data = altered(tmp_path, "PopRank", tmp_path, drop).read_bytes()
    refused(tmp_path, data, r"array 'calibration\.edges' is missing")


def test_a_model_fitted_without_weights_is_not_updated_with_them(log):
    model = CSRR(reg_low_rank=0.2, neighbors=0).fit(log).set_params(event_weights="log")
    with pytest.raises(csrr.DataError, match="were not kept"):
        model.update({"user": [1], "item": [2], "weight": [1], "time": [1]})


def test_every_array_of_every_kind_has_its_shape_and_type(kinds, tmp_path):
    for kind in sorted(each.name for each in kinds.iterdir()):
        for name, array in model_file.read(kinds / kind)[1].items():
            others = [array[None], array.astype(np.float16), np.zeros((2**12, 0), array.dtype), None]
            if name != "history" and array.size:  # which may have any number of steps
                others.append(array[:-1])
            for other in others:

                def change(header, arrays, name=name, other=other):
                    arrays[name] = other
                    if other is None:
                        del arrays[name]

                path = altered(kinds, kind, tmp_path, change)
                with pytest.raises(ModelFileError, match=r"array|ids|texts") as caught:
                    csrr.load(path)
                assert "cannot be made" not in str(caught.value), "checked, not caught in the net"


def test_every_fact_of_every_kind_has_its_type(kinds, tmp_path):
    odd = [True, "x", [], {"a": 1}, [1]]
    for kind in sorted(each.name for each in kinds.iterdir()):
        for name, value in model_file.read(kinds / kind)[0]["facts"].items():
            for other in odd:
                if isinstance(other, type(value)):
                    continue

                def change(header, arrays, name=name, other=other):
                    header["facts"][name] = other

                with pytest.raises(ModelFileError, match=f"facts, {name}"):
                    csrr.load(altered(kinds, kind, tmp_path, change))


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("CSRR", lambda header: header["params"].update(tol=-1), "tol=-1 must be"),
        ("CSRR", lambda header: header["params"].update(loss=[]), r"loss=\[\] must be"),
        ("WRMF", lambda header: header["params"].update(event_weights={}), "must be"),
        ("CSRR", lambda header: header["facts"]["costs"].update(weight=None), "need the weight of clicks"),
        ("WRMF", lambda header: header["facts"]["penalty"].update(mean=0), "facts, penalty, mean"),
        ("WRMF", lambda header: header["facts"]["penalty"].pop("mean"), "facts, penalty: 'mean' is missing"),
        ("CSRR", lambda header: header["facts"]["posed"].update(loss="III"), "facts, posed, loss"),
        ("CSRR", lambda header: header["facts"]["certificate"].update(status="fine"), "facts, certificate, status"),
        ("CSRR", lambda header: header["facts"].pop("l1"), "'l1' is missing"),
        ("EASE", lambda header: header["facts"].update(more=1), "does not know 'more'"),
        ("EASE", lambda header: header.update(model="WRMF"), "parameters that this csrr does not know: dtype"),
        ("EASE", lambda header: header.update(model=1), "model is of type int"),
        ("EASE", lambda header: header.update(params=[]), "params is of type list"),
        ("EASE", lambda header: header.update(facts=None), "facts is of type NoneType"),
    ],
)
def test_header_parameters_and_facts(kinds, tmp_path, kind, change, words):
    path = altered(kinds, kind, tmp_path, lambda header, arrays: change(header))
    refused(tmp_path, path.read_bytes(), words)


@pytest.mark.parametrize(
    ("kind", "spoil", "words"),
    [
        (
            CSRR(),
            lambda model: setattr(model, "certificate_", replace(model.certificate_, primal=np.inf)),
            "certificate=",
        ),
        (csrr.EASE(), lambda model: setattr(model, "reg_", np.nan), "reg=nan holds a number that is not finite"),
        (csrr.EASE(), lambda model: setattr(model, "reg_", -1.0), "reg=-1.0 must be a number > 0"),
        (Counted(), lambda model: setattr(model, "mean_", np.inf), "mean_=inf holds a number that is not finite"),
        (Counted(damping=np.inf), lambda model: None, "damping=inf holds a number that is not finite"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(log, tmp_path, kind, spoil, words):
    model = kind.fit(log)
    spoil(model)
    with pytest.raises(ModelFileError, match=words):
        model.save(tmp_path / "model.csrr")
    assert not list(tmp_path.iterdir())


def test_arrays_that_no_model_has(kinds, tmp_path):
    path = altered(kinds, "EASE", tmp_path, lambda header, arrays: arrays.update(more=np.ones(2)))
    refused(tmp_path, path.read_bytes(), "arrays that this csrr does not know: 'more'")


def test_ids_in_another_order_would_stand_for_other_rows(kinds, tmp_path):
    def change(header, arrays):
        arrays["items"] = arrays["items"][::-1].copy()

    refused(tmp_path, altered(kinds, "EASE", tmp_path, change).read_bytes(), "ids of items are not in order")


def sealed(text, payload=b""):
    """A file with a header of any bytes, its checksum right."""
    text += b" " * (-(len(text) + PREFIX) % 64)
    start = struct.pack("<8sIQ", b"CSRRMODL", 1, len(text))
    return start + hashlib.sha256(start + text + payload).digest() + text + payload


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "a header of 12 bytes|cannot be read"),
        (b"{", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[]", "does not hold model, params"),
        (b"[" * 10**5, "lists in lists without end"),
        (b'{"a":' * 33 + b"1" + b"}" * 33, "does not hold"),
        (b'{"a": "' + b"[" * 100 + b'"}', "does not hold"),
        (b'{"a": "\\"' + b"[" * 100 + b'"}', "does not hold"),
        (b'{"a": 1, "a": 2}', "a name twice"),
        (b'{"a": NaN}', "a number that is NaN"),
        (b'{"a": ' + b"9" * 5000 + b"}", "cannot be read"),
        (b'"' + b'\\"' * 10**5, "cannot be read"),
        (b" " * 2**22, "a header of"),
    ],
)
def test_headers(tmp_path, text, words):
    refused(tmp_path, sealed(text), words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"offset": 64}, "not where it must be"),
        ({"offset": -64}, "not where it must be"),
        ({"offset": "0"}, "begins at 0, which is no whole number"),
        ({"offset": 0.0}, "begins at 0.0, which is no whole number"),
        ({"dtype": "object"}, "unknown type 'object'"),
        ({"dtype": ["float32"]}, "unknown type"),
        ({"shape": [3 * 10**8, 0]}, "no array in this file can have"),
        ({"shape": [-1]}, "no array in this file can have"),
        ({"shape": [True]}, "no array in this file can have"),
        ({"shape": [10**30]}, "no array in this file can have"),
        ({"shape": 4}, "no array in this file can have"),
        ({"shape": [1] * 9}, "no array in this file can have"),
        ({"name": 1}, "no name"),
        ({"name": "items"}, "there twice"),
        ({"more": 1}, "not said by name, dtype, shape and offset"),
    ],
)
def test_places(kinds, tmp_path, change, words):
    whole = (kinds / "PopRank").read_bytes()
    (length,) = struct.unpack_from("<Q", whole, 12)
    header = json.loads(whole[PREFIX : PREFIX + length])
    header["arrays"][1 if change == {"offset": 64} else 0].update(change)
    if change == {"offset": 64}:
        header["arrays"][2]["offset"] = 64
    refused(tmp_path, sealed(json.dumps(header).encode(), whole[PREFIX + length :]), words)


def test_bytes_after_the_arrays(kinds, tmp_path):
    whole = (kinds / "PopRank").read_bytes()
    (length,) = struct.unpack_from("<Q", whole, 12)
    body = whole[PREFIX:]
    refused(tmp_path, sealed(body[:length], body[length:] + b"\0" * 64), "the arrays take")


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ModelFileError, match="not a file"):
            csrr.load(path)
    with pytest.raises(IsADirectoryError):
        csrr.load(tmp_path)


def test_a_file_takes_little_more_memory_than_its_size(log, tmp_path):
    csrr.WRMF(rank=40, reg=1.0, max_iter=1).fit(csrr.synthetic(6000, 4000, events_per_user=10).log).save(tmp_path / "m")
    tracemalloc.start()
    model = csrr.load(tmp_path / "m")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 * (tmp_path / "m").stat().st_size
    assert not model.user_factors_.flags.writeable


def test_what_could_not_be_loaded_is_not_saved(log, tmp_path):
    model = CSRR().fit(log)
    with pytest.raises(csrr.ParameterError, match="tol=-1"):
        model.set_params(tol=-1).save(tmp_path / "m")
    popular = PopRank().fit(log)
    popular.popularity_ = popular.popularity_[:-1]
    with pytest.raises(ModelFileError, match=r"'popularity' has shape \(59,\); it must be \(items,\) = \(60,\)"):
        popular.save(tmp_path / "m")
    popular.popularity_ = np.array(["a"])
    with pytest.raises(ValueError, match="type"):
        popular.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_another_byte_order_are_saved_as_they_are(log, tmp_path):
    model = PopRank().fit(log)
    scores = model.score(0)
    model.popularity_ = model.popularity_.astype(">f4")
    np.testing.assert_array_equal(roundtrip(model, tmp_path).score(0), scores)


def test_titles_with_half_a_pair_of_surrogates_come_back(tmp_path):
    model = PopRank().fit(Log.from_matrix(np.eye(3), titles=["a\ud800", None, "b"]))
    assert roundtrip(model, tmp_path).titles_.tolist() == ["a\ud800", None, "b"]


def edit(path, change):
    """A model file with its arrays changed, its checksum right."""
    header, arrays = model_file.read(path)
    model_file.write(path, header, {name: change(name, array.copy()) for name, array in arrays.items()})


@pytest.mark.parametrize("kind", ["WRMF", "EASE", "ItemKNN"])
def test_a_model_without_events_is_refused(kinds, tmp_path, kind):
    (path := tmp_path / "m").write_bytes((kinds / kind).read_bytes())
    edit(path, lambda name, a: 0 * a if name == "seen.indptr" else a[:0] if name.startswith("seen.") else a)
    with pytest.raises(ModelFileError, match="holds no training events"):
        csrr.load(path)


def test_factors_of_any_size_can_be_updated(kinds, log, tmp_path):
    (path := tmp_path / "m").write_bytes((kinds / "WRMF").read_bytes())
    new = {"user": [0, 999], "item": [1, 2]}
    expected = csrr.load(path).update(new).history_[-1].objective
    edit(path, lambda name, a: np.full_like(a, 1e15) if name.endswith("factors") else a)
    model = csrr.load(path).update(new)
    assert np.isfinite(model.score([0, 999])).all()
    assert model.history_[-1].objective < 1.1 * expected


_LOAD = """
import resource, sys
import csrr
csrr.load
resource.setrlimit(resource.RLIMIT_DATA, (600 << 20,) * 2)
try:
    csrr.load(sys.argv[1])
except csrr.ModelFileError as error:
    sys.exit(f"refused: {error}")
"""


def test_a_file_that_is_not_what_its_header_tells_is_refused_before_it_is_read(saved, tmp_path):
    (path := tmp_path / "sparse").write_bytes(saved)
    os.truncate(path, 3 << 30)
    done = subprocess.run([sys.executable, "-c", _LOAD, path], capture_output=True, text=True)
    assert "refused" in done.stderr
    assert "the file is cut short or altered" in done.stderr


@pytest.mark.parametrize("kind", [csrr.CSRR, csrr.EASE])
def test_a_mapped_model_is_the_same_and_stays_so_when_its_file_is_replaced(kind, tmp_path):
    log = csrr.synthetic(80, 50, events_per_user=10, seed=2).log
    path = tmp_path / "model.csrr"
    model = kind().fit(log)
    model.save(path)
    mapped = csrr.load(path, mmap=True)
    wanted = model.recommend(k=5)
    csrr.PopRank().fit(log).save(path)
    found = mapped.recommend(k=5)
    np.testing.assert_array_equal(found.items, wanted.items)
    np.testing.assert_array_equal(found.scores, wanted.scores)
    base = (mapped.item_factors_ if kind is csrr.CSRR else mapped.weights_).base
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(csrr.ModelFileError, match="checksum"):
        csrr.load(path, mmap=True)


def test_a_model_of_your_own_warms_up(tmp_path):
    class Even(csrr.Recommender):
        def fit(self, data):
            self.remember(self.read(data))
            return self

        def score_rows(self, rows):
            return np.ones((len(rows), len(self.items_)), np.float32)

    log = csrr.synthetic(80, 50, events_per_user=10, seed=2).log
    for model in (Even(), csrr.CSRR(), csrr.PopRank()):
        model.fit(log).warm_up()
    with pytest.raises(csrr.NotFittedError):
        csrr.PopRank().warm_up()
