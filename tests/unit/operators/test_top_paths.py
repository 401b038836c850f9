"""The most frequent paths of the last windows beside a count in plain Python, with tasks that die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.states import pack_keys
from riprap.operators.tables import Schema
from riprap.operators.text.top_paths import CountPaths, ReadRequests, TopPaths, requests_of
from tests.unit.operators.dataflow_harness import Outbox, Pipeline, input_items

Request = tuple[int, bytes]
PATHS = st.text("/ab,0\xe9", max_size=4).map(str.encode)
REQUESTS = st.lists(st.tuples(st.integers(0, 10**17), PATHS), min_size=1, max_size=20)
N, LAST = 3, 2


def lines_of(requests: Sequence[Request]) -> list[bytes]:
    return [b"897%d,%d,%s" % (place, server, path) for place, (server, path) in enumerate(requests)]


def texts(data: np.ndarray, offsets: np.ndarray) -> list[bytes]:
    return [data[a:b].tobytes() for a, b in zip(offsets.tolist(), offsets[1:].tolist(), strict=False)]


@settings(max_examples=200, deadline=None)
@given(REQUESTS)
def test_servers_and_paths_are_those_of_the_lines(requests: list[Request]) -> None:
    servers, paths = requests_of(*pack_keys(lines_of(requests)))
    assert list(zip(servers.tolist(), texts(*paths), strict=True)) == requests


@pytest.mark.parametrize(
    "line", [b"x", b"1,2", b"1,,/a", b"1,a2,/a", b"1,2x,/a", b"1,-2,/a", b"1," + b"9" * 19 + b",/a"]
)
def test_a_line_that_is_no_request_is_named(line: bytes) -> None:
    source, lines = ReadRequests(), pack_keys([b"1,2,/a", line, b"1,2,/b,c"])
    with pytest.raises(DataError, match="time,server,path") as told:
        source.prepare(input_items(1, *lines, count=3))
    assert repr(line.decode()[:80]) in str(told.value)


def test_a_matrix_is_no_input() -> None:
    with pytest.raises(DataError, match="no lines"):
        ReadRequests().prepare(input_items(1, np.zeros((2, 3)), count=2))


def test_requests_need_one_stage_to_go_to() -> None:
    with pytest.raises(ConfigError, match="2 stages"):
        ReadRequests().open(Context(downstream={"a": 1, "b": 1}))


def line(theta: float = np.inf) -> Pipeline:
    stages = [("read", ReadRequests, 1), ("count", CountPaths, 3), ("merge", CountPaths, 1)]
    return Pipeline([*stages, ("top", lambda: TopPaths(n=N, windows=LAST), 1)], theta)


def windows(seed: int) -> list[list[Request]]:
    """Some windows, one of them empty; a few paths are frequent and counts are often equal."""
    rng = np.random.default_rng(seed)
    drawn = [(int(rng.integers(9)), b"/%d" % (rng.zipf(1.5) % 12)) for _ in range(120)]
    return [drawn[:30], drawn[30:33], [], drawn[33:90], drawn[90:]]


def expected(parts: Sequence[Sequence[Request]]) -> list[tuple[bytes, int]]:
    counts = Counter(path for part in parts[-LAST:] for _, path in part)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:N]


@pytest.mark.parametrize("dying", [None, (1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("seed", range(4))
def test_each_window_has_the_most_frequent_paths_of_the_last_ones(seed: int, dying: tuple[int, int] | None) -> None:
    """A task that dies has been saved item by item (theta 0), as exact schemes promise."""
    job, parts = line(np.inf if dying is None else 0.0), windows(seed)
    for number, part in enumerate(parts, 1):
        for piece in (part[: len(part) // 2], part[len(part) // 2 :]):
            if piece:
                job.feed(0, *pack_keys(lines_of(piece)), count=len(piece))
            if dying:
                job.task(*dying).fail()
        job.close()
        name, found = job.task(3).out.written[-1]
        assert name == "top" and len(job.task(3).out.written) == number
        got = list(zip(texts(found["paths"], found["offsets"]), found["counts"].tolist(), strict=True))
        assert got == expected(parts[:number])


def test_requests_of_a_server_go_to_one_task() -> None:
    source, out = ReadRequests(), Outbox()
    source.open(Context(downstream={"count": 4}))
    requests = [(server, b"/%d" % server) for server in range(40)] * 2
    source.process_data(source.prepare(input_items(1, *pack_keys(lines_of(requests)), count=80)), 0, out)
    paths = [texts(*arrays) for arrays, _, _, _ in out.sent]
    assert [to for _, _, to, _ in out.sent] == [0, 1, 2, 3] and sum(map(len, paths)) == 80
    assert sorted(len(set(some)) for some in paths) == sorted(len(some) // 2 for some in paths)


def test_the_last_windows_are_shown_and_counted() -> None:
    job = line()
    job.feed(0, *pack_keys(lines_of([(1, b"/b"), (2, b"/a"), (1, b"/a")])), count=3)
    job.close()
    top = job.task(3).operator
    assert isinstance(top, TopPaths) and top.metrics() == {"distinct_paths": 2.0}
    shown = TopPaths.tables([top.results()], Schema())["top"].columns
    assert shown["path"].tolist() == ["/a", "/b"] and shown["count"].tolist() == [2, 1]
    for wrong in ({"n": 0}, {"windows": 0}):
        with pytest.raises(ConfigError):
            TopPaths(**wrong)
