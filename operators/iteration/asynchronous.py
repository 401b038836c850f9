"""Loops without supersteps: each task works on what comes as it comes, until all has been worked on.

The end is found by counting (Mattern 1987). Task 0 asks all others again and again how many blocks of messages they
have sent and taken in. Where all tasks together have sent as many as they have taken in, and the same so many when
asked once more, none is on its way and none will ever be: between two blocks a task has nothing to do.

Blocks of a window that a task has not begun wait in its state; among them the question, which is answered once the task
has begun. So what a task says follows from the order in which blocks come to it, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from riprap.operators.base import Context
from riprap.operators.dataflow import Emitter, Items
from riprap.operators.iteration.loop import Loop
from riprap.operators.iteration.supersteps import Messages
from riprap.operators.keyed import shares

WORK, ASK, ANSWER, END = range(4)
"""A block of messages; task 0 asks, is answered, and tells the end."""
SENT, TAKEN, ANSWERS, ALL_SENT, ALL_TAKEN, BEFORE = range(6)
"""Of one window: blocks of messages of this task; at task 0 the answers, their sums, and the last sum that was even."""
UNEVEN = -1


class AsynchronousLoop(Loop):
    """Base of operators that iterate without supersteps. They need an edge from their stage to itself, `loop: true`.

    A subclass makes `state`, a LoopState whose `rows` collect the stage's input and whose `arrays` hold all else, and
    defines `begin`, `work` and `answer`. The result must not depend on the order of messages: least and greatest
    values, sums, sets.
    """

    needs_order = True
    combines: ClassVar[Mapping[str, str]] = {"messages": "sum", "waves": "sum"}
    meanings: ClassVar[Mapping[str, str]] = {
        "messages": "messages that tasks sent each other so far",
        "waves": "times that all tasks were asked for their counts so far",
    }

    def open(self, context: Context) -> None:
        super().open(context)
        self.state.arrays |= {"counts": np.zeros(6, np.int64), "said": np.zeros(2, np.int64)}

    # what a subclass defines
    def begin(self) -> Messages:
        """The input of the window is all there: the first messages, to any keys (int64)."""
        raise NotImplementedError

    def work(self, messages: Messages) -> Messages:
        """Take in messages to keys of this task; the messages that follow from them."""
        raise NotImplementedError

    def merge(self, messages: Messages) -> Messages:
        """Messages to other tasks that come to the same as these, and are fewer; these themselves, unless defined."""
        return messages

    # what the engine calls
    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        """The loop begins; blocks of it that came before are worked on in the order in which they came."""
        state = self.state
        state.begin(epoch)
        state.arrays["counts"] = np.zeros(6, np.int64)
        state.arrays["counts"][BEFORE] = UNEVEN
        self._tell(self.begin(), out)
        if self._tasks == 1:
            self.end(out)
        elif self._me == 0:
            self._ask(out)
        for arrays in state.waited(epoch):
            self._take(arrays, out)

    def process_feedback(self, items: Items, out: Emitter) -> None:
        """A block of another task, of the window that is open here or of one behind it: a new incarnation gets those of
        several windows before it begins them."""
        state, window = self.state, int(items.arrays[0][0])
        if state.iterating and window == state.epoch:
            self._take(items.arrays, out)
        else:
            state.wait(window, items.task, items.arrays)

    # the loop
    def _take(self, arrays: tuple[np.ndarray, ...], out: Emitter) -> None:
        counts, (_, kind, sent, taken) = self.state.arrays["counts"], arrays[0].tolist()
        if kind == WORK:
            counts[TAKEN] += 1
            self._tell(self.work(Messages(*arrays[1:])), out)
        elif kind == ASK:
            self._say(ANSWER, 0, out, int(counts[SENT]), int(counts[TAKEN]))
        elif kind == END:
            self.end(out)
        else:
            counts[[ANSWERS, ALL_SENT, ALL_TAKEN]] += 1, sent, taken
            if counts[ANSWERS] == self._tasks - 1:
                self._count(out)

    def _tell(self, messages: Messages, out: Emitter) -> None:
        """Work on messages to keys of this task until there are none; what is for others goes to them then."""
        others = []
        while len(messages.keys):
            parts = {share.task: share.arrays for share in shares(messages.keys, (messages.values,), self._tasks)}
            others += [Messages(*part) for task, part in sorted(parts.items()) if task != self._me]
            if self._me not in parts:
                break
            messages = self.work(Messages(*parts[self._me]))
        if not others:
            return
        told = self.merge(Messages(*map(np.concatenate, zip(*others, strict=True))))
        counts, said = self.state.arrays["counts"], self.state.arrays["said"]
        for share in shares(told.keys, (told.values,), self._tasks):
            counts[SENT] += 1
            said[0] += share.items
            header = np.array([self.state.epoch, WORK, 0, 0], np.int64)
            out.feed_back((header, *share.arrays), share.items, to=share.task)

    def _say(self, kind: int, to: int, out: Emitter, sent: int = 0, taken: int = 0) -> None:
        out.feed_back((np.array([self.state.epoch, kind, sent, taken], np.int64),), 0, to=to)

    def _say_all(self, kind: int, out: Emitter) -> None:
        for task in range(1, self._tasks):
            self._say(kind, task, out)

    def _ask(self, out: Emitter) -> None:
        self.state.arrays["counts"][[ANSWERS, ALL_SENT, ALL_TAKEN]] = 0
        self.state.arrays["said"][1] += 1
        self._say_all(ASK, out)

    def _count(self, out: Emitter) -> None:
        """All have answered: end the loop, or ask again."""
        counts = self.state.arrays["counts"]
        sent, taken = int(counts[ALL_SENT] + counts[SENT]), int(counts[ALL_TAKEN] + counts[TAKEN])
        if sent == taken == counts[BEFORE]:
            self._say_all(END, out)
            self.end(out)
            return
        counts[BEFORE] = sent if sent == taken else UNEVEN
        self._ask(out)

    def metrics(self) -> dict[str, float]:
        messages, waves = self.state.arrays["said"].tolist()
        return {"messages": float(messages), "waves": float(waves)}
