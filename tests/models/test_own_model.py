"""A model written outside the library, by the contract alone, goes everywhere that ours go."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import csrr
from csrr import registry
from csrr.models import store as model_file
from csrr.models.schema import FileSchema, Values

FILE = Path(__file__).parents[2] / "examples" / "own_model.py"


@pytest.fixture(scope="module")
def CoCounts():
    before = dict(registry._added)
    spec = importlib.util.spec_from_file_location("own_model", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.CoCounts
    registry._added.clear()
    registry._added.update(before)


@pytest.fixture(scope="module")
def parts():
    return csrr.split(csrr.synthetic(200, 60, rank=4, events_per_user=12, seed=3).log, ratio=0.8, seed=0)


@pytest.fixture
def model(CoCounts, parts):
    return CoCounts().fit(parts[0])


def test_it_takes_twenty_lines():
    text = FILE.read_text()
    body = text[text.index("@csrr.register") : text.index("def main")].splitlines()
    assert len([line for line in body if line.strip()]) <= 20


def test_evaluate_and_compare(model, parts):
    found = {"own": csrr.evaluate(model, *parts, at=10), "popular": csrr.evaluate(csrr.PopRank().fit(parts[0]), *parts)}
    assert found["own"]["ndcg@10"] > 1.2 * found["popular"]["ndcg@10"]
    assert "own" in str(csrr.compare(found, "ndcg@10"))


def test_tune(CoCounts, parts):
    found = csrr.tune(CoCounts, parts[0], space={"damping": (0.0, 1.0)}, trials=3)
    assert [trial.state for trial in found.trials] == ["done"] * 3
    assert csrr.tune("co-counts", parts[0], space={"damping": [0.2]}, trials=1).kind is CoCounts


def test_calibrate_and_recommend_above_a_probability(model, parts):
    model.calibrate(parts[1])
    probable = model.recommend(k=60, min_probability=0.1)
    assert (probable.probabilities[probable.scores > -np.inf] >= 0.1).all()
    assert 0 < len(probable.to_arrow()) < len(model.recommend(k=60).to_arrow())


def test_suspects(CoCounts, parts):
    noisy = csrr.add_noise(parts[0], "random", share=0.2, seed=0)
    found = CoCounts().fit(noisy.log).suspects()
    assert len(found) == len(noisy.log)
    assert found.scores[noisy.planted].mean() > 1.3 * found.scores[~noisy.planted].mean()


def test_new_people_get_what_users_with_their_history_get(model, parts):
    history = parts[0].history(5).tolist()
    np.testing.assert_array_equal(model.fold_in([history]).score(), model.score(5))


def test_save_and_load(model, tmp_path):
    model.save(tmp_path / "own.csrr")
    loaded = csrr.load(tmp_path / "own.csrr")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.score(model.users_.ids), model.score(model.users_.ids))


def test_a_model_that_is_not_registered_says_so(model, tmp_path, monkeypatch):
    model.save(tmp_path / "own.csrr")
    monkeypatch.setattr(registry, "_added", {})
    with pytest.raises(csrr.ModelFileError, match=r"'CoCounts'.*csrr\.register"):
        csrr.load(tmp_path / "own.csrr")


def test_scikit_learn_clones_it(CoCounts):
    assert clone(CoCounts(damping=0.3)).damping == 0.3


def test_what_it_cannot_do_is_said(parts):
    class Constant(csrr.Recommender):
        def fit(self, data):
            self.remember(self.read(data))
            return self

        def score_rows(self, rows):
            return np.zeros((len(rows), len(self.items_)), np.float32)

    model = Constant().fit(parts[0])
    assert model.recommend(0, k=2).items.shape == (1, 2)
    for ask in (lambda: model.fold_in([[1]]).score(), model.suspects, lambda: model.similar_items(1)):
        with pytest.raises(NotImplementedError, match="Constant"):
            ask()


def test_what_is_not_an_array_nor_plain_needs_a_state_of_its_own(model, tmp_path):
    model.weird_ = object()
    with pytest.raises(NotImplementedError, match=r"CoCounts\.weird_.*state and restore"):
        model.save(tmp_path / "own.csrr")
    assert not (tmp_path / "own.csrr").exists()


def test_a_name_of_ours_cannot_be_taken():
    with pytest.raises(ValueError, match="CSRR is the name of a model of csrr"):
        csrr.register(type("CSRR", (csrr.PopRank,), {}))


@pytest.fixture
def Factors(monkeypatch):
    """A model of factors whose state is its fitted attributes, known by its name."""

    class Factors(csrr.Recommender):
        has_factors = True

        def fit(self, data):
            self.remember(self.read(data))
            self.user_factors_, self.item_factors_ = (
                np.ones((len(ids), 2), np.float32) for ids in (self.users_, self.items_)
            )
            return self

    monkeypatch.setitem(registry._added, "Factors", Factors)
    return Factors


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("item_factors_", np.ones((59, 2), np.float32), r"'item_factors' has shape \(59, 2\)"),
        ("item_factors_", np.ones((60, 3), np.float32), r"it must be \(items, rank\) = \(60, 2\)"),
        ("user_factors_", np.full((200, 2), np.nan), "'user_factors' has values from nan"),
        ("user_factors_", np.ones((200, 2), np.int64), "it must be float32 or float64"),
    ],
)
def test_factors_of_a_file_are_checked(Factors, parts, tmp_path, name, value, words):
    model = Factors().fit(parts[0])
    model.save(tmp_path / "own.csrr")
    np.testing.assert_array_equal(csrr.load(tmp_path / "own.csrr").score(0), model.score(0))
    header, arrays = model_file.read(tmp_path / "own.csrr")
    model_file.write(tmp_path / "bad.csrr", header, arrays | {name: value})
    setattr(model, name, value)
    for attempt in (lambda: model.save(tmp_path / "own.csrr"), lambda: csrr.load(tmp_path / "bad.csrr")):
        with pytest.raises(csrr.ModelFileError, match=words):
            attempt()


def test_a_declaration_of_its_own_is_checked(Factors, parts, tmp_path, monkeypatch):
    monkeypatch.setattr(Factors, "file_schema", FileSchema((Values("user_factors_", ("users", 2)),)))
    model = Factors().fit(parts[0])
    model.save(tmp_path / "own.csrr")
    assert csrr.load(tmp_path / "own.csrr").item_factors_.shape == (60, 2)
    model.user_factors_ = model.user_factors_[:, :1]
    with pytest.raises(csrr.ModelFileError, match=r"'user_factors_' has shape \(200, 1\)"):
        model.save(tmp_path / "own.csrr")


@pytest.mark.parametrize("name", ["recommend", "seen_", "__class__", "_private", "x"])
def test_a_file_sets_nothing_but_fitted_attributes(model, tmp_path, name):
    model.save(tmp_path / "own.csrr")
    header, arrays = model_file.read(tmp_path / "own.csrr")
    for change in ({"facts": {**header["facts"], name: 1}}, {"more": {name: np.ones(2)}}):
        more = change.pop("more", {})
        model_file.write(tmp_path / "bad.csrr", {**header, **change}, {**arrays, **more})
        with pytest.raises(csrr.ModelFileError, match="no fitted attribute"):
            csrr.load(tmp_path / "bad.csrr")


def test_whatever_its_restore_raises_is_told_of_the_file(model, tmp_path, monkeypatch):
    model.save(tmp_path / "own.csrr")

    def fail(self, arrays, facts):
        raise ZeroDivisionError("no")

    monkeypatch.setattr(type(model), "restore", fail)
    with pytest.raises(csrr.ModelFileError, match=r"own\.csrr: cannot be made a model of \(ZeroDivisionError: no\)"):
        csrr.load(tmp_path / "own.csrr")


def test_an_update_of_its_own_keeps_the_item_table_and_a_fit_drops_it(CoCounts, parts):
    class Later(CoCounts):
        def update(self, new_events):
            return self.fit(new_events)

    model = Later().fit(parts[0]).set_items({"item": range(60), "genre": ["Indie", "RPG"] * 30})
    assert model.update(parts[1]) is model
    assert set(model.recommend(5, k=4, columns=["genre"], where={"genre": "RPG"}).columns["genre"][0]) == {"RPG"}
    assert model.fit(parts[0]).item_table_ is None


NEW_MODEL = """
from csrr.models.base import Recommender
from csrr.model_parameters import Range


class Longest(Recommender):
    search_space = {"power": Range(0.5, 2.0)}

    def __init__(self, *, power=1.0):
        self.power = power

    def fit(self, data):
        log = self.read(data)
        self.remember(log)
        self.counts_ = (log.item_counts() ** self.power).astype("float32")
        return self

    def score_histories(self, seen, rows):
        return self.counts_[None].repeat(len(rows), 0)
"""
USE_IT = """
import csrr
from csrr.cli.options import KINDS
from csrr.evaluation.study import find_model, find_space
from csrr.models import Longest

assert csrr.Longest is Longest and "Longest" in csrr.__all__
assert "longest" in KINDS
assert type(find_model("longest")) is Longest
assert find_space("csrr", Longest) == {"power": csrr.Range(0.5, 2.0)}
"""


def test_a_model_of_the_library_is_its_file_and_one_line(tmp_path):
    source = Path(csrr.__file__).parent
    shutil.copytree(source, tmp_path / "csrr", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "csrr" / "models" / "longest.py").write_text(NEW_MODEL)
    with open(tmp_path / "csrr" / "models" / "__init__.pyi", "a") as stub:
        stub.write("from csrr.models.longest import Longest as Longest\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", USE_IT], cwd=tmp_path, env=environment, check=True)
