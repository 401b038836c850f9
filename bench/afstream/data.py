"""The streams of the experiments: synthesized once into .data/bench/afstream, or real excerpts where they are at hand.

The environment variable RIPRAP_DATA names a folder with `books/*.txt.gz`, `kdd12/training_first10k.tsv.gz` and
`higgs/HIGGS_first10k.csv.gz`; what is there is streamed repeatedly. Packet traces are always synthesized.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bench.runs import riprap

CACHE = Path(".data/bench/afstream")
CITIES = 2
LINKS = 16


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


def text(rows: int) -> tuple[list[Path], str]:
    """Raw text files, and what they are. Of synthesized ones there are eight, with `rows` lines in all."""
    books = real("books")
    if books:
        return sorted(books.glob("*.txt.gz")), "real: English novels"
    files = [CACHE / f"text-{rows}" / f"{number}.txt" for number in range(8)]
    for number, file in enumerate(files):
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            riprap("prep", "synth", "text", str(file), "--rows", str(rows // 8), "--seed", str(number + 1))
    return files, "synthesized: lines of Zipf-distributed words"


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


def _packets(captures: list[tuple[str, ...]], out: Path, *options: str) -> None:
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
