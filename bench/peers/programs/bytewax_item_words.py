"""Word count in Bytewax, as its own tutorial writes it: a record is a line, then a word."""

import re
from importlib.metadata import version

import bytewax.operators as op
import harness
from bytewax.connectors.files import DirSource
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, run_main

args = harness.arguments()
split = re.compile("[a-z]+").findall


def words(line: str) -> list[str]:
    """Its words, in lower case."""
    harness.begin()
    return split(line.lower())


found: list[tuple[str, int]] = []
flow = Dataflow("words")
lines = op.input("lines", flow, DirSource(args.data, "*.txt", batch_size=1000))
totals = op.count_final("count", op.flat_map("split", lines, words), lambda word: word)
op.output("totals", totals, TestingSink(found))
run_main(flow)
harness.end()
counts = dict(found)
harness.report(sum(counts.values()), harness.count_result(counts, 1), f"Bytewax {version('bytewax')}, a line a record")
