"""The pool of threads: in forked and spawned children, in many threads at once, after Ctrl-C, after an error."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import csrr
from csrr._base import threads
from csrr._base.threads import map_ranges, n_threads, use_threads

PATIENCE = 120
HERE = {"fork", "spawn"} & set(multiprocessing.get_all_start_methods())
MODELS = {
    "CSRR": {},
    "CSRRe": {"rank": 4},
    "WRMF": {"reg": 1.0},
    "EASE": {"reg": 10.0},
    "ItemKNN": {},
    "BPRMF": {"epochs": 2},
}


@pytest.fixture(autouse=True)
def several_threads(monkeypatch):
    """As if there were four cores: the pool is used on any machine."""
    monkeypatch.setattr(threads, "available_cores", lambda: 4)


@pytest.fixture(scope="module")
def log():
    return csrr.synthetic(3000, 80, events_per_user=8, rank=3).log


def blas_threads():
    """How many threads each BLAS has that numpy or scipy call; another library may have loaded its own."""
    ours = {each.filepath for each in threads._blas()}
    loaded = ThreadpoolController().select(user_api="blas").lib_controllers
    found = [each.num_threads for each in loaded if each.filepath in ours]
    assert found
    return found


def add(start, stop):
    return sum(range(start, stop))


def sums():
    return map_ranges(add, range(0, 101, 5))


def answers(model):
    """What a model says to some of its users."""
    found = model.recommend(range(0, len(model.users_), 7), k=5)
    return found.items.tolist(), found.scores.tolist()


def fitted_answers(name, log):
    return answers(getattr(csrr, name)(**MODELS[name]).fit(log))


def in_child(pipe, name, log):
    pipe.send((sums(), fitted_answers(name, log)))


@pytest.mark.parametrize("method", sorted(HERE))
def test_a_child_of_a_process_with_a_pool_works(log, method):
    expected = sums(), fitted_answers("ItemKNN", log)
    context = multiprocessing.get_context(method)
    mine, theirs = context.Pipe()
    child = context.Process(target=in_child, args=(theirs, "ItemKNN", log), daemon=True)
    child.start()
    assert mine.poll(PATIENCE), f"no answer from a process made by {method}"
    assert mine.recv() == expected
    child.join(PATIENCE)
    assert child.exitcode == 0


@pytest.mark.skipif("fork" not in HERE, reason="no fork")
def test_a_child_forked_in_the_middle_of_everything_works():
    """The parent holds every lock of ours and has limited BLAS in another thread."""
    threads._pool(4)
    inside, end = threading.Event(), threading.Event()

    def hold():
        with threads._pools_lock, threads._blas_limits._lock:
            inside.set()
            end.wait(PATIENCE)

    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(PATIENCE)
    try:
        context = multiprocessing.get_context("fork")
        mine, theirs = context.Pipe()

        def work():
            with use_threads(4, blas=1):
                theirs.send(sums())

        child = context.Process(target=work, daemon=True)
        child.start()
        assert mine.poll(PATIENCE)
        assert mine.recv() == [add(a, a + 5) for a in range(0, 100, 5)]
        child.join(PATIENCE)
    finally:
        end.set()
        holder.join()


def test_workers_of_loky_work(log):
    loky = pytest.importorskip("joblib.externals.loky")
    expected = fitted_answers("ItemKNN", log)
    executor = loky.ProcessPoolExecutor(max_workers=1, timeout=PATIENCE)
    try:
        assert executor.submit(fitted_answers, "ItemKNN", log).result(timeout=PATIENCE) == expected
    finally:
        executor.shutdown(kill_workers=True)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_eight_threads_get_what_one_gets(log, name):
    model = getattr(csrr, name)(**MODELS[name]).fit(log)
    alone, before = answers(model), blas_threads()
    with ThreadPoolExecutor(8) as executor:
        asked = [executor.submit(answers, model) for _ in range(16)]
        fitted = [executor.submit(fitted_answers, name, log) for _ in range(4)]
        assert [each.result(PATIENCE) for each in asked] == [alone] * 16
        assert [each.result(PATIENCE) for each in fitted] == [alone] * 4
    assert blas_threads() == before


def test_blas_keeps_the_least_limit_and_gets_its_own_back():
    before = blas_threads()
    entered, leave = threading.Event(), threading.Event()

    def one():
        with use_threads(2, blas=1):
            entered.set()
            leave.wait(PATIENCE)

    other = threading.Thread(target=one)
    with use_threads(2, blas=2):
        other.start()
        assert entered.wait(PATIENCE)
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {1}, "the other thread is still inside"
    leave.set()
    other.join()
    assert blas_threads() == before


def test_an_inner_block_has_its_way():
    with use_threads(2, blas=1):
        with use_threads(2, blas=2):
            assert set(blas_threads()) == {2}
        assert set(blas_threads()) == {1}


def test_ranges_inside_a_range_are_run_by_its_thread():
    def nested(start, stop):
        return map_ranges(add, range(start, stop + 1))

    found = map_ranges(nested, range(0, 101, 5))
    assert [sum(each) for each in found] == sums()


def test_what_a_range_raises_is_raised_and_the_rest_is_left():
    ran = []

    def work(start, stop):
        ran.append(start)
        raise ZeroDivisionError(start)

    with pytest.raises(ZeroDivisionError):
        map_ranges(work, range(10_001))
    assert len(ran) <= n_threads()
    assert sums() == [add(a, a + 5) for a in range(0, 100, 5)]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no POSIX signals")
def test_ctrl_c_leaves_the_pool_fit_for_use():
    """Ctrl-C while this thread waits for the others: it gets it, and the next call is answered."""
    main, began, end = threading.get_ident(), threading.Event(), threading.Event()

    def work(start, stop):
        if not began.is_set():
            began.set()
            signal.pthread_kill(main, signal.SIGINT)
        return end.wait(PATIENCE)

    with pytest.raises(KeyboardInterrupt):
        map_ranges(work, range(9))
    end.set()
    assert sums() == [add(a, a + 5) for a in range(0, 100, 5)]


def test_a_fit_that_was_interrupted_leaves_the_model_and_the_limits_as_they_were(log):
    model = csrr.CSRR(reg_low_rank=0.1, neighbors=0, max_iter=30).fit(log)
    before = answers(model), blas_threads(), n_threads()

    def interrupt(step):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        model.fit(log, callback=interrupt)
    assert (answers(model), blas_threads(), n_threads()) == before


def test_a_process_ends_while_its_threads_are_at_work():
    code = (
        "import threading, time\nfrom csrr._base import threads\n"
        "threads.available_cores = lambda: 4\n"
        "began = threading.Event()\n"
        "def work(a, b):\n    began.set()\n    time.sleep(600)\n"
        "threading.Thread(target=threads.map_ranges, args=(work, range(9)), daemon=True).start()\n"
        "began.wait()\nprint('ends')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ends\n", "")


def test_the_number_of_threads_changes_no_bit():
    X = np.random.default_rng(0).random((5000, 3))
    found = []
    for n in (1, 3):
        with use_threads(n):
            found.append(map_ranges(lambda a, b: X[a:b].sum(), range(0, 5001, 100)))
    assert found[0] == found[1]
