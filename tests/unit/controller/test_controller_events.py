"""The event log: whole lines, whoever writes at the same time."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from pathlib import Path

import numpy as np
import pytest

from riprap.codec.events import EventLog
from riprap.engine.run_directory.directory import read_events


def write_many(path: Path, writer: int) -> None:
    log = EventLog(path)
    for number in range(200):
        log.write("event", writer=writer, number=number, padding="x" * 1000)
    log.close()


def test_lines_of_several_processes_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "events.jsonl"
    processes = [multiprocessing.get_context("spawn").Process(target=write_many, args=(path, n)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(events) == 600
    for writer in range(3):
        assert [event["number"] for event in events if event["writer"] == writer] == list(range(200))


def test_fields_win_over_the_standard_ones_and_numpy_becomes_numbers(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    before = time.monotonic()
    log.write("detected", count=np.int64(3), path=tmp_path)
    log.write("restored", monotonic=1.5)
    first, second = map(json.loads, (tmp_path / "events.jsonl").read_text().splitlines())
    assert (first["event"], first["count"], first["path"], first["pid"]) == ("detected", 3, str(tmp_path), os.getpid())
    assert before <= first["monotonic"] <= time.monotonic()
    assert second["monotonic"] == 1.5


def test_a_full_log_is_begun_anew_by_whoever_writes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riprap.codec.events.BYTES_MAX", 2_000)
    logs = [EventLog(tmp_path / "events.jsonl") for _ in range(3)]
    for number in range(300):
        logs[number % 3].write("something", number=number)
        sizes = [path.stat().st_size for path in tmp_path.iterdir()]
        assert sum(sizes) < 3 * 2_000
    numbers = [event["number"] for event in read_events(tmp_path)]
    assert sorted(numbers) == list(range(min(numbers), 300)) and len(numbers) > 10, "the newest, and none is missing"
    for log in logs:
        log.close()


def test_a_log_that_is_begun_anew_while_it_is_read_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("riprap.codec.events.BYTES_MAX", 2_000)
    log = EventLog(path := tmp_path / "events.jsonl")
    written = 0

    def write_until_it_is_begun_anew() -> None:
        nonlocal written
        begun = path.stat().st_ino
        while path.stat().st_ino == begun:
            log.write("something", number=written)
            written += 1

    write_until_it_is_begun_anew()
    log.write("something", number=written)
    written += 1
    before, reading = written, read_events(tmp_path)
    numbers = [next(reading)["number"]]
    write_until_it_is_begun_anew()
    numbers += [event["number"] for event in reading]
    assert numbers[:before] == list(range(before))
    log.close()


def test_a_log_that_is_begun_anew_as_it_is_opened_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    log.write("first")
    log.close()
    path.with_name("events.jsonl.old").hardlink_to(path)
    assert [event["event"] for event in read_events(tmp_path)] == ["first"]
