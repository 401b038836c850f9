"""Word count in Python on one thread: bytes.translate, split and a Counter, all of which run in C."""

import collections
import platform
import string

import harness

LETTERS = string.ascii_letters.encode()
TABLE = bytes(byte if byte in LETTERS else 32 for byte in range(256)).lower()

args = harness.arguments()
files = sorted(args.data.glob("*.txt"))
counts: collections.Counter[bytes] = collections.Counter()
harness.begin()
for _ in range(args.passes):
    for file in files:
        counts.update(file.read_bytes().translate(TABLE).split())
harness.end()
words = {word.decode(): count for word, count in counts.items()}
harness.report(sum(words.values()), harness.count_result(words, args.passes), f"Python {platform.python_version()}")
