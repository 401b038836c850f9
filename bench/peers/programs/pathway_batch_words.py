"""Word count in Pathway: a record is a file's text, counted by a Python function; partial counts are summed."""

import collections
import string

import harness
import pathway as pw

LETTERS = string.ascii_letters.encode()
TABLE = bytes(byte if byte in LETTERS else 32 for byte in range(256)).lower()

args = harness.arguments()


class Texts(pw.io.python.ConnectorSubject):
    """The bytes of each file."""

    deletions_enabled = False

    def run(self):
        harness.begin()
        for _ in range(args.passes):
            for file in sorted(args.data.glob("*.txt")):
                self.next(text=file.read_bytes())


class Text(pw.Schema):
    """A file."""

    text: bytes


@pw.udf
def count(text: bytes) -> list[tuple[bytes, int]]:
    """(word, count) pairs of a text."""
    return list(collections.Counter(text.translate(TABLE).split()).items())


texts = pw.io.python.read(Texts(), schema=Text)
pairs = texts.select(pair=count(pw.this.text)).flatten(pw.this.pair)
pairs = pairs.select(word=pw.this.pair[0], count=pw.this.pair[1])
totals = pairs.groupby(pw.this.word).reduce(pw.this.word, count=pw.reducers.sum(pw.this.count))
counts = {}


def on_change(key, row, time, is_addition):
    """Keep the newest count."""
    if is_addition:
        counts[row["word"].decode()] = row["count"]


pw.io.subscribe(totals, on_change)
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
harness.end()
harness.report(
    sum(counts.values()), harness.count_result(counts, args.passes), f"Pathway {pw.__version__}, a file a record"
)
