"""The streams of the experiments, made once in .data/bench/afstream.

The text is the book of tests/data, or the `books/*.txt.gz` of the folder that RIPRAP_DATA names. The rest is
synthesized: packets, and tables, whose real excerpts are too short (an iteration would be the same rows over and over).
"""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.runs import riprap

CACHE = Path(".data/bench/afstream")
EXCERPTS = Path("tests/data")
CITIES = 2
LINKS = 16
FILES = 8


@dataclass(frozen=True)
class Data:
    """A stream's place, the number of items in one pass of it, and its description in a table."""

    path: str
    rows: int
    about: str
    test: str = ""
    """Shards that are not trained on, where there are some."""


def real(*names: str) -> Path | None:
    """A file or folder below RIPRAP_DATA or tests/data, if there is such a thing."""
    path = Path(os.environ.get("RIPRAP_DATA") or EXCERPTS, *names)
    return path if path.exists() else None


def shown(*names: str) -> str:
    """The name of the data in a table: the user's own folder by its variable."""
    return Path("$RIPRAP_DATA" if os.environ.get("RIPRAP_DATA") else EXCERPTS, *names).as_posix()


def named(path: Path) -> str:
    """A name for the results made of a file or folder, so that another one's are not taken for them."""
    return path.resolve().as_posix().strip("/").replace("/", "_")


def text(rows: int) -> Data:
    """A folder of raw text files with about `rows` lines in all: the real books, again and again, or eight files."""
    books = real("books")
    folder = CACHE / (f"{named(books)}-{rows}" if books else f"text-{rows}")
    if not folder.exists():
        made = Path(f"{folder}.partial")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        if books:
            _copy_books(books, made, rows)
        for number in range(0 if books else FILES):
            seed = str(number + 1)
            riprap("prep", "synth", "text", str(made / f"{number}.txt"), "--rows", str(rows // FILES), "--seed", seed)
        made.rename(folder)
    about = f"real: {shown('books')}, repeated" if books else "synthesized: lines of Zipf-distributed words"
    return Data(str(folder), rows_of(folder), about)


def _copy_books(books: Path, to: Path, rows: int) -> None:
    """All books as often as it takes to come to `rows` lines, at least once; a file a book and copy."""
    texts = [gzip.decompress(book.read_bytes()) for book in sorted(books.glob("*.txt.gz"))]
    lines = sum(1 for text in texts for line in text.splitlines() if line)
    for copy in range(max(1, round(rows / lines))):
        for number, content in enumerate(texts):
            (to / f"{copy:03d}-{number}.txt").write_bytes(content)


def cities(rows: int) -> list[Data]:
    """Packets of two cities that share hosts, `rows` of each."""
    out = CACHE / f"cities-{rows}"
    if not out.exists():
        captures = [("--rows", str(rows), "--city", str(city)) for city in range(CITIES)]
        _packets(captures, out, "--split", str(CITIES))
    return [
        Data(str(out / f"stream-{city}"), rows_of(out / f"stream-{city}"), "synthesized: two cities")
        for city in range(CITIES)
    ]


def links(rows: int) -> Data:
    """Packets of sixteen links together: no flow has more than a hundredth of the bytes."""
    out = CACHE / f"links-{rows}"
    if not out.exists():
        _packets([("--rows", str(rows // LINKS), "--seed", str(seed + 1)) for seed in range(LINKS)], out)
    return Data(str(out), rows_of(out), f"synthesized: {LINKS} links, 100,000 Zipf-distributed flows each")


def _packets(captures: Sequence[tuple[str, ...]], out: Path, *options: str) -> None:
    """Capture files with these options of the synthesizer, and their packets; the captures are not kept."""
    CACHE.mkdir(parents=True, exist_ok=True)
    files = [str(out.with_suffix(f".{number}.pcap")) for number in range(len(captures))]
    for file, words in zip(files, captures, strict=True):
        riprap("prep", "synth", "pcap", file, *words)
    riprap("prep", "packets", *files, "--out", str(out), *options)
    for file in files:
        os.unlink(file)


def dense(name: str, rows: int) -> Data:
    """Training shards of "kdd12" (11 features, anomalous tuples among them) or "higgs" (28), synthesized."""
    return _trained(name, name, rows, "0.1")


def clicks(rows: int) -> Data:
    """KDD12's tuples as sparse records without anomalous ones, half of them held back as the test set; synthesized."""
    return _trained("kdd12-sparse", "kdd12", rows, "0.5", "--missing", "drop")


def _trained(command: str, name: str, rows: int, holdout: str, *options: str) -> Data:
    out = CACHE / f"{command}-{rows}"
    if not out.exists():
        raw = CACHE / f"{command}-{rows}.txt"
        CACHE.mkdir(parents=True, exist_ok=True)
        riprap("prep", "synth", name, str(raw), "--rows", str(rows))
        riprap("prep", command, str(raw), "--out", str(out), "--holdout", holdout, *options)
        raw.unlink()
    about = f"synthesized: {name}, {rows:,} rows"
    return Data(str(out / "train"), rows_of(out / "train"), about, str(out / "test"))


def rows_of(folder: Path) -> int:
    """The number of rows in the shards of a folder."""
    from riprap.operators.inputs.job_input import open_input

    return open_input(folder).items
