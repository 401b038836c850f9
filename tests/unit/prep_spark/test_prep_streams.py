"""The jobs for packets and text, and what they are made of: merging by time, finding lines, a whole run on Spark."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packet_builder import ethernet, ipv4, pcap, udp
from whole_captures import read_capture

from riprap.operators.inputs.job_input import open_input
from riprap.operators.inputs.raw_text import split_lines as raw_lines
from riprap.prep_spark import graph, packets, synth, text
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.lines import part_of, pieces, split_lines
from riprap.prep_spark.packet_records import DTYPE
from riprap.prep_spark.time_order import cut, merged, sort_file

TIMES = st.lists(st.lists(st.integers(-5, 5)), min_size=1, max_size=5).filter(any)


def runs_of(times: list[list[int]]) -> list[np.ndarray]:
    """Records of these times, each with a number of its own as its flow."""
    runs, number = [], 0
    for run in times:
        records = np.zeros(len(run), DTYPE)
        records["time_ns"] = run
        records["flow"] = np.arange(number, number + len(run))
        runs.append(records)
        number += len(run)
    return runs


@given(TIMES, st.integers(1, 7))
def test_shards_cut_apart_are_the_stable_merge(times: list[list[int]], shard_rows: int) -> None:
    runs = [run[np.argsort(run["time_ns"], kind="stable")] for run in runs_of(times) if len(run)]
    everything = np.concatenate(runs)
    expected = everything[np.argsort(everything["time_ns"], kind="stable")]
    ranks = [*range(0, len(expected), shard_rows), len(expected)]
    bounds = [cut([run["time_ns"] for run in runs], rank) for rank in ranks]
    assert [sum(bound) for bound in bounds] == ranks
    shards = [merged([run[low:high] for run, low, high in zip(runs, lows, highs)]) for lows, highs in pairwise(bounds)]
    np.testing.assert_array_equal(np.concatenate(shards), expected)


def test_a_file_is_sorted_in_place_and_stably(tmp_path: Path) -> None:
    (run,) = runs_of([[3, 1, 2, 1, 3, 0] * 20_000])
    run.tofile(tmp_path / "x")
    sort_file(str(tmp_path / "x"), DTYPE)
    expected = run[np.argsort(run["time_ns"], kind="stable")]
    np.testing.assert_array_equal(np.fromfile(tmp_path / "x", DTYPE), expected)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


TEXTS = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b"\xff\xfe", b" ", b"\n\n"])).map(b"".join)


def by_loop(data: bytes) -> tuple[list[bytes], int]:
    """The lines that are not empty, and how many are."""
    lines = [line.removesuffix(b"\n").removesuffix(b"\r") for line in data.split(b"\n")]
    lines = lines[:-1] if data.endswith(b"\n") or not data else lines
    return [line for line in lines if line], sum(not line for line in lines)


def lines_of(text: np.ndarray, lengths: np.ndarray) -> list[bytes]:
    ends = np.cumsum(lengths)
    assert len(text) == lengths.sum()
    return [text[end - length : end].tobytes() for end, length in zip(ends, lengths)]


@given(TEXTS)
def test_lines_are_those_of_a_loop_and_of_the_reader_of_raw_text(data: bytes) -> None:
    found = split_lines(data)
    assert (lines_of(found.text, found.lengths), found.empty) == by_loop(data)
    octets, offsets = raw_lines(np.frombuffer(data, np.uint8))
    np.testing.assert_array_equal(octets, found.text)
    np.testing.assert_array_equal(np.diff(offsets), found.lengths)


@given(TEXTS, st.integers(1, 9), st.integers(1, 9))
def test_parts_of_a_text_make_up_the_whole(data: bytes, part_bytes: int, chunk_bytes: int) -> None:
    found: list[bytes] = []
    empty = 0
    for start in range(0, len(data), part_bytes):
        chunks = list(part_of(io.BytesIO(data), start, min(start + part_bytes, len(data)), chunk_bytes))
        for piece in pieces(chunks):
            found += lines_of(piece.text, piece.lengths)
            empty += piece.empty
    assert (found, empty) == by_loop(data)


Job = Callable[..., dict[str, Any]]


@pytest.fixture
def stream_job(spark: Any, tmp_path: Path) -> Job:
    """Run a job on tmp_path/raw/*, into tmp_path/out."""

    def run(module: Any, **options: Any) -> dict[str, Any]:
        arguments = {"inputs": [str(tmp_path / "raw" / "*")], "out": str(tmp_path / "out"), "report": lambda line: None}
        return module.run(**arguments | options)

    (tmp_path / "raw").mkdir()
    return run


def read_all(path: Path) -> tuple[np.ndarray, ...]:
    whole = open_input(path)
    return whole.read(0, whole.items)


def test_packets_become_one_stream_in_the_order_of_time(stream_job: Job, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    synth.pcap(str(raw / "a.pcap.gz"), 3000, city=0)
    synth.pcap(str(raw / "b.pcap"), 2000, city=1)
    (raw / "c.pcap").write_bytes(pcap([ethernet(ipv4(udp())), ethernet(b"", 0x0806)])[:-3])
    counts = stream_job(packets, shard_rows=1000)
    records = np.concatenate([read_capture(str(path))[0] for path in sorted(raw.iterdir())])
    expected = records[np.argsort(records["time_ns"], kind="stable")]
    np.testing.assert_array_equal(read_all(tmp_path / "out")[0], expected)
    assert (counts["read"], counts["kept"], counts["skipped"]["cut"]) == (5002, len(records), 1)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["counts"] == {key: counts[key] for key in ("read", "kept", "skipped")}
    assert [shard["rows"] for shard in manifest["shards"]][:-1] == [1000] * (len(records) // 1000)
    assert [Path(file).name for file in manifest["source"]["files"]] == ["a.pcap.gz", "b.pcap", "c.pcap"]


def test_files_are_dealt_to_streams_that_share_destinations(stream_job: Job, tmp_path: Path) -> None:
    for number in range(4):
        synth.pcap(str(tmp_path / "raw" / f"{number}.pcap"), 2000, seed=1 + number // 2, city=number % 2)
    counts = stream_job(packets, split=2)
    streams = [read_all(tmp_path / "out" / f"stream-{number}")[0] for number in range(2)]
    assert counts["rows"] == {"stream-0": len(streams[0]), "stream-1": len(streams[1])}
    for number, records in enumerate(streams):
        assert (np.diff(records["time_ns"]) >= 0).all()
        assert set(records["source"][:, 12]) == {100 + number}
    first, second = (set(map(bytes, records["destination"])) for records in streams)
    assert first & second and first - second and second - first


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({}, {}, "names no file"),
        (
            {"a": b"GIF89a, not a capture at all"},
            {},
            r"raw/a: expected a capture, pcap or pcapng; found .* 47 49 46 38",
        ),
        ({"a": pcap([ethernet(b"", 0x0806)])}, {}, r"no packet is left of 1: \{'not_ip': 1\}"),
        ({"a": pcap([ethernet(ipv4())])}, {"split": 2}, "--split is 2, but there are 1 files"),
        ({"a": b""}, {"split": 0}, "--split is 0; expected a positive number"),
        ({"a": b""}, {"shard_rows": 0}, "--shard-rows is 0"),
    ],
)
def test_packets_that_cannot_be_prepared(
    stream_job: Job, tmp_path: Path, files: dict[str, bytes], options: dict[str, int], message: str
) -> None:
    for name, data in files.items():
        (tmp_path / "raw" / name).write_bytes(data)
    with pytest.raises(PrepError, match=message) as caught:
        stream_job(packets, **options)
    assert caught.value.remedy
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_text_becomes_lines(stream_job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = tmp_path / "raw"
    synth.text(str(raw / "b.txt"), 5000)
    (raw / "a.txt.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfone\r\n\r\n\xff\xfe\n\n", mtime=0))
    (raw / "c.txt").write_bytes(b"\n\nlast")
    (raw / "d.txt").write_bytes(b"")
    monkeypatch.setattr("riprap.prep_spark.text.PART_BYTES", 10_000)
    counts = stream_job(text, shard_rows=1000)
    expected = [b"\xef\xbb\xbfone", b"\xff\xfe", *(raw / "b.txt").read_bytes().splitlines(), b"last"]
    octets, offsets = read_all(tmp_path / "out")
    assert [octets[low:high].tobytes() for low, high in pairwise(offsets)] == expected
    assert (counts["read"], counts["kept"], counts["dropped"], counts["shards"]) == (5007, 5003, {"empty": 4}, 6)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [shard["rows"] for shard in manifest["shards"]] == [1000] * 5 + [3]
    raw_octets, raw_offsets = read_all(raw)
    np.testing.assert_array_equal(raw_octets, octets)
    np.testing.assert_array_equal(raw_offsets, offsets)


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"\n\r\n\n", "no line is left: all 3 are empty"), (b"", "is empty"),
     (gzip.compress(b"one\n", mtime=0)[:-3], "in the middle of its compressed data")],
)  # fmt: skip
def test_text_that_cannot_be_prepared(stream_job: Job, tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "raw" / "a").write_bytes(data)
    with pytest.raises(PrepError, match=message):
        stream_job(text)
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def edges_read(path: Path) -> list[bytes]:
    octets, offsets = read_all(path)
    return [octets[low:high].tobytes() for low, high in pairwise(offsets)]


def test_lists_of_edges_lose_all_but_edges(stream_job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = tmp_path / "raw"
    (raw / "a.txt.gz").write_bytes(gzip.compress(b"# SNAP\r\n0\t11\r\n\r\n 1\t2 \n", mtime=0))
    (raw / "b.csv").write_bytes(b"3,4,-1,1082040961\n5;6\n  \n% x\n7 8 2.5")
    synth.graph(str(raw / "c.txt"), 2000)
    monkeypatch.setattr("riprap.prep_spark.text.PART_BYTES", 5_000)
    counts = stream_job(graph, shard_rows=1000)
    drawn = (raw / "c.txt").read_bytes().splitlines()
    assert edges_read(tmp_path / "out") == [b"0 11", b"1 2", b"3 4", b"5 6", b"7 8", *drawn]
    assert (counts["read"], counts["kept"], counts["dropped"]) == (2009, 2005, {"comments": 2, "empty": 2})
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["dataset"] == "graph"


def test_edges_have_lengths_where_they_are_asked_for(stream_job: Job, tmp_path: Path) -> None:
    bad = b"1 2\n1 2 -3\n1 2 x\n9007199254740992 1 1\na 2 3\n-1 2 3\n1.5 2 3\n"
    (tmp_path / "raw" / "a").write_bytes(b"1 2 3\n4 5 0.25 77\n6,7,1e-3\n" + bad)
    counts = stream_job(graph, lengths=True, bad_rows="drop")
    assert edges_read(tmp_path / "out") == [b"1 2 3", b"4 5 0.25", b"6 7 1e-3"]
    assert counts["dropped"] == {"empty": 0, "malformed": 7}


@pytest.mark.parametrize(("first", "dropped"), [(b"1 2", {}), (b"# from to", {"comments": 1})])
def test_a_mark_of_the_byte_order_is_no_part_of_an_edge(first: bytes, dropped: dict[str, int]) -> None:
    edges, why = graph.edges_of(split_lines(b"\xef\xbb\xbf%s\n3 4\n" % first), False, False)
    assert (edges.text.tobytes(), why) == (b"3 4" if dropped else b"1 23 4", dropped)


def test_a_number_of_thousands_of_digits_is_no_vertex() -> None:
    edges, dropped = graph.edges_of(split_lines(b"1 %s 3\n4 5 6\n" % (b"9" * 5000)), True, True)
    assert edges.text.tobytes() == b"4 5 6" and dropped == {"malformed": 1}


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (b"1 2\n3\n", {}, r"raw/a: expected `from to`, .* found '3'"),
        (b"1 2\n", {"lengths": True}, "expected `from to length`"),
        (b"one two\n# x\n", {"bad_rows": "drop"}, "no line is left: all 2 are comments or malformed"),
        (b"1 2\n", {"bad_rows": "keep"}, "--bad-rows is 'keep'"),
    ],
)
def test_lists_of_edges_that_cannot_be_prepared(
    stream_job: Job, tmp_path: Path, data: bytes, options: dict[str, Any], message: str
) -> None:
    (tmp_path / "raw" / "a").write_bytes(data)
    with pytest.raises(PrepError, match=message) as caught:
        stream_job(graph, **options)
    assert caught.value.remedy
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_what_is_there_is_not_overwritten(stream_job: Job, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    for module in (graph, packets, text):
        with pytest.raises(PrepError, match="already exists"):
            stream_job(module)


@pytest.mark.parametrize("write", [synth.text, synth.pcap])
def test_the_same_seed_synthesizes_the_same_bytes(write: Callable[..., int], tmp_path: Path) -> None:
    sizes = [write(str(tmp_path / name), 5000, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2), ("d.gz", 1))]
    files = [(tmp_path / name).read_bytes() for name in "abc"]
    assert files[0] == files[1] != files[2]
    assert gzip.decompress((tmp_path / "d.gz").read_bytes()) == files[0]
    assert sizes[0] == len(files[0])


def test_synthesized_words_follow_zipf(tmp_path: Path) -> None:
    size = synth.text(str(tmp_path / "a"), 20_000)
    assert 45 < size / 20_000 < 55
    counts = [count for _, count in Counter((tmp_path / "a").read_text().split()).most_common(100)]
    assert 1.6 < counts[0] / counts[1] < 2.4
    assert 50 < counts[0] / counts[99] < 200


def test_synthesized_packets_are_those_of_a_link(tmp_path: Path) -> None:
    synth.pcap(str(tmp_path / "a"), 20_000)
    records, counts = read_capture(str(tmp_path / "a"))
    assert set(counts) == {"kept", "not_ip"} and counts["kept"] > 19_900
    assert (records["size"].min(), records["size"].max()) == (40, 1500)
    flows = np.sort(np.unique(records["flow"], return_counts=True)[1])[::-1]
    assert 0.05 < flows[0] / len(records) < 0.2 and len(flows) > 5000
    assert set(records["protocol"]) == {6, 17} and 0 < np.count_nonzero(records["flags"] & 0x8000) < 100
    with pytest.raises(PrepError, match="--city is 2"):
        synth.pcap(str(tmp_path / "b"), 10, city=2)
