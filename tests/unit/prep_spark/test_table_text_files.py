"""Local files cut into splits: every line once, whatever the cuts, the line ends and the compression."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.prep_spark import text_files
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.frames import Split, attempted, results
from riprap.prep_spark.reading import Lines
from riprap.prep_spark.text_files import are_local, first_lines, line_batches, local_splits


def lines_in(batches: list[Lines]) -> list[bytes]:
    return [batch.line(number) for batch in batches for number in range(batch.num_rows)]


def lines_of(splits: list[Split]) -> list[bytes]:
    return [line for split in splits for line in lines_in(list(line_batches(text_files._chunks(split))))]


@given(st.lists(st.binary(max_size=6).filter(lambda line: not set(line) & {10, 13}), max_size=12), st.data())
def test_chunks_give_the_lines_of_the_whole(lines: list[bytes], data: st.DataObject) -> None:
    end = data.draw(st.sampled_from([b"\n", b"\r\n"]))
    text = b"".join(line + end for line in lines) + data.draw(st.sampled_from([b"", b"last"]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]
    expected = [*lines, b"last"] if text.endswith(b"last") else lines
    assert lines_in(list(line_batches(chunks))) == expected


@pytest.mark.parametrize("size", [1, 7, 50, 10_000])
def test_splits_hold_every_line_once_and_in_order(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "SPLIT_BYTES", size)
    lines = [b"%d" % number * (number % 5) for number in range(100)]
    (tmp_path / "b.csv").write_bytes(b"\n".join(lines))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    (tmp_path / "_SUCCESS").write_bytes(b"x")
    (tmp_path / ".b.csv.crc").write_bytes(b"x")
    (tmp_path / "c.csv").write_bytes(b"")
    splits = local_splits(str(tmp_path))
    assert lines_of(splits) == lines + lines
    assert [split.partition for split in splits] == [*range(len(splits))]
    assert len(splits) > 100 // size
    assert first_lines(splits[0], 3) == lines[:3]


@pytest.mark.parametrize(
    ("source", "local"),
    [
        ("a/b.csv", True), ("file:///a/b*.csv", True), ("x.csv.gz", True), ("s3a://bucket/x.csv", False),
        ("hdfs://host:9000/x", False), ("x.csv.bz2", False), ("{a,b}.csv", False),
    ],
)  # fmt: skip
def test_what_we_read_ourselves(source: str, local: bool) -> None:
    assert are_local(source) == local


def test_a_refusal_in_a_worker_comes_back(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"a" * 1000)[:-9])
    (split,) = local_splits(str(tmp_path))
    made = attempted(lambda place, split, batches: list(batches), 0, split, line_batches(text_files._chunks(split)))
    with pytest.raises(PrepError, match="ends in the middle of its compressed data"):
        results([1, made])
