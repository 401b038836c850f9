"""Word count in Pathway: lines read by its own connector, split, flattened, grouped and counted."""

import re
from typing import Any

import harness
import pathway as pw

args = harness.arguments()
split = re.compile("[a-z]+").findall


@pw.udf
def words(line: str) -> list[str]:
    """Its words, in lower case."""
    return split(line.lower())


lines = pw.io.plaintext.read(args.data, mode="static")
found = lines.select(word=words(pw.this.data)).flatten(pw.this.word)
totals = found.groupby(pw.this.word).reduce(pw.this.word, count=pw.reducers.count())
counts: dict[str, int] = {}


def on_change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
    """Keep the newest count."""
    if is_addition:
        counts[row["word"]] = row["count"]


pw.io.subscribe(totals, on_change)
harness.begin()
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
harness.end()
harness.report(sum(counts.values()), harness.count_result(counts, 1), f"Pathway {pw.__version__}, a line a record")
