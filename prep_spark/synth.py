"""Writes synthetic raw files in the formats of the real data sets, so that every step runs with no download.

The same path name, rows and seed give the same bytes. A name that ends in .gz is compressed.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import IO

import numpy as np

from riprap.prep_spark import (
    synth_graph,
    synth_higgs,
    synth_kdd12,
    synth_pcap,
    synth_ratings,
    synth_roads,
    synth_text,
    synth_worldcup,
)
from riprap.prep_spark.errors import PrepError, cannot_write

CHUNK_ROWS = 4096  # small enough for the caches
PADDING = b"\0"
"""The bytes with which generators fill the unused places of their fixed-width texts; they are not written."""

Chunk = Callable[[int], np.ndarray]
"""Makes the given number of rows as fixed-width text, padded with PADDING."""

CITIES = 2


def higgs(path: str, rows: int, seed: int = 1) -> int:
    """Write `rows` rows in the format of HIGGS.csv; returns the bytes written, before compression."""
    return _write(path, rows, _unpadded(synth_higgs.generator(np.random.default_rng(seed))))


def kdd12(path: str, rows: int, seed: int = 1) -> int:
    """Write `rows` rows in the format of KDD Cup 2012's training.txt; returns the bytes written, before compression."""
    return _write(path, rows, _unpadded(synth_kdd12.generator(np.random.default_rng(seed))))


def text(path: str, rows: int, seed: int = 1) -> int:
    """Write `rows` lines of words; returns the bytes written, before compression."""
    return _write(path, rows, _unpadded(synth_text.generator(np.random.default_rng(seed))))


def graph(path: str, rows: int, seed: int = 1) -> int:
    """Write `rows` edges, lines of two vertices, of a graph with an eighth as many vertices, about; returns the bytes
    written, before compression."""
    return _write(path, rows, synth_graph.generator(np.random.default_rng(seed), rows))


def ratings(path: str, rows: int, seed: int = 1) -> int:
    """Write `rows` lines `user item rating`, some twenty of a user; returns the bytes written, before compression."""
    return _write(path, rows, synth_ratings.generator(np.random.default_rng(seed), rows))


def worldcup(path: str, rows: int, seed: int = 1, own_share: float = synth_worldcup.OWN_SHARE) -> int:
    """Write `rows` lines `time,server,path` of a day's requests; returns the bytes written, before compression."""
    return _write(path, rows, synth_worldcup.generator(np.random.default_rng(seed), rows, own_share))


def roads(path: str, rows: int, seed: int = 1, stream: str = "locations") -> int:
    """Write `rows` lines `time,segment,speed` of where users are, or `time,segment` of the incidents that they report;
    returns the bytes written, before compression."""
    if stream not in synth_roads.STREAMS:
        raise PrepError(f"--stream is {stream}; expected {' or '.join(synth_roads.STREAMS)}", "correct --stream")
    return _write(path, rows, synth_roads.STREAMS[stream](seed))


def pcap(path: str, rows: int, seed: int = 1, city: int = 0) -> int:
    """Write a capture of `rows` packets of one of two cities; returns the bytes written, before compression."""
    if not 0 <= city < CITIES:
        raise PrepError(f"--city is {city}; expected 0 or 1", "correct --city")
    return _write(path, rows, synth_pcap.generator(seed, city), synth_pcap.FILE_HEADER)


def _unpadded(chunk: Chunk) -> Callable[[int], bytes]:
    return lambda rows: chunk(rows).tobytes().translate(None, PADDING)


def _write(path: str, rows: int, chunk: Callable[[int], bytes], header: bytes = b"") -> int:
    """Write the file under another name and rename it, so that a file with its name is whole."""
    if rows <= 0:
        raise PrepError(f"--rows is {rows}; expected a positive number", "correct --rows")
    partial = f"{path}.{os.getpid()}.partial"
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with ExitStack() as stack:
            file: IO[bytes] | gzip.GzipFile = stack.enter_context(open(partial, "wb"))
            if path.endswith(".gz"):  # neither name nor time in the header: the same rows are the same bytes
                file = stack.enter_context(gzip.GzipFile("", "wb", 1, file, mtime=0))
            written = file.write(header)
            for start in range(0, rows, CHUNK_ROWS):
                written += file.write(chunk(min(CHUNK_ROWS, rows - start)))
        os.replace(partial, path)
    except OSError as error:
        raise cannot_write(path, error, "name a file that you may write") from error
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
    return written
