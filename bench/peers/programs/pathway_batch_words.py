"""Word count in Pathway: a record is a file's text, which a subscriber adds to a Counter."""

import collections
import string
from typing import Any

import harness
import pathway as pw

LETTERS = string.ascii_letters.encode()
TABLE = bytes(byte if byte in LETTERS else 32 for byte in range(256)).lower()

args = harness.arguments()


class Texts(pw.io.python.ConnectorSubject):
    """The bytes of each file."""

    deletions_enabled = False

    def run(self) -> None:
        harness.begin()
        for _ in range(args.passes):
            for file in sorted(args.data.glob("*.txt")):
                self.next(text=file.read_bytes())


class Text(pw.Schema):
    """A file."""

    text: bytes


counts: collections.Counter[bytes] = collections.Counter()


def on_change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
    """Count the words of a text."""
    counts.update(row["text"].translate(TABLE).split())


pw.io.subscribe(pw.io.python.read(Texts(), schema=Text), on_change)
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
harness.end()
words = {word.decode(): count for word, count in counts.items()}
harness.report(
    sum(words.values()), harness.count_result(words, args.passes), f"Pathway {pw.__version__}, a file a record"
)
