"""Bytes of text a second that the kernels of word count and grep take, and lines of numbers: `python -m bench.text`.

Lines of numbers are read by C, or line by line in Python where one of them is odd: here, by an infinity.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.runs import save, table
from riprap.operators.base import Context
from riprap.operators.dataflow import Items, Keys
from riprap.operators.iteration.read_rows import ReadRows
from riprap.operators.keyed import shares
from riprap.operators.panes.timed_lines import TimedLines
from riprap.operators.text.grep import Grep
from riprap.operators.text.word_count import CountWords, SplitWords

WORDS, VOCABULARY, BLOCK_LINES, REPEATS = 2_000_000, 30_000, 8192, 7
NUMBER_LINES, ODD = 200_000, "inf"
TASKS = 7


class Kept:
    """An outlet that keeps its blocks."""

    def __init__(self) -> None:
        self.sent: list[tuple[list[np.ndarray], int]] = []

    def send(self, arrays: list[np.ndarray], count: int, to: int | None = None, stage: str | None = None) -> None:
        self.sent.append((arrays, count))

    def send_by_key(self, keys: Keys, columns: Sequence[np.ndarray] = ()) -> None:
        self.sent += [(list(share.arrays), share.items) for share in shares(keys, list(columns), TASKS)]


def text(first: str = "a") -> tuple[list[Items], list[str], int]:
    """Blocks of lines of eight Zipf-distributed words, the vocabulary by rank, and all bytes.

    Words are of the 26 characters from `first` on.
    """
    rng = np.random.default_rng(1)
    numbers = [ord(first) + rng.integers(0, 26, rng.integers(2, 10)) for _ in range(VOCABULARY)]
    vocabulary = ["".join(map(chr, letters)).encode() for letters in numbers]
    ranks = np.minimum(rng.zipf(1.15, WORDS), VOCABULARY - 1).reshape(-1, 8).tolist()
    lines = [b" ".join(vocabulary[rank] for rank in row) for row in ranks]
    return blocks_of(lines), [word.decode() for word in vocabulary], sum(map(len, lines))


def blocks_of(lines: list[bytes]) -> list[Items]:
    """Blocks as a source of text hands them out."""
    blocks = []
    for begin in range(0, len(lines), BLOCK_LINES):
        part = lines[begin : begin + BLOCK_LINES]
        offsets = np.cumsum([0, *(len(line) for line in part)], dtype=np.int64)
        blocks.append(Items(1, "", 0, len(part), (np.frombuffer(b"".join(part), np.uint8), offsets)))
    return blocks


def rate(work: Callable[[], object], amount: float) -> float:
    """Median amount a second."""
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return amount / statistics.median(seconds)


def splitter(ascii: bool = False) -> SplitWords:
    """A task that sends to `TASKS`."""
    split = SplitWords(ascii)
    split.open(Context(downstream={"count": TASKS}))
    return split


def split_blocks(split: SplitWords, blocks: list[Items]) -> Kept:
    """All blocks through one task."""
    kept = Kept()
    for block in blocks:
        split.process_data(split.prepare(block), 0, kept)  # type: ignore[arg-type]
    return kept


def words_rates(blocks: list[Items], size: int) -> dict[str, float]:
    """MB/s of the text, in both stages; of splitting also for letters of ASCII alone, and for text beyond ASCII."""
    split, plain, kept = splitter(), splitter(ascii=True), split_blocks(splitter(), blocks)
    beyond, _, beyond_size = text("\u0430")
    words = [Items(1, "split", 0, count, tuple(arrays)) for arrays, count in kept.sent]

    def count() -> None:
        totals = CountWords()
        for part in words:
            totals.process_data(part, 0, kept)  # type: ignore[arg-type]

    return {
        "SplitWords, 7 tasks downstream": rate(lambda: split_blocks(split, blocks), size / 1e6),
        "SplitWords, ascii: true": rate(lambda: split_blocks(plain, blocks), size / 1e6),
        "SplitWords, Cyrillic text": rate(lambda: split_blocks(split, beyond), beyond_size / 1e6),
        "CountWords (MB of text)": rate(count, size / 1e6),
    }


def grep_rate(blocks: list[Items], size: int, pattern: str) -> float:
    """MB/s."""
    grep = Grep(pattern)
    return rate(lambda: [grep.process_data(grep.prepare(block), 0, Kept()) for block in blocks], size / 1e6)  # type: ignore[arg-type]


def number_rates(last: str = "") -> dict[str, float]:
    """M lines/s; with `last` for the last number of each line."""
    timed, rows = TimedLines(value=2), ReadRows()
    of_three = blocks_of([f"{n // 7},{n * 7919 % 5000},{last or n % 97 / 4}".encode() for n in range(NUMBER_LINES)])
    of_two = blocks_of([f"{n * 7919 % 50_000} {last or n * 104_729 % 50_000}".encode() for n in range(NUMBER_LINES)])
    to: Any = Kept()
    return {
        "TimedLines, time,key,value": rate(lambda: [timed.prepare(one) for one in of_three], NUMBER_LINES / 1e6),
        "ReadRows, two numbers": rate(lambda: [rows.process_data(one, 0, to) for one in of_two], NUMBER_LINES / 1e6),
    }


def main() -> None:
    """Print and save."""
    blocks, vocabulary, size = text()
    rates = words_rates(blocks, size)
    for caption, pattern in (
        ("a frequent word", vocabulary[3]),
        ("a rare word", vocabulary[3000]),
        ("two letters", "qz"),
    ):
        rates[f"Grep, {caption}"] = grep_rate(blocks, size, pattern)
    rates["Grep, a regular expression"] = grep_rate(blocks, size, vocabulary[3000] + "|zz+y")
    caption = f"one core, {size / 1e6:.0f} MB in blocks of {BLOCK_LINES} lines, medians of {REPEATS}"
    tables = {caption: table(["operator", "MB/s"], rates.items())}
    plain, odd = number_rates(), number_rates(ODD)
    lines = [(name, plain[name], odd[name]) for name in plain]
    about = f"lines of numbers, one core, {NUMBER_LINES:,} in such blocks"
    tables[about] = table(["operator", "M lines/s", "where a line is odd"], lines)
    save("text", "Word count and grep", tables, {"text": rates, "lines": plain, "odd lines": odd})


if __name__ == "__main__":
    main()
