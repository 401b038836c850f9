"""The streams of the experiments: synthesized once into .data/bench/afstream, or real excerpts where they are at hand.

The environment variable RIPRAP_DATA names a folder with `books/*.txt.gz`, `kdd12/training_first10k.tsv.gz` and
`higgs/HIGGS_first10k.csv.gz`; what is there is streamed repeatedly. Packet traces are always synthesized.
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
CITIES = 2
LINKS = 16
FILES = 8


@dataclass(frozen=True)
class Data:
    """Where a stream is, how many items one pass of it has, and what to say of it in a table."""

    path: str
    rows: int
    about: str
    test: str = ""
    """Shards that are not trained on, where there are some."""


def real(*names: str) -> Path | None:
    """A file or folder below RIPRAP_DATA, if there is such a thing."""
    folder = os.environ.get("RIPRAP_DATA")
    path = Path(folder or ".", *names)
    return path if folder and path.exists() else None


def text(rows: int) -> Data:
    """A folder of raw text files: eight with `rows` lines in all, or the real books."""
    books = real("books")
    folder = CACHE / ("books" if books else f"text-{rows}")
    if not folder.exists():
        made = Path(f"{folder}.partial")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        for number, book in enumerate(sorted(books.glob("*.txt.gz")) if books else ()):
            (made / f"{number}.txt").write_bytes(gzip.decompress(book.read_bytes()))
        for number in range(0 if books else FILES):
            seed = str(number + 1)
            riprap("prep", "synth", "text", str(made / f"{number}.txt"), "--rows", str(rows // FILES), "--seed", seed)
        made.rename(folder)
    about = "real: English novels" if books else "synthesized: lines of Zipf-distributed words"
    return Data(str(folder), rows_of(folder), about)


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
    """Training shards of "kdd12" (11 features, anomalous tuples among them) or "higgs" (28)."""
    files = {"kdd12": ("kdd12", "training_first10k.tsv.gz"), "higgs": ("higgs", "HIGGS_first10k.csv.gz")}
    return _trained(name, name, real(*files[name]), rows, "0.1")


def clicks(rows: int) -> Data:
    """KDD12's tuples as sparse records without anomalous ones, half of them held back as the test set."""
    source = real("kdd12", "training_first10k.tsv.gz")
    return _trained("kdd12-sparse", "kdd12", source, rows, "0.5", "--missing", "drop")


def _trained(command: str, name: str, source: Path | None, rows: int, holdout: str, *options: str) -> Data:
    out = CACHE / (f"{command}-real" if source else f"{command}-{rows}")
    if not out.exists():
        raw = source or CACHE / f"{command}-{rows}.txt"
        if not source:
            riprap("prep", "synth", name, str(raw), "--rows", str(rows))
        riprap("prep", command, str(raw), "--out", str(out), "--holdout", holdout, *options)
        if not source:
            raw.unlink()
    about = f"real: the first 10,000 rows of {name}" if source else f"synthesized: {name}"
    return Data(str(out / "train"), rows_of(out / "train"), about, str(out / "test"))


def rows_of(folder: Path) -> int:
    """How many rows the shards of a folder have."""
    from operators.dataflow.inputs import open_input

    return open_input(folder).items
