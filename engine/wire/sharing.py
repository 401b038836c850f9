"""Payloads by reference between workers of one host: what a header names in place of a frame, and how to get at it.

    a piece of a mapped input file   (root, name, inode, offset)       the source copies nothing, each worker maps
    a slot of the sender's arena     (slot, generation, offset)        what was computed is written once, read in place

Sender and receiver agree on it link by link: the sender's first HELLO offers its arena and names its inputs by device
and inode, the receiver maps what it can and answers what that was; until then, and where there is no room, payloads
travel as frames. Nothing else in the engine knows how an array came.
"""

from __future__ import annotations

import math
import mmap
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from riprap.codec.blocks import Block
from riprap.codec.errors import FrameError
from riprap.codec.ids import WorkerId
from riprap.engine.wire.arena import Arena, Slot
from riprap.engine.wire.borrowed import Borrowed, SlotView
from riprap.engine.wire.origins import address_of, are_current, largest_of, origin_of

SLOT_BYTES_MIN = 16 * 1024  # a smaller payload travels faster as a frame than by a slot
RESIDENT_BYTES = 256 << 20  # of input files, before their pages go back to the page cache

Reference = tuple[Any, ...]
Refer = Callable[[np.ndarray], Reference | None]


class Terms(NamedTuple):
    """A receiver's access to the sender's arena, and to its input files."""

    arena: bool
    inputs: bool


class Piece(NamedTuple):
    """A file of the input that is mapped here, and where."""

    root: int
    name: str
    inode: int
    start: int
    offset: int


def open_arena(links: int, sides: int, data_bytes: int) -> tuple[Arena | None, str]:
    """A worker's shared memory, or why the system has none."""
    try:
        return Arena(links, data_bytes, sides), ""
    except (OSError, ValueError) as error:
        return None, str(error)


def names_segment(terms: Any) -> bool:
    """True when a peer's message holds what may be: process, descriptor and token of its segment, a link or side of it,
    and an owner or a position."""
    if not isinstance(terms, list) or [type(term) for term in terms] != [int, int, bytes, int, int]:
        return False
    pid, descriptor, _, place, count = terms
    return 0 < pid < 1 << 30 and 0 <= descriptor < 1 << 30 and 0 <= place < 1 << 30 and 0 <= count < 1 << 60


class Roots:
    """The inputs of a topology: files, and directories of files, that every worker of the host may map."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = [os.path.realpath(path) for path in sorted(set(paths))]

    def identities(self) -> list[list[int]]:
        """Device and inode of each; [0, 0] for one that is not here."""
        found = []
        for path in self.paths:
            try:
                status = os.stat(path)
                found.append([status.st_dev, status.st_ino])
            except OSError:
                found.append([0, 0])
        return found

    def name(self, path: str) -> tuple[int, str] | None:
        """The number of the root that a file lies under, and its name there."""
        for number, root in enumerate(self.paths):
            if path == root or path.startswith(root + os.sep):
                return number, os.path.relpath(path, root)
        return None

    def path(self, root: int, name: str) -> str:
        """The other way round; FrameError for a name that leads elsewhere."""
        if not 0 <= root < len(self.paths) or "\0" in name:
            raise FrameError("a file of an unknown input")
        path = os.path.realpath(os.path.join(self.paths[root], name))
        if self.name(path) != (root, os.path.normpath(name)):
            raise FrameError("a file outside the inputs")
        return path


class Lender:
    """The sending half of one worker. `refused` says why memory could not be shared; empty while nothing did."""

    def __init__(self, roots: Roots, peers: Sequence[WorkerId], arena: Arena | None, refusal: str = "") -> None:
        """`arena` has a link for each peer; `refusal` is why there is none, where one was wanted."""
        self.roots = roots
        self.refused = ""
        self._arena, self._refusal = arena, refusal
        self._links = {peer: link for link, peer in enumerate(peers)}
        self._owners = 0
        self._terms: dict[WorkerId, Terms] = {}
        # By the id of the mapping. An entry goes with it, before another one can take its id or its addresses.
        self._pieces: dict[int, Piece | None] = {}

    def offer(self, peer: WorkerId) -> dict[str, Any]:
        """The offer of payloads to a new incarnation of a peer. It gets them by reference once it has accepted."""
        self._owners += 1
        self.refused = self._refusal
        offer: dict[str, Any] = {"inputs": self.roots.identities()}
        if self._arena is not None:
            self._arena.open_link(self._links[peer], self._owners)
            offer["arena"] = [os.getpid(), self._arena.descriptor, self._arena.token, self._links[peer], self._owners]
        return offer

    def accepted(self, peer: WorkerId, answer: Any) -> None:
        """The peer has said what it can get at; an odd answer is that it can get at nothing."""
        if isinstance(answer, list) and [type(term) for term in answer] == [bool, bool]:
            self._terms[peer] = Terms(*answer)

    def close(self, peer: WorkerId) -> None:
        """The incarnation of a peer is over; what it held is free."""
        self._terms.pop(peer, None)
        if self._arena is not None and peer in self._links:
            self._arena.close_link(self._links[peer])

    def refer(self, peer: WorkerId, block: Block) -> Refer | None:
        """Names this block's arrays to a peer; None when they must all travel as frames.

        Large arrays that no one else can reach yet move into the arena; the block holds them there from now on.
        """
        terms = self._terms.get(peer)
        if terms is None or largest_of(block) < SLOT_BYTES_MIN:
            return None
        if terms.arena:
            block.arrays = tuple([self._moved(array) for array in block.arrays])
            if block.attachment is not None:
                block.attachment = self._moved(block.attachment)
        return lambda array: self._reference(array, peer, terms)

    def _moved(self, array: np.ndarray) -> np.ndarray:
        if array.nbytes < SLOT_BYTES_MIN or isinstance(origin := origin_of(array), Slot) or self._piece(origin):
            return array
        return self.copy(array)

    def copy(self, array: np.ndarray) -> np.ndarray:
        """The array in the arena, or itself when there is no room."""
        moved = self._in_arena(array.shape, array.dtype)
        if moved is None:
            return array
        np.copyto(moved, array)
        return moved

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array to be filled, in the arena if a neighbour gets at it and there is room."""
        moved = self._in_arena(shape, dtype) if any(terms.arena for terms in self._terms.values()) else None
        return np.empty(shape, dtype) if moved is None else moved

    def _in_arena(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
        assert self._arena is not None
        nbytes = math.prod(shape) * dtype.itemsize
        slot = self._arena.allocate(nbytes) if nbytes >= SLOT_BYTES_MIN else None
        if slot is None:
            self.refused = self._arena.refusal
            return None
        array: np.ndarray = np.frombuffer(memoryview(slot), dtype).reshape(shape)
        return array

    def _reference(self, array: np.ndarray, peer: WorkerId, terms: Terms) -> Reference | None:
        if array.nbytes < SLOT_BYTES_MIN:
            return None
        origin = origin_of(array)
        if isinstance(origin, Slot):
            assert self._arena is not None
            if not terms.arena or not self._arena.lend(origin, self._links[peer]):
                return None
            slot, generation, start = origin.place
            return slot, generation, start + address_of(array) - origin.address
        piece = self._piece(origin) if terms.inputs else None
        if piece is None:
            return None
        return piece.root, piece.name, piece.inode, piece.offset + address_of(array) - piece.start

    def _piece(self, origin: Any) -> Piece | None:
        """The input file that a mapping shows, if it is one."""
        if not isinstance(origin, mmap.mmap):
            return None
        key = id(origin)
        if key not in self._pieces:
            self._pieces[key] = _piece(origin, self.roots)
            weakref.finalize(origin, self._pieces.pop, key)
        return self._pieces[key]


class Borrower:
    """The receiving half of one worker."""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots
        self._segments: dict[bytes, Borrowed] = {}
        self._pids: dict[bytes, int] = {}  # of those whose segments are mapped
        self._former: list[Borrowed] = []
        self._files: dict[tuple[int, str], tuple[mmap.mmap, int]] = {}
        self._mapped_bytes = 0
        self._resident_bytes = 0

    def accept(self, peer: bytes, offer: Any) -> list[bool]:
        """Map what a sender offers, as far as that is possible here; what it is to be told of that."""
        if not isinstance(offer, dict):
            return [False, False]
        self._borrow(peer, offer.get("arena"))
        inputs = self.roots.identities()
        return [peer in self._segments, bool(inputs) and [0, 0] not in inputs and offer.get("inputs") == inputs]

    def _borrow(self, peer: bytes, terms: Any) -> None:
        if not names_segment(terms) or terms[4] == 0:  # no incarnation is owner 0
            return
        self.drop(peer)
        with suppress(OSError):  # of another namespace, or the lender is gone: frames do as well
            self._segments[peer] = Borrowed(*terms)
            self._pids[peer] = terms[0]

    def drop(self, peer: bytes) -> None:
        """An incarnation is over. What is still read of its segment stays mapped."""
        self._pids.pop(peer, None)
        segment = self._segments.pop(peer, None)
        if segment is not None:
            self._former = [former for former in (*self._former, segment) if former.holding]

    def stands_still(self, peer: bytes) -> bool:
        """True when a lender's process is stopped (state T of proc_pid_stat(5)), as far as that is known."""
        pid = self._pids.get(peer)
        try:
            return pid is not None and Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T"
        except (OSError, IndexError):
            return False  # it is gone, and its agent says so

    @property
    def is_current(self) -> bool:
        """True when each lender still counts on this incarnation; else nothing may leave any more (see
        borrowed.pyi)."""
        if not are_current(self._segments):
            return False
        return not self._former or all(segment.is_current for segment in self._former if segment.holding)

    def fetch(self, peer: bytes, reference: Sequence[Any], nbytes: int) -> Any:
        """The bytes that a peer's header names. FrameError when there are no such bytes."""
        kinds = [type(field) for field in reference]
        if kinds == [int, int, int]:
            slot, generation, offset = reference
            if peer not in self._segments or not (
                0 <= slot < 1 << 30 and 0 < generation < 1 << 60 and 0 <= offset < 1 << 60
            ):
                raise FrameError("a slot of an unknown arena")
            return self._segments[peer].view(slot, generation, offset, nbytes)
        if kinds == [int, str, int, int]:
            root, name, inode, offset = reference
            return self._piece(root, name, inode, offset, nbytes)
        raise FrameError("not a reference")

    def _piece(self, root: int, name: str, inode: int, offset: int, nbytes: int) -> memoryview:
        key = (root, name)
        if key not in self._files:
            self._files[key] = _map(self.roots.path(root, name))
            self._mapped_bytes += len(self._files[key][0])
        mapped, known = self._files[key]
        if known != inode or not 0 <= offset <= len(mapped) - nbytes:
            raise FrameError("a file that differs from its sender's")
        self._resident_bytes += nbytes
        if self._resident_bytes > RESIDENT_BYTES < self._mapped_bytes:
            self._resident_bytes = 0
            for other, _ in self._files.values():
                other.madvise(mmap.MADV_DONTNEED)
        return memoryview(mapped)[offset : offset + nbytes]


def is_borrowed(array: np.ndarray) -> bool:
    """True when the bytes of an array are another worker's, who may write over them when this incarnation is over."""
    return isinstance(origin_of(array), SlotView)


def _piece(mapped: mmap.mmap, roots: Roots) -> Piece | None:
    """The file behind a mapping, when it is one of the inputs and mapped read-only."""
    start = address_of(np.frombuffer(mapped, np.uint8))
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(maxsplit=5)
            if int(fields[0].partition("-")[0], 16) != start:
                continue
            found = roots.name(os.path.realpath(fields[5])) if len(fields) == 6 and "w" not in fields[1] else None
            return found and Piece(*found, int(fields[4]), start, int(fields[2], 16))
    return None


def _map(path: str) -> tuple[mmap.mmap, int]:
    """A file, mapped read-only, and its inode."""
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), os.fstat(file.fileno()).st_ino
    except (OSError, ValueError) as error:
        raise FrameError(f"a file that cannot be mapped: {error.__class__.__name__}") from None
