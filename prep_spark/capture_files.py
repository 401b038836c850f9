"""Reads whole captures, however long, through a buffer of bounded size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from riprap.prep_spark.capture import Capture
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.packet_records import DTYPE, REASONS
from riprap.prep_spark.raw_files import DamagedFile, read_chunks

BATCH_RECORDS = 1 << 16


class CaptureFile:
    """The packets of one capture file: pcap or pcapng, perhaps within gzip. Iterate it once, then see `counts`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._capture = Capture()
        self._cut = False

    def __iter__(self) -> Iterator[np.ndarray]:
        """Batches of records. PrepError when the file cannot be read or is no capture."""
        left = b""
        for chunk in self._chunks():
            left, batches = self._parsed(left + chunk)
            yield from batches
            if not self._capture.is_capture:
                found = (left or chunk)[:4].hex(" ")
                raise PrepError(
                    f"{self.path}: expected a capture, pcap or pcapng; found a file that begins with {found}",
                    "name other files, or convert it with editcap",
                )
            if self._capture.ended:
                return
        self._capture.finish(max(len(left), self._cut))

    def _chunks(self) -> Iterator[bytes]:
        """The file's bytes; a damaged or cut end of compressed data ends them like a cut of the plain file."""
        try:
            yield from read_chunks(self.path)
        except DamagedFile:
            self._cut = True

    def _parsed(self, data: bytes) -> tuple[bytes, list[np.ndarray]]:
        """The rest of the data behind its last whole packet, and the records."""
        batches = []
        view = memoryview(data)
        while True:
            out = np.empty(BATCH_RECORDS, DTYPE)
            used, made = self._capture.parse(view, out.view(np.uint8))
            view = view[used:]
            if made:
                batches.append(out[:made])
            if made < BATCH_RECORDS:
                return bytes(view), batches

    @property
    def counts(self) -> Counter[str]:
        """Number of packets, by outcome (packet_records.REASONS)."""
        return Counter({reason: count for reason, count in zip(REASONS, self._capture.counts) if count})
