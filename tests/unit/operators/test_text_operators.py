"""Grep and word count against grep, tr, sort and uniq, and against plain Python with failures (AF Table 3)."""

from __future__ import annotations

import gzip
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import Items
from riprap.operators.states import pack_keys
from riprap.operators.states.base import Backup
from riprap.operators.text.grep import Grep, MergedLines, MergeLines
from riprap.operators.text.text import WordTable, checksum, matching_lines, take_lines
from riprap.operators.text.word_count import CountRecentWords, CountWords, SplitWords
from tests.unit.operators.dataflow_harness import Pipeline, input_items
from tests.unit.operators.plain_words import words_in

Packed = tuple[np.ndarray, np.ndarray]
LINES = st.lists(st.binary(max_size=12) | st.text("abAB '-", max_size=20).map(str.encode), max_size=30)


def packed(lines: list[bytes]) -> Packed:
    ends = np.cumsum([0, *(len(line) for line in lines)], dtype=np.int64)
    return np.frombuffer(b"".join(lines), np.uint8), ends


def unpacked(data: np.ndarray, offsets: np.ndarray) -> list[bytes]:
    return [data[a:b].tobytes() for a, b in zip(offsets.tolist(), offsets[1:].tolist())]


def words_of(lines: list[bytes]) -> Counter[bytes]:
    return Counter(word for line in lines for word in words_in(line))


def counted(line: Pipeline) -> dict[bytes, int]:
    """The words of all tasks; each task's are sorted, and no word is in two."""
    found: dict[bytes, int] = {}
    for task in line.stages[1]:
        results = task.operator.results()
        words = unpacked(results["words"], results["offsets"])
        assert words == sorted(words) and not found.keys() & set(words)
        found |= dict(zip(words, results["counts"].tolist(), strict=True))
    return found


@settings(max_examples=80, deadline=None)
@given(LINES, st.integers(0, 2**63), st.integers(0, 3))
def test_words_are_split_and_counted(lines: list[bytes], seed: int, first: int) -> None:
    data, offsets = packed(lines)
    first = min(first, len(lines))
    words, bounds, counts = WordTable(seed).split(data, offsets, first)
    found = dict(zip(unpacked(words, bounds), counts.tolist(), strict=True))
    assert found == words_of(lines[first:]) and len(counts) == len(found)


def test_many_long_words_and_reuse() -> None:
    table = WordTable()
    lines = [b"x" * (i % 300) + bytes([97 + i // 26 % 26, 97 + i % 26]) for i in range(9000)]
    for _ in range(2):
        data, offsets, counts = table.split(*packed(lines), 0)
        assert dict(zip(unpacked(data, offsets), counts.tolist(), strict=True)) == words_of(lines)


@pytest.mark.parametrize("seed", range(6))
def test_words_end_where_lines_end_wherever_that_is(seed: int) -> None:
    """Longer than what is looked at together: words, lines and the end at every place of it."""
    rng = np.random.default_rng(seed)
    for size in (63, 64, 65, 1023, 1024, 1025, 5000 + seed):
        data = rng.choice(np.frombuffer(b"abcXYZ@[`{ 09/:\xc3\xa9\x89\0", np.uint8), size)
        offsets = np.sort(np.append(rng.integers(0, size + 1, rng.integers(0, 1 + size // 5)), [0, size]))
        if seed % 2:
            data[data < 64] = 97  # long words, but for line ends
        found = WordTable(seed).split(data, offsets, 0)
        words = [word for line in unpacked(data, offsets) for word in words_in(line)]
        assert unpacked(*found[:2]) == list(dict.fromkeys(words)), "in the order of their first occurrence"
        assert dict(zip(unpacked(*found[:2]), found[2].tolist(), strict=True)) == Counter(words)


def test_a_first_line_behind_the_last_leaves_no_words() -> None:
    data, offsets, counts = WordTable().split(*packed([b"a", b"b"]), 3)
    assert (len(data), offsets.tolist(), len(counts)) == (0, [0], 0)


@settings(max_examples=100, deadline=None)
@given(LINES, st.sampled_from([b"a", b"ab", b"aa", b"b a", b"A'"]), st.integers(0, 3))
def test_a_substring_is_found_within_lines_only(lines: list[bytes], needle: bytes, first: int) -> None:
    first = min(first, len(lines))
    expected = [i for i, line in enumerate(lines) if i >= first and needle in line]
    data, offsets = packed(lines)
    numbers = matching_lines(data, offsets, needle, first)
    assert numbers.tolist() == expected
    assert unpacked(*take_lines(data, offsets, numbers)) == [lines[i] for i in expected]


def test_a_match_across_a_line_end_is_none() -> None:
    assert matching_lines(*packed([b"xa", b"", b"bab", b"a", b"b"]), b"ab").tolist() == [2]


@given(LINES)
def test_the_checksum_is_that_of_the_lines_in_any_order(lines: list[bytes]) -> None:
    assert checksum(*packed(lines)) == checksum(*packed(lines[::-1]))
    assert checksum(*packed([*lines, b"one more"])) != checksum(*packed(lines))
    assert checksum(*packed([b"ab", b"c"])) != checksum(*packed([b"a", b"bc"]))


def text_files(folder: Path) -> list[Path]:
    """The books, where they are given, and a small text of our own."""
    own = folder / "own.txt"
    rng = np.random.default_rng(4)
    vocabulary = [
        "the",
        "The",
        "whale",
        "don't",
        "Ishmael",
        "well-known",
        "é",
        "sea",
        "1851",
        "theory",
        "ocean",
        "harpoon",
        "captain",
        "gale",
    ]
    text = "\n".join(" ".join(rng.choice(vocabulary, int(n))) for n in rng.integers(0, 12, 3000))
    own.write_text(text + "\n")
    books = os.environ.get("RIPRAP_BOOKS")
    for book in sorted(Path(books).glob("*.txt.gz")) if books else ():
        (folder / book.stem).write_bytes(gzip.decompress(book.read_bytes()))
    return sorted(folder.glob("*.txt"))


def shell(command: str, path: Path) -> str:
    environment = {"LC_ALL": "C", "PATH": os.environ["PATH"]}
    with path.open("rb") as file:
        done = subprocess.run(["sh", "-c", command], stdin=file, capture_output=True, env=environment, check=False)
    return done.stdout.decode("latin-1")


def feed_file(line: Pipeline, path: Path, tasks: int) -> None:
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
    for number, begin in enumerate(range(0, len(lines), 777)):
        data, offsets = packed(lines[begin : begin + 777])
        line.feed(number % tasks, data, offsets, count=len(offsets) - 1)
    line.close()


def test_word_count_equals_sort_and_uniq(tmp_path: Path) -> None:
    for path in text_files(tmp_path):
        line = Pipeline([("split", lambda: SplitWords(ascii=True), 2), ("count", CountWords, 3)])
        feed_file(line, path, 2)
        listed = shell("tr -cs A-Za-z '\\n' | tr A-Z a-z | sort | uniq -c", path).splitlines()
        pairs = [row.split() for row in listed]
        expected = {pair[1].encode(): int(pair[0]) for pair in pairs if len(pair) == 2}
        assert expected and counted(line) == expected
        assert all(len(task.operator.results()["counts"]) for task in line.stages[1]), "dealt out"
        assert sum(task.operator.metrics()["distinct_words"] for task in line.stages[1]) == len(expected)


@pytest.mark.parametrize("pattern", ["the", "whale sea", "^The", "[Tt]he.*sea$", "(don't|1851) the"])
def test_grep_equals_grep(pattern: str, tmp_path: Path) -> None:
    for path in text_files(tmp_path):
        line = Pipeline([("grep", lambda: Grep(pattern), 2), ("merge", MergeLines, 1)])
        feed_file(line, path, 2)
        expected = shell(f'grep -a -E "{pattern}"', path).encode("latin-1").split(b"\n")[:-1]
        destination = line.task(1)
        assert destination.operator.results()["lines"].tolist() == [len(expected)]
        assert int(destination.operator.results()["checksum"][0]) == checksum(*packed(expected))
        ((name, arrays),) = destination.out.written
        assert name == "lines" and sorted(unpacked(arrays["bytes"], arrays["offsets"])) == sorted(expected)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(1, 8))
def test_counts_after_failures_lack_at_most_theta(seed: int, theta: int, failures: int) -> None:
    rng = np.random.default_rng(seed)
    line = Pipeline([("split", SplitWords, 1), ("count", CountWords, 2)], theta)
    text = [b" ".join(rng.choice([b"a", b"bb", b"c", b"dd", b"e"], 6).tolist()) for _ in range(60)]
    victims = set(rng.integers(0, 60, failures).tolist())
    for number, words in enumerate(text):
        if number in victims:
            line.task(1, int(rng.integers(0, 2))).fail()
        line.feed(0, *packed([words]), count=1)
    found, expected = counted(line), words_of(text)
    assert all(0 <= expected[word] - found.get(word, 0) <= 2 * theta for word in expected), (found, expected)


def test_merged_lines_stop_at_theta_and_come_back() -> None:
    line = Pipeline([("grep", lambda: Grep("a"), 2), ("merge", MergeLines, 1)], theta=2)
    text = [b"a%d" % i for i in range(20)]
    line.feed(1, *packed(text[10:]), count=10)
    assert len(line.task(1).backups) == 3, "ten lines in threes, the last one not saved"
    line.task(1).back_up()
    line.task(1).fail()
    line.feed(0, *packed(text[:10]), count=10)
    line.task(1).fail()
    line.close()
    ((_, arrays),) = line.task(1).out.written or [("", {})]
    kept = unpacked(arrays["bytes"], arrays["offsets"])
    assert kept == text[: len(kept) - 10] + text[10:] and 17 < len(kept) <= 20
    assert line.task(1).operator.results()["lines"].tolist() == [len(kept)]


def test_wrong_options_and_input_are_named() -> None:
    for pattern in ("", "(", 3):
        with pytest.raises(ConfigError, match="pattern"):
            Grep(pattern)  # type: ignore[arg-type]
    split = SplitWords()
    split.open(Context())
    for operator in (split, Grep("a"), Grep("a+")):
        for arrays in (
            (np.zeros(3),),
            (np.zeros(3, np.uint8), np.array([0, 4])),
            (np.zeros(3, np.uint8), np.array([2, 1, 3])),
        ):
            with pytest.raises(DataError, match="no lines"):
                operator.prepare(input_items(1, *arrays))


WRONG = [
    (0, np.zeros(1, np.uint64)),
    (1, np.zeros((1, 2), np.int64)),
    (1, -np.ones((1, 3), np.int64)),
    (3, np.array([0, 9])),
]


@pytest.mark.parametrize("at, array", WRONG)
def test_malformed_backups_of_lines_are_refused(at: int, array: np.ndarray) -> None:
    good = [np.zeros(2, np.uint64), np.array([[1, 0, 1]]), np.zeros(3, np.uint8), np.array([0, 3])]
    MergedLines().recover_state(Backup(True, tuple(good)))
    good[at] = array
    with pytest.raises(ValueError):
        MergedLines().recover_state(Backup(True, tuple(good)))


class Written:
    """An emitter that keeps what is written."""

    def __init__(self) -> None:
        self.files: list[dict[str, np.ndarray]] = []

    def write(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        self.files.append(arrays)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"window": "hopping", "window_epochs": 2}, {"c": 3, "d": 4}),
        ({"window": "sliding", "window_epochs": 3}, {"b": 2, "c": 3, "d": 4}),
        ({"window": "decaying", "factor": 0.5}, {"a": 0.125, "b": 0.5, "c": 1.5, "d": 4.0}),
    ],
)
def test_recent_words_are_those_of_the_last_windows(options: dict[str, Any], expected: dict[str, float]) -> None:
    """Window n brings n times the n-th letter; of hopping windows each that ends is written."""
    operator, out = CountRecentWords(**options), Written()
    for epoch, letter in enumerate((b"a", b"b", b"c", b"d"), 1):
        arrays = (*pack_keys([letter]), np.array([epoch], np.int64))
        assert operator.process_data(Items(epoch, "split", 0, 1, arrays), 0, out) == 1
        operator.process_punctuation(epoch, out)
    found = operator.results()
    assert found["words"].tobytes().decode() == "".join(expected)
    assert found["counts"].tolist() == list(expected.values())
    assert [file["counts"].tolist() for file in out.files] == (
        [[1, 2], [3, 4]] if "hopping" in options.values() else []
    )
    restored = CountRecentWords(**options)
    restored.state.recover_state(operator.state.backup_all())
    assert restored.metrics() == operator.metrics() == {"distinct_words": len(expected)}


@pytest.mark.parametrize("options", [{"window": "none"}, {"window": "sliding", "window_epochs": 0}])
def test_windows_that_there_are_not_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        CountRecentWords(**options)
