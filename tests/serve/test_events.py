"""Events are on the disk before they are acknowledged, and every worker knows of them."""

import asyncio
import errno
import json
import os
from itertools import count

import pytest

import csrr
from csrr.serve import events as module
from csrr.serve.events import Event, EventFiles, StoreError


def run(work):
    return asyncio.run(work)


async def use(store, work):
    await store.open()
    try:
        return await work(store)
    finally:
        await store.close()


def lines(folder):
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def test_what_is_acknowledged_is_in_a_file_that_was_synced(tmp_path, monkeypatch):
    synced = {}

    def note(file):
        synced[os.fstat(file).st_ino] = os.fstat(file).st_size

    monkeypatch.setattr(module.os, "fdatasync", note)

    async def work(store):
        await store.append([Event(user=1, item=2, time=3.0)])
        await store.append([Event(user=1, item=4, time=4.0), Event(session="s", item=5, time=4.0)])
        for path in tmp_path.rglob("*.jsonl"):
            assert synced[path.stat().st_ino] == path.stat().st_size > 0

    run(use(EventFiles(tmp_path), work))
    assert lines(tmp_path) == [{"user": 1, "item": 2, "time": 3.0}, {"user": 1, "item": 4, "time": 4.0}]
    assert lines(tmp_path / "sessions") == [{"session": "s", "item": 5, "time": 4.0}]


def test_those_that_come_together_share_a_sync(tmp_path, monkeypatch):
    syncs = []
    real = os.fdatasync
    monkeypatch.setattr(module.os, "fdatasync", lambda file: syncs.append(real(file)))

    async def work(store):
        await asyncio.gather(*(store.append([Event(user=n, item=1, time=0.0)]) for n in range(200)))

    run(use(EventFiles(tmp_path), work))
    assert len(lines(tmp_path)) == 200
    assert len(syncs) <= 3


def test_another_worker_knows_at_once_and_a_later_one_too(tmp_path):
    async def work():
        one, two = EventFiles(tmp_path, 0), EventFiles(tmp_path, 1)
        await one.open()
        await two.open()
        await one.append([Event(user="a", item=1, time=0.0), Event(session="a", item=9, time=0.0)])
        await two.append([Event(user="a", item=2, time=1.0)])
        for store in (one, two):
            assert [event.item for event in await store.recent("a", None)] == [1, 2]
            assert [event.item for event in await store.recent(None, "a")] == [9]
        await one.close()
        await two.close()
        three = EventFiles(tmp_path, 0)
        await three.open()
        assert sorted(event.item for event in await three.recent("a", None)) == [1, 2]
        await three.close()

    run(work())


def test_a_full_disk_refuses_and_leaves_whole_lines(tmp_path, monkeypatch):
    real, room = os.write, [30]

    def write(file, data):
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        n = real(file, data[: room[0]])
        room[0] -= n
        return n

    async def work(store):
        room[0] = 1000
        await store.append([Event(user=1, item=1, time=0.0)])
        room[0] = 30
        with pytest.raises(StoreError, match="No space left"):
            await store.append([Event(user=2, item=2, time=0.0), Event(user=3, item=3, time=0.0)])
        room[0] = 1000
        await store.append([Event(user=4, item=4, time=0.0)])
        assert [event.item for event in await store.recent(4, None)] == [4]

    monkeypatch.setattr(module.os, "write", write)
    monkeypatch.setattr(module.time, "time_ns", count(999_999_990, 7).__next__)  # a second ends
    run(use(EventFiles(tmp_path), work))
    assert [each["user"] for each in lines(tmp_path)] == [1, 4]


def test_too_many_that_wait_are_refused(tmp_path):
    async def work(store):
        asked = [store.append([Event(user=n, item=1, time=0.0)]) for n in range(8)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [isinstance(each, StoreError) for each in found] == [False] * 5 + [True] * 3

    run(use(EventFiles(tmp_path, most_waiting=5), work))
    assert len(lines(tmp_path)) == 5


def test_a_disk_that_stays_full_does_not_fill_the_folder(tmp_path, monkeypatch):
    async def work(store):
        await store.append([Event(user=1, item=1, time=0.0)])
        monkeypatch.setattr(module.os, "write", lambda file, data: (_ for _ in ()).throw(OSError(errno.ENOSPC, "")))
        for _ in range(5):
            with pytest.raises(StoreError):
                await store.append([Event(user=1, item=2, time=0.0)])
        monkeypatch.undo()
        await store.append([Event(user=1, item=3, time=0.0)])
        assert [event.item for event in await store.recent(1, None)] == [1, 3]

    run(use(EventFiles(tmp_path), work))
    assert len(list(tmp_path.glob("*.jsonl"))) == 2


def test_a_file_that_goes_while_files_are_listed(tmp_path, monkeypatch):
    async def work(store):
        await store.append([Event(user=1, item=1, time=0.0), Event(session="s", item=1, time=0.0)])
        real = os.listdir
        monkeypatch.setattr(module.os, "listdir", lambda folder: [*real(folder), "20260101T000000Z-7-0-1.jsonl"])
        assert [event.item for event in await store.recent(1, None)] == [1]
        assert [event.item for event in await store.recent(None, "s")] == [1]

    run(use(EventFiles(tmp_path), work))


def test_only_files_that_may_grow_are_looked_at(tmp_path, monkeypatch):
    """A thousand files of the past must not slow a request, nor may a file's last lines be missed when it ends."""
    looked = []

    async def add(store, item):
        await store.append([Event(user=1, item=item, time=float(item))])

    async def work(reader):
        for item in range(1, 6):
            await use(EventFiles(tmp_path, worker=1), lambda store, item=item: add(store, item))
            assert [event.item for event in await reader.recent(1, None)] == list(range(1, item + 1))
        os.utime(tmp_path, (1, 1))
        await reader.recent(1, None)
        monkeypatch.setattr(module.os, "fstat", lambda file: looked.append(file) or os.stat(file))
        await reader.recent(1, None)
        assert len(looked) == 1

    run(use(EventFiles(tmp_path, worker=0), work))


def test_a_line_that_was_cut_is_cut_off_by_the_next_of_that_worker(tmp_path):
    async def write(store):
        await store.append([Event(user=1, item=1, time=0.0)])

    run(use(EventFiles(tmp_path), write))
    (file,) = tmp_path.glob("*.jsonl")
    whole = file.read_text()
    file.write_text(whole + '{"user": 1, "it')

    async def read(store):
        assert [event.item for event in await store.recent(1, None)] == [1]
        assert file.read_text() == whole

    run(use(EventFiles(tmp_path), read))


def test_files_end_with_their_period_and_may_be_moved_away(tmp_path, monkeypatch):
    now = [7200.0]
    monkeypatch.setattr(module.time, "time", lambda: now[0])

    async def work(store):
        await store.append([Event(user=1, item=1, time=0.0)])
        now[0] += 3600
        await store.append([Event(user=1, item=2, time=0.0)])
        assert len(await store.recent(1, None)) == 2
        first, second = sorted(tmp_path.glob("*.jsonl"))
        assert (first.name[:16], second.name[:16]) == ("19700101T020000Z", "19700101T030000Z")
        first.rename(tmp_path / "done")
        assert [event.item for event in await store.recent(1, None)] == [2]
        now[0] += 10
        await store.append([Event(user=1, item=3, time=0.0)])
        assert len(second.read_text().splitlines()) == 2

    run(use(EventFiles(tmp_path), work))


def test_sessions_are_forgotten_after_a_day(tmp_path):
    async def write(store):
        await store.append([Event(session="s", item=1, time=0.0), Event(user=1, item=1, time=0.0)])

    run(use(EventFiles(tmp_path), write))
    for path in tmp_path.rglob("*.jsonl"):
        os.utime(path, (1, 1))

    async def read(store):
        assert list(await store.recent(None, "s")) == []
        assert len(await store.recent(1, None)) == 1

    run(use(EventFiles(tmp_path), read))


def test_events_of_several_workers_are_in_the_order_of_time(tmp_path):
    async def work():
        one, two = EventFiles(tmp_path, 0), EventFiles(tmp_path, 1)
        await one.open()
        await two.open()
        for at, store in enumerate((two, one, two, one)):
            await store.append([Event(user=1, item=at, time=100.0 + at)])
        assert [event.item for event in await one.recent(1, None)] == [0, 1, 2, 3]
        await one.close()
        await two.close()

    run(work())


def test_an_update_reads_them(tmp_path, model_file):
    model = csrr.load(model_file)
    new = [item for item in range(40) if item not in model.seen_.indices[model.seen_.indptr[7] : model.seen_.indptr[8]]]

    async def work(store):
        await store.append([Event(user=7, item=item, time=1e9 + item) for item in new[:3]])

    run(use(EventFiles(tmp_path), work))
    (file,) = tmp_path.glob("*.jsonl")
    before = model.seen_.nnz
    model.update(csrr.read(file))
    assert model.seen_.nnz == before + 3


def test_memory_of_one_user_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_RECENT", 10)

    async def work(store):
        for n in range(100):
            await store.append([Event(user=1, item=n, time=0.0)])
        recent = await store.recent(1, None)
        assert len(recent) <= 20
        assert [event.item for event in recent][-10:] == list(range(90, 100))

    run(use(EventFiles(tmp_path), work))
