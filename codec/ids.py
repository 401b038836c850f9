"""Names and numbers that every part agrees on: the id of a worker, its incarnation, an epoch."""

from __future__ import annotations

import re
from typing import NamedTuple, NewType

Incarnation = NewType("Incarnation", int)
"""A process of a worker: 1 for the first, one more with each restart; 0 before any."""

Epoch = NewType("Epoch", int)
"""A micro-batch of one source, counted from 1. Epoch 0 is the state before the first item."""

Seq = NewType("Seq", int)
"""The place of a message on its link, counted from 1. 0 means "nothing yet"."""

Round = NewType("Round", int)
"""Times that a job was rolled back: what was sent before a rollback is of an earlier round."""

BLOCKS_MAX = 255
"""The most blocks of a stripe row, k + r: s_index fits a byte, and GF(2^8) has elements enough."""

JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
STAGE_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
COPY_NUMBER = re.compile(r"[1-9][0-9]?")
LABEL_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""The key, or the value, of a label of a host."""
TASK_INDEX = re.compile(r"0|[1-9][0-9]{0,5}")
ATTEMPT_SHIFT = 32


def records_of(job: str, run: str) -> str:
    """The name under which a job's records are kept: a later job of the same name must not find them."""
    return f"{job}-{run}" if run else job


def name_of(records: str, worker: str) -> str:
    """The name under which a worker's records are kept, in the job of that `records_of`."""
    return f"{records}/{worker}"


def fence_of(attempt: int, incarnation: int) -> int:
    """One growing number for an incarnation of a worker: a job that is resumed counts its incarnations anew."""
    return attempt << ATTEMPT_SHIFT | incarnation


class WorkerId(NamedTuple):
    """One task of a stage, written `processor.3`, or an active replica of it: `processor.3~1` (PPA V-B)."""

    stage: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    copy: int = 0
    """0 for the primary."""

    def __str__(self) -> str:
        return f"{self.stage}.{self.index}~{self.copy}" if self.copy else f"{self.stage}.{self.index}"

    @property
    def primary(self) -> WorkerId:
        """The worker that this is a copy of; itself if it is none."""
        return WorkerId(self.stage, self.index)

    @classmethod
    def parse(cls, text: str) -> WorkerId:
        """Read `stage.index` or `stage.index~copy`; ValueError says what was expected."""
        task, tilde, copy = text.partition("~")
        stage, dot, index = task.rpartition(".")
        if not dot or not STAGE_NAME.fullmatch(stage) or not TASK_INDEX.fullmatch(index):
            raise ValueError(f"{text!r} is not a worker id; expected STAGE.INDEX, for example processor.3")
        if tilde and not COPY_NUMBER.fullmatch(copy):
            raise ValueError(f"{text!r} is not a worker id; expected a number of 1 to 99 behind ~, or no ~")
        return cls(stage, int(index), int(copy or 0))
