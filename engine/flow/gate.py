"""Messages that a peer may send: kinds by edge, and the numbers of every block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from riprap.codec.blocks import NO_KEY, Block, Kind
from riprap.codec.errors import FrameError
from riprap.codec.ids import WorkerId
from riprap.codec.trust.paths import problem_with_path
from riprap.engine.flow.digests import are_digests, are_news
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.forms import are_counts, is_window_end
from riprap.engine.flow.intake import Check
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.progress import number_of
from riprap.engine.flow.segment_gate import SegmentGate
from riprap.engine.flow.turns import unpack

FORWARD = {Kind.DATA, Kind.PUNCTUATION, Kind.BARRIER, Kind.TENTATIVE}
BACK, REPLY = {Kind.FEEDBACK, Kind.PUNCTUATION, Kind.BARRIER}, {Kind.REPLY}
NAMES_MAX, NAME_MAX = 256, 256
"""Absent workers that a tentative window may name, and the characters of a name."""


class TaskGate:
    """Asked about each message before its link sees it."""

    def __init__(self, layout: Layout) -> None:
        joints = (*layout.inputs, *layout.outputs)
        parts = [SegmentGate(segment.layout) for segment in layout.segments]
        joined = [
            *(worker for joint in joints for worker in joint.everybody),
            *(w for part in parts for w in part.workers),
        ]
        self.workers = tuple(dict.fromkeys(joined))
        self.kinds: dict[Edge, set[Kind]] = {joint.edge: BACK if joint.feedback else FORWARD for joint in layout.inputs}
        self.kinds |= {joint.reply: REPLY for joint in layout.outputs}
        for part in parts:
            self.kinds |= part.kinds
        self._me = layout.me.index
        self.checks: dict[Edge, Check] = {joint.edge: self._check_link for joint in layout.inputs}
        self.checks |= {joint.reply: _check_reply for joint in layout.outputs}
        for part in parts:
            self.checks |= part.checks

    def _check_link(self, sender: WorkerId, block: Block) -> None:
        kind, meta = block.kind, block.meta
        if kind == Kind.BARRIER:
            if not _is_savepoint(meta) or block.arrays or block.epoch <= 0 or block.key != NO_KEY:
                raise FrameError("a BARRIER with odd fields")
            return
        if kind == Kind.TENTATIVE:
            if not _is_tentative(meta) or block.epoch <= 0 or block.key != NO_KEY:
                raise FrameError("a TENTATIVE with odd fields")
            return
        if (block.key.source, block.key.sink) != (sender.index, self._me) or not number_of(block):
            raise FrameError("a key of another link")
        if not are_counts(meta.get("cause"), 4):
            raise FrameError("a block without its cause")
        if "turns" in meta:
            unpack(meta["turns"])
        if kind == Kind.PUNCTUATION and not is_window_end(meta):
            raise FrameError("a PUNCTUATION with odd fields")
        if "absent" in meta and not _are_names(meta["absent"]):
            raise FrameError("a block with odd names")
        if "digests" in meta and (kind != Kind.PUNCTUATION or not are_digests(meta["digests"])):
            raise FrameError("a block with odd digests")


def _check_reply(sender: WorkerId, block: Block) -> None:
    if set(block.meta) == {"needed"} and are_counts([block.meta["needed"]], 1) and not block.arrays:
        return
    if set(block.meta) == {"digests"} and are_news(block.meta["digests"]) and not block.arrays:
        return
    if (
        set(block.meta) - {"silent", "was"} != {"heard"}
        or block.meta.get("silent", True) is not True
        or not are_counts([block.meta.get("was", 0)], 1)
        or not _is_heard(block.meta["heard"])
        or not _are_turns(block.arrays)
    ):
        raise FrameError("a REPLY with odd fields")


def _are_turns(told: Sequence[np.ndarray]) -> bool:
    """True where nothing is told beside what was heard, or a place among turns and the turns behind it."""
    if not told:
        return True
    shapes = [(array.dtype.str, array.ndim) for array in told]
    return shapes == [("<i8", 1), ("|u1", 1)] and len(told[0]) == 1 and told[0][0] >= 0 and len(told[1]) % 2 == 0


def _is_tentative(meta: dict[str, Any]) -> bool:
    """True for items of a window (behind which exact block they stand), its end, and the word that none will come."""
    if "absent" not in meta:
        return set(meta) == {"after"} and are_counts([meta["after"]], 1)
    if not _are_names(meta["absent"]):
        return False
    return set(meta) == {"absent"} or (are_counts([meta.get("after")], 1) and is_window_end(meta))


def _are_names(absent: Any) -> bool:
    if not isinstance(absent, list) or len(absent) > NAMES_MAX:
        return False
    return all(isinstance(name, str) and len(name) <= NAME_MAX for name in absent)


def _is_savepoint(meta: dict[str, Any]) -> bool:
    """True when a barrier says nothing, or where a savepoint's parts go."""
    where = meta.get("savepoint", "/")
    return not set(meta) - {"savepoint"} and isinstance(where, str) and not problem_with_path(where)


def _is_heard(heard: Any) -> bool:
    return (
        isinstance(heard, list)
        and len(heard) == 5
        and are_counts([*heard[:2], heard[3]], 3)
        and heard[2].__class__ is bool
        and isinstance(heard[4], list)
        and all(are_counts(cause, 4) for cause in heard[4])
    )
