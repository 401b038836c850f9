"""The gain of several compute threads in a worker of text operators: `python -m bench.compute_threads`."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable

from bench.runs import save, table
from bench.text import Kept, text
from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.progress import INPUT
from riprap.engine.flow.threads import ComputeThreads
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Items
from riprap.operators.text.grep import Grep
from riprap.operators.text.word_count import SplitWords

THREADS, REPEATS, PASSES = (1, 2, 3), 9, 4


def alone(make: Callable[[], DataflowOperator], blocks: list[Items]) -> float:
    """Seconds for all blocks by nothing but the operator."""
    operator, out = made(make), Kept()
    began = time.perf_counter()
    for items in blocks:
        operator.process_data(operator.prepare(items), 0, out)  # type: ignore[arg-type]
    return time.perf_counter() - began


def threaded(make: Callable[[], DataflowOperator], blocks: list[Items], count: int) -> float:
    """Seconds for all blocks by a worker's compute threads, read ahead as a source does."""
    operator, out = made(make), Kept()
    threads = ComputeThreads(operator, count)
    unread = (Entry(0, INPUT, Block(Kind.DATA, Epoch(1), Key(0, 0, 1, 0), b.count, b.arrays)) for b in blocks)
    ahead: deque[Entry] = deque()
    began = time.perf_counter()
    for _ in blocks:
        while len(ahead) <= threads.ahead and (entry := next(unread, None)):
            ahead.append(entry)
        threads.begin(ahead)
        operator.process_data(threads.items(ahead.popleft()), 0, out)  # type: ignore[arg-type]
    seconds = time.perf_counter() - began
    threads.close()
    return seconds


def made(make: Callable[[], DataflowOperator]) -> DataflowOperator:
    """An operator in front of two tasks."""
    operator = make()
    operator.open(Context(downstream={"next": 2}))
    return operator


def rates(make: Callable[[], DataflowOperator], blocks: list[Items], size: int) -> list[float]:
    """MB/s of the operator alone, then with 1, 2, ... threads: medians of rounds that have all of them."""
    rounds = [[alone(make, blocks), *(threaded(make, blocks, n) for n in THREADS)] for _ in range(REPEATS)]
    return [size / 1e6 / statistics.median(column) for column in zip(*rounds, strict=True)]


def main() -> None:
    """Print and save."""
    once, vocabulary, size = text()
    blocks, size = once * PASSES, size * PASSES
    operators: dict[str, Callable[[], DataflowOperator]] = {
        "SplitWords": SplitWords,
        "Grep, a rare word": lambda: Grep(vocabulary[3000]),
        "Grep, a regular expression": lambda: Grep(vocabulary[3000] + "|zz+y"),
    }
    found = {name: rates(make, blocks, size) for name, make in operators.items()}
    rows = [(name, *values, values[2] / values[1]) for name, values in found.items()]
    heading = ["operator", "MB/s, no engine", *(f"threads: {n}" for n in THREADS), "two to one"]
    caption = f"one stage, {size / 1e6:.0f} MB in {len(blocks)} blocks, medians of {REPEATS} rounds"
    save("compute_threads", "Compute threads of a worker", {caption: table(heading, rows)}, found)


if __name__ == "__main__":
    main()
