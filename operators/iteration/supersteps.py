"""Bulk-synchronous supersteps: a loop that runs within a window, and ends alike in all tasks without a coordinator.

When a window's input is all there, every task takes superstep 0. It ends each superstep with one block of feedback to
every other task of its stage: the superstep's number, how many items it fed back, its part of the totals, and the
messages for vertices (or other keys) of that task. With the blocks of all tasks each of them knows the same numbers,
so all take the next superstep, or all end the loop. What a task says depends on its state and these blocks alone, and
they are taken in the order of tasks: whoever takes a superstep again after a failure says the same again.

Where a loop begins once more, and survivors have what they had found (the scheme `optimistic`), a step of telling comes
before superstep 0: how far each task was, and what is alike in all tasks, which then is that of whoever was furthest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from riprap.operators.dataflow import Emitter, Items
from riprap.operators.iteration.loop import Loop
from riprap.operators.iteration.loop_state import Reached, StepKey
from riprap.operators.keyed import shares
from riprap.operators.options import Option

Supersteps = Annotated[int, Option("The loop ends after so many supersteps at the latest", unit="supersteps", low=1)]
NOTHING = np.zeros(0)
TELLING = -1
"""The superstep in which tasks tell how far they were."""


class Messages(NamedTuple):
    """Values for keys (int64); each goes to the task that has the key. Both arrays have one length; values are numbers,
    or rows of always as many."""

    keys: np.ndarray
    values: np.ndarray


class Spoken(NamedTuple):
    """The end of a superstep: messages, and this task's part of the totals."""

    messages: Messages
    totals: np.ndarray = NOTHING


NO_MESSAGES = Messages(np.zeros(0, np.int64), NOTHING)


class Iteration(Loop):
    """Base of operators that iterate in supersteps. They need an edge from their stage to itself with `loop: true`.

    A subclass makes `state`, whose `rows` collect the stage's input, and defines `superstep` and `answer`; `begin`
    where there is something to prepare; `finished` where the loop ends otherwise than when nothing is fed back.
    """

    keeps: ClassVar[tuple[str, ...]] = ()
    """Arrays of the state from whose values, whatever they are, the loop finds the same. Without them, and `agrees`, a
    loop that begins once more begins anew."""
    agrees: ClassVar[tuple[str, ...]] = ()
    """The same, of arrays of numbers (float64) that are alike in all tasks between two supersteps."""

    def __init__(self, supersteps: int) -> None:
        self._supersteps = supersteps
        self._tells = False
        self._reached: Reached | None = None
        self.compensated = (0, 0)
        """The last window whose loop was begun from what was found before, and by how many supersteps that was."""

    # what a subclass defines
    def begin(self) -> None:
        """The input of the window is all there: prepare superstep 0."""

    def superstep(self, number: int, messages: Messages, totals: np.ndarray) -> Spoken:
        """Take one superstep; `messages` and `totals` are those of the superstep before, empty for number 0.

        Messages of all tasks come in the order of tasks. Deterministic: the same state and input, the same result.
        """
        raise NotImplementedError

    def compensate(self, found: Mapping[str, np.ndarray]) -> None:
        """A loop begins once more, after `begin`: set a state from which it converges.

        `found` has the arrays that are named in `keeps` as this task had found them, unless it is the one that was
        lost, and those of `agrees` as the task had that was furthest (ABS 6.0.4).
        """
        self.state.arrays |= found

    def combine(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Joins parts of the totals, in the order of tasks: those of the first tasks, and the next task's."""
        joined: np.ndarray = one + other
        return joined

    def finished(self, fed: int, totals: np.ndarray) -> bool:
        """True when the loop ends; `fed` counts the messages of all tasks. All tasks are asked the same."""
        return fed == 0

    # what the engine calls
    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        """The loop begins. Its rows are in one order, for they may come in another after a failure."""
        self.state.begin(epoch)
        self.begin()
        if self._tells:
            self._tell(out)
        else:
            self._step(NO_MESSAGES, NOTHING, out)
        self._advance(out)

    def process_feedback(self, items: Items, out: Emitter) -> None:
        """The end of another task's superstep; it may be one ahead of this task, or in the next window."""
        window, superstep = items.arrays[0][:2].tolist()
        self.state.take(StepKey(window, superstep, items.task), items.arrays)
        self._advance(out)

    @property
    def reached(self) -> Reached | None:
        """The last window of which this task has found something, and that."""
        state, before = self.state, self._reached
        if not state.epoch or (before is not None and before.window > state.epoch):
            return before
        if state.superstep < 0:
            return self._left
        names = (*self.keeps, *self.agrees)
        return Reached(state.epoch, state.superstep, {name: state.arrays[name] for name in names})

    def go_on_from(self, reached: Reached | None) -> None:
        """Begin loops by telling, from now on. All tasks are told to, after a rollback: this one with what the task had
        reached that was there before, if it was not lost."""
        self._tells, self._reached = True, reached

    # the loop
    @property
    def _left(self) -> Reached | None:
        """The part of the loop that begins once more which is left."""
        before = self._reached
        return before if before is not None and before.window == self.state.epoch else None

    def _tell(self, out: Emitter) -> None:
        left, arrays = self._left, self.state.arrays
        self.state.superstep = TELLING
        alike = [(left.arrays if left is not None else arrays)[name].ravel() for name in self.agrees]
        at = left.superstep if left is not None else TELLING
        self._say(Spoken(NO_MESSAGES, np.concatenate([[float(at)], *alike])), out)

    def _begin_again(self, told: Sequence[np.ndarray], out: Emitter) -> None:
        """All have told: begin from the furthest, and of equal ones the first."""
        state, left = self.state, self._left
        furthest = max(told, key=lambda one: float(one[0]))
        found = {name: left.arrays[name] for name in self.keeps} if left is not None else {}
        at = 1
        for name in self.agrees:
            array = state.arrays[name]
            found[name] = furthest[at : at + array.size].reshape(array.shape)
            at += array.size
        if furthest[0] != TELLING:
            self.compensated = (state.epoch, int(furthest[0]))
        state.superstep = 0
        self.compensate(found)
        self._step(NO_MESSAGES, NOTHING, out)

    def _step(self, messages: Messages, totals: np.ndarray, out: Emitter) -> None:
        self._say(self.superstep(self.state.superstep, messages, totals), out)

    def _say(self, spoken: Spoken, out: Emitter) -> None:
        """End a superstep: a block to each task."""
        state = self.state
        parts = {share.task: share.arrays for share in shares(spoken.messages.keys, spoken.messages[1:], self._tasks)}
        none = tuple(column[:0] for column in spoken.messages)
        header = np.array([state.epoch, state.superstep, len(spoken.messages.keys)], np.int64)
        for task in range(self._tasks):
            arrays = (header, np.asarray(spoken.totals, np.float64), *parts.get(task, none))
            if task == self._me:
                state.take(StepKey(state.epoch, state.superstep, task), arrays)
            else:
                out.feed_back(arrays, len(arrays[2]), to=task)

    def _advance(self, out: Emitter) -> None:
        """Take supersteps while all that they need has come."""
        state = self.state
        while state.iterating:
            keys = [StepKey(state.epoch, state.superstep, task) for task in range(self._tasks)]
            if not all(key in state.came for key in keys):
                return
            self._end_step([state.came.pop(key) for key in keys], out)

    def _end_step(self, blocks: Sequence[tuple[np.ndarray, ...]], out: Emitter) -> None:
        if self.state.superstep == TELLING:
            self._begin_again([block[1] for block in blocks], out)
            return
        fed = sum(int(header[2]) for header, *_ in blocks)
        totals = reduce(self.combine, [block[1] for block in blocks])
        self.state.superstep += 1
        if self.finished(fed, totals) or self.state.superstep >= self._supersteps:
            self.end(out)
            return
        messages = Messages(*(np.concatenate([block[place] for block in blocks]) for place in (2, 3)))
        self._step(messages, totals, out)
