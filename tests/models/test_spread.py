"""Fits by Dask's workers give what one process gives, whatever happens to the workers."""

import os
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import csrr

distributed = pytest.importorskip("distributed")

from csrr.models import spread  # noqa: E402
from csrr.numerics.dask_cluster import EngineError  # noqa: E402
from csrr.numerics.dask_engine import DaskEngine  # noqa: E402
from tests.models.test_engines import CASES, fit  # noqa: E402
from tests.models.test_engines import log as log  # noqa: E402

# Processes that are killed leave sockets behind.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.xdist_group("dask"),
]
GIVEN = {"cost_ratio": 2.0, "l1": 1.8, "neighbors": 8, "reg_neighbors": 3.0, "tol": 1e-4}


@pytest.fixture(scope="module")
def cluster():
    """Two workers, and the client of their scheduler."""
    with DaskEngine(n_workers=2) as engine:
        yield engine.client


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """A folder of Parquet files, with text ids, repeats and no order; and the log of the same events."""
    home, rng = tmp_path_factory.mktemp("events"), np.random.default_rng(0)
    made = csrr.synthetic(400, 90, rank=4, events_per_user=15, seed=2).log
    order = np.concatenate([rng.permutation(len(made)), rng.integers(0, len(made), 50)])
    table = pa.table(
        {
            "user": [f"user {each}" for each in made.user_rows[order]],
            "movie": [f"film {each}" for each in made.item_rows[order]],
            "hours": rng.random(len(order)),
            # Few, so that rows break ties.
            "time": rng.integers(0, 30, len(order)),
        }
    )
    for place in range(4):
        part = table.slice(len(table) * place // 4, len(table) * (place + 1) // 4 - len(table) * place // 4)
        parquet.write_table(part, home / f"part-{place}.parquet", row_group_size=700)
    return home, csrr.read(table, time=False)


def dask_frame(folder):
    """A Dask DataFrame of a folder."""
    return pytest.importorskip("dask.dataframe").read_parquet(folder)


def make_engine(client, folder, **options):
    return DaskEngine(client, folder=folder, block_events=600, **options)


@pytest.fixture(scope="module")
def fitted(cluster, events, tmp_path_factory):
    """A model of that folder, its file, and the engine."""
    folder = tmp_path_factory.mktemp("work")
    engine = make_engine(cluster, folder / "spread")
    model = csrr.CSRR(**GIVEN, engine=engine).fit(events[0])
    model.save(folder / "model.csrr")
    return model, folder / "model.csrr", engine


@pytest.mark.parametrize("case", ["CSRR, V", "CSRRe"])
def test_the_engine_changes_nothing(case, log, cluster):
    name, params = CASES[case]
    _, mine = fit(name, params, log)
    _, theirs = fit(name, params | {"engine": DaskEngine(cluster, block_events=300)}, log)
    for part, value in mine.items():
        assert np.abs(theirs[part] - value).max() < 1e-2 * np.abs(value).max(), part


@pytest.mark.filterwarnings("ignore::csrr.NoHistoryWarning")
def test_a_folder_gives_the_model_of_its_log(fitted, events):
    model, path, _ = fitted
    alone = csrr.CSRR(**GIVEN).fit(events[1])
    assert model.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=1e-3)
    assert model.certificate_.gap < GIVEN["tol"]
    assert model.items_ == alone.items_
    loaded = csrr.load(path)
    histories = [["film 3", "film 8", "film 40"], []]
    np.testing.assert_allclose(loaded.fold_in(histories).score(), alone.fold_in(histories).score(), atol=2e-3)
    np.testing.assert_array_equal(loaded.popularity, alone.popularity)
    # Of users without a history popular items, of whom nobody is in the file.
    assert loaded.recommend_for([], k=3).items.tolist() == alone.recommend_for([], k=3).items.tolist()
    with pytest.raises(csrr.ParameterError, match="this model has the items alone"):
        loaded.recommend(["user 7"])


def test_tables_of_items_are_for_logs_on_one_machine(cluster, events):
    tags = {f"film {place}": [f"kind {place % 3}"] for place in range(95)}
    alone, spread = (csrr.CSRR(**GIVEN).fit(events[1], items=tags, client=each) for each in (None, cluster))
    assert "film 94" in spread.items_
    np.testing.assert_allclose(spread.score_rows(np.arange(9)), alone.score_rows(np.arange(9)), atol=2e-3)
    with pytest.raises(csrr.ParameterError, match="items= is for logs on one machine"):
        csrr.CSRR(**GIVEN).fit(events[0], client=cluster, items=tags)


def test_lists_for_everybody(fitted, events, tmp_path):
    _, path, engine = fitted
    alone = csrr.CSRR(**GIVEN).fit(events[1]).recommend(k=5)
    assert csrr.write_lists(path, tmp_path / "lists", k=5, client=engine) == len(alone)
    table = parquet.read_table(tmp_path / "lists").to_pandas()
    found = table[table["rank"] == 1].set_index("user")["item"]
    assert np.mean(found[alone.users].to_numpy() == alone.items[:, 0]) > 0.99
    assert (table.groupby("user")["score"].diff().dropna() <= 0).all()
    with pytest.raises(csrr.DataError, match="is there already"):
        csrr.write_lists(path, tmp_path / "lists", client=engine)


def test_a_frame_and_a_search(cluster, events, tmp_path):
    frame = dask_frame(events[0])
    model = csrr.CSRR(max_rank=12, denoise=0).fit(frame, client=cluster)
    # The same events are held out of the same users, and signs are the same, so that the search goes the same way.
    alone = csrr.CSRR(max_rank=12, denoise=0).fit(events[1])
    assert model.chosen_.settings == alone.chosen_.settings
    assert model.chosen_.note.split(" users")[0] == alone.chosen_.note.split(" users")[0]
    for name in ("strength", "neighbors", "ndcg"):
        np.testing.assert_allclose(model.chosen_[name], alone.chosen_[name], atol=2e-3)
    assert model.chosen_.n_events == len(events[1])
    assert model.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=1e-3)


ORDERS = {
    "next": GIVEN | {"order": "next", "decay": [0.5, 0.8], "horizon": 0.3, "history_scaling": 0.1, "rare_scaling": 0.1},
    "recent": GIVEN | {"order": "recent", "decay": 0.7},
    "a search": {"order": "auto", "max_rank": 12, "denoise": 0},
    "a search for next": {"order": "next", "max_rank": 12},
}


@pytest.mark.parametrize("case", ORDERS)
def test_order(case, cluster, events, tmp_path):
    engine = make_engine(cluster, tmp_path / "work")
    model = csrr.CSRR(**ORDERS[case], engine=engine).fit(events[0])
    alone = csrr.CSRR(**ORDERS[case]).fit(csrr.read(events[0]))
    assert model.chosen_.settings == pytest.approx(alone.chosen_.settings, rel=1e-6)
    assert model.chosen_.order == alone.chosen_.order
    for name, column in alone.chosen_.columns.items():
        np.testing.assert_allclose(model.chosen_[name], column, atol=5e-3)
    model.save(tmp_path / "model.csrr")
    loaded, histories = csrr.load(tmp_path / "model.csrr"), [["film 3", "film 8", "film 40"], ["film 40", "film 3"]]
    mine, theirs = (each.fold_in(histories).score() for each in (loaded, alone))
    np.testing.assert_allclose(mine, theirs, atol=5e-3)
    csrr.write_lists(tmp_path / "model.csrr", tmp_path / "lists", k=5, client=engine)
    table = parquet.read_table(tmp_path / "lists").to_pandas()
    found, lists = table[table["rank"] == 1].set_index("user")["item"], alone.recommend(k=5)
    assert np.mean(found[lists.users].to_numpy() == lists.items[:, 0]) > 0.97


def kill_workers(client, seconds, count=1):
    """Kill a worker with -9 after so many seconds, again and again."""

    def kill():
        for _ in range(count):
            time.sleep(seconds)
            found = client.run(os.getpid)
            if found:
                os.kill(min(found.values()), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_killed_workers_change_no_bit(cluster, events, fitted, tmp_path):
    model, path, _ = fitted
    seen = []

    def kill(step):
        if step.iteration in (1, 4):
            seen.append(os.kill(min(cluster.run(os.getpid).values()), signal.SIGKILL))

    engine = make_engine(cluster, tmp_path / "work")
    again = csrr.CSRR(**GIVEN, engine=engine).fit(events[0], callback=kill)
    assert len(seen) == 2
    np.testing.assert_array_equal(again.item_factors_, model.item_factors_)
    assert (again.neighbors_ != model.neighbors_).nnz == 0
    thread = kill_workers(cluster, 0.02)
    again.save(tmp_path / "model.csrr")
    thread.join()
    for mine, theirs in zip(
        sorted(spread.name_users(path).iterdir()), sorted((tmp_path / "model.csrr.users").iterdir()), strict=True
    ):
        assert parquet.read_table(mine).equals(parquet.read_table(theirs))


def test_a_fit_goes_on_where_it_was(cluster, events, fitted, tmp_path):
    class Stop(Exception):
        pass

    def stop(step):
        if step.iteration == 5:
            raise Stop

    folder = tmp_path / "work"
    with pytest.raises(Stop):
        csrr.CSRR(**GIVEN, engine=make_engine(cluster, folder)).fit(events[0], callback=stop)
    assert (folder / "checkpoint.npz").exists()
    model = csrr.CSRR(**GIVEN, engine=make_engine(cluster, folder, resume=True)).fit(events[0])
    assert model.certificate_.primal == pytest.approx(fitted[0].certificate_.primal, rel=2 * GIVEN["tol"])
    assert model.certificate_.iterations < fitted[0].certificate_.iterations


def test_a_killed_scheduler(cluster, events, fitted, tmp_path):
    """The fit ends with a message, and goes on with another scheduler."""
    first = DaskEngine(n_workers=1, folder=tmp_path / "work", block_events=600)

    def kill(step):
        if step.iteration == 5:
            os.kill(first.client.run_on_scheduler(os.getpid), signal.SIGKILL)

    try:
        with pytest.raises(EngineError, match="csrr fit --resume"):
            csrr.CSRR(**GIVEN, engine=first).fit(events[0], callback=kill)
    finally:
        first.close()
    model = csrr.CSRR(**GIVEN, engine=make_engine(cluster, tmp_path / "work", resume=True)).fit(events[0])
    assert model.certificate_.iterations < fitted[0].certificate_.iterations


def test_what_cannot_be(cluster, events, tmp_path):
    with pytest.raises(csrr.ParameterError, match="half_life=3 needs the log on one machine"):
        csrr.CSRR(half_life=3).fit(events[0], client=cluster)
    with pytest.raises(csrr.ParameterError, match="hold_out='random' needs"):
        csrr.CSRR(order="next", hold_out="random").fit(events[0], client=cluster)
    with pytest.raises(csrr.DataError, match="what came first is unknown"):
        csrr.CSRR(order="next").fit(dask_frame(events[0])[["user", "movie"]], client=cluster)
    with pytest.raises(csrr.ParameterError, match="no Dask scheduler answers at"):
        csrr.CSRR().fit(events[0], client="tcp://127.0.0.1:1")
    with pytest.raises(csrr.ParameterError, match="CSRRe cannot be fitted to a log on many machines"):
        csrr.CSRRe().fit(events[0], client=cluster)
    with pytest.raises(csrr.DataError, match="no Parquet files"):
        csrr.CSRR().fit(tmp_path, client=cluster)
    with pytest.raises(csrr.ParameterError, match="cannot fit EASE"):
        csrr.EASE(engine="dask").fit(events[1])
    with pytest.raises(csrr.ParameterError, match="start= is for logs on one machine"):
        csrr.CSRR().fit(events[0], client=cluster, start=csrr.CSRR(**GIVEN).fit(events[1]))
    with pytest.raises(csrr.DataError, match="Dask DataFrame"):
        csrr.EASE().fit(dask_frame(events[0]))


def test_a_scheduler_may_talk_for_ever(cluster):
    """What it says goes into a pipe, which was full after some hundred tasks; then it waited for ever."""

    def talk():
        import sys

        for _ in range(4000):
            print("." * 100, file=sys.stderr, flush=True)

    assert cluster.run_on_scheduler(talk) is None
    assert cluster.submit(int, 3).result(timeout=60) == 3


def test_other_versions_are_refused(cluster, monkeypatch):
    monkeypatch.setattr("csrr.numerics.dask_cluster.get_version", lambda: "0.0.1")
    with pytest.raises(EngineError, match="install the same version"):
        DaskEngine(cluster).client  # noqa: B018
