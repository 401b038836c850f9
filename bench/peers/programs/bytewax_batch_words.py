"""Word count in Bytewax: a record is a file's text, folded into one Counter by one worker."""

import collections
import string
from importlib.metadata import version
from typing import Any

import bytewax.operators as op
import harness
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.testing import TestingSink, run_main

LETTERS = string.ascii_letters.encode()
TABLE = bytes(byte if byte in LETTERS else 32 for byte in range(256)).lower()

args = harness.arguments()


class Texts(StatelessSourcePartition):
    """The bytes of each file."""

    def __init__(self) -> None:
        self.files = iter(sorted(args.data.glob("*.txt")) * args.passes)

    def next_batch(self) -> list[Any]:
        harness.begin()
        return [next(self.files).read_bytes()]


class Folder(DynamicSource):
    """All files, by one worker."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Texts:
        return Texts()


def add(counts: collections.Counter[bytes], text: bytes) -> collections.Counter[bytes]:
    """The counts with those of a text."""
    counts.update(text.translate(TABLE).split())
    return counts


found: list[Any] = []
flow = Dataflow("words")
texts = op.key_on("key", op.input("texts", flow, Folder()), lambda _: "all")
op.output("totals", op.fold_final("count", texts, collections.Counter, add), TestingSink(found))
run_main(flow)
harness.end()
counts = {word.decode(): count for word, count in found[0][1].items()}
harness.report(
    sum(counts.values()), harness.count_result(counts, args.passes), f"Bytewax {version('bytewax')}, a file a record"
)
