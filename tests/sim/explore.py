"""Explores all that can happen in a small job under checkpoints: each order in which messages come, workers take turns,
parts become safe, and checkpoints are begun, given up and told of; and a death at each moment.

Depth first, over states that are visited once. Real code runs: tasks, schemes, links, membership, the coordinator. It
runs on copies, once for each state of an actor and event of it (explore_actors.py); what is visited are combinations of
what is known already, so that a hundred thousand states take some seconds. Orders of events that come to the same are
left out (explore_reduction.py says which, and why that is sound).

What is demanded: nothing raises; nothing goes round for ever; where nothing can happen any more, all windows are
announced and the result is the true one; each checkpoint that is decided is a consistent cut (explore_cuts.py), and all
that can happen after all have gone back to it leads to the true result too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from explore_actors import Left
from explore_cuts import check_cut
from explore_jobs import Fact
from explore_plan import WIDE, plan_of
from explore_reduction import Reduction
from explore_world import FAULTS, Event, State, World, Wrong

Result = list[tuple[tuple[Fact, ...], tuple[tuple[int, int], ...]]]
"""The facts of each worker, and what it has announced."""
Parts = tuple[Left, ...]


@dataclass(frozen=True)
class Case:
    """A job and its bounds; `victim` is the place of a worker that may be killed, once and at any moment."""

    job: str
    scheme: str
    items: int = 2
    windows: int = 1
    triggers: int = 1
    """Checkpoints that are begun at any moment. The one that the end of the job waits for comes on top."""
    aborts: int = 0
    """Checkpoints that are given up, at any moment."""
    leaders: int = 0
    """Leaders that are followed by another one, at any moment."""
    window: int = WIDE
    """Blocks that a link may have unacknowledged. Only where it may be full, acknowledgements travel."""
    victim: int | None = None

    def __str__(self) -> str:
        given = [
            f"{one.name}={getattr(self, one.name)}"
            for one in fields(self)[2:]
            if getattr(self, one.name) != one.default
        ]
        return "-".join([self.job, self.scheme, *given])

    @classmethod
    def parse(cls, text: str) -> Case:
        """What `str` wrote."""
        job, scheme, *given = text.split("-")
        return cls(job, scheme, **{name: int(value) for name, value in (one.split("=") for one in given)})

    def world(self, begins: bool = True) -> World:
        """The job at its beginning; or as it goes on from a checkpoint, where nothing more is tried."""
        plan = plan_of(self.job, self.scheme, self.items, self.windows, self.window)
        if not begins:
            return World(plan)
        return World(plan, self.victim, triggers=self.triggers, aborts=self.aborts, leaders=self.leaders)


class Counts(NamedTuple):
    """How much there was."""

    states: int = 0
    ends: int = 0
    """Of these, where nothing can happen any more."""
    cuts: int = 0
    """Checkpoints that were decided, each kind once."""
    replayed: int = 0
    """States on from these."""


class Found(AssertionError):
    """Something is wrong; the message says what, and how to see it again."""


class Search:
    """The states that can be reached in one world."""

    def __init__(self, world: World, truth: Result | None, reduces: bool = True) -> None:
        self.world, self.truth = world, truth
        self.seen: set[bytes] = set()
        self._packed = Struct(f"{world.controller + 1 + len(world.lanes)}I").pack
        self.cuts: dict[tuple[int, Parts], list[Event]] = {}
        """The checkpoints that were decided, and how it came to each."""
        self.path: list[Event] = []
        self.ends = 0
        self._reduction = Reduction(world) if reduces else None

    def run(self, first: State) -> None:
        """Visit all that can be reached from here."""
        if (name := self._packed(*first)) in self.seen:
            return
        self.seen.add(name)
        stack = [(name, first, iter(self._choices(first)))]
        here = {name}
        while stack:
            name, state, events = stack[-1]
            event = next(events, None)
            if event is None:
                stack.pop()
                here.discard(name)
                del self.path[max(0, len(stack) - 1) :]
                continue
            self.path.append(event)
            after = self._step(state, event)
            name = self._packed(*after)
            if name in here:
                raise Wrong("this goes on for ever")
            if name in self.seen:
                self.path.pop()
                continue
            self.seen.add(name)
            here.add(name)
            stack.append((name, after, iter(self._choices(after))))

    def _step(self, state: State, event: Event) -> State:
        after, cut = self.world.after(state, event)
        if cut:
            found = cut, self.parts(after, cut)
            if found not in self.cuts:
                self.cuts[found] = list(self.path)
                check_cut(self.world.plan, *found)
        return after

    def parts(self, state: State, cut: int) -> Parts:
        """What the workers have saved up to a checkpoint."""
        lefts = [self.world.face(state, at).left for at in range(self.world.controller)]
        return tuple(Left(tuple(one for one in left.disk if one.number <= cut), left.announced) for left in lefts)

    def _choices(self, state: State) -> Sequence[Event]:
        """The events to be tried in a state; none at the end."""
        events = self.world.events(state)
        if all(event.does in FAULTS for event in events):
            return events + self._at_rest(state)
        return self._reduction.enough(state, events) if self._reduction is not None else events

    def _at_rest(self, state: State) -> list[Event]:
        """Nothing happens by itself any more: the job is done, or it waits for a last checkpoint."""
        world = self.world
        faces = [world.face(state, at) for at in range(world.controller)]
        if all(face.done for face in faces):
            self._check([(face.result, face.left.announced) for face in faces])
            return []
        last = Event(world.controller, "last")
        if world.outcome(state, last) is None:
            raise Wrong("nothing can happen any more, and the job is not done")
        return [last]

    def _check(self, result: Result) -> None:
        self.ends += 1
        self.truth = self.truth or result
        wrong = [at for at in range(self.world.controller) if result[at] != self.truth[at]]
        if wrong:
            raise Wrong(
                "; ".join(f"{self.world.plan.workers[at]} has {result[at]}, not {self.truth[at]}" for at in wrong)
            )


def truth_of(case: Case) -> Result:
    """The result of a run in which nothing is saved but at the end."""
    search = Search(case.world(begins=False), None)
    search.run(search.world.begin())
    assert search.truth is not None
    return search.truth


def explore(case: Case, reduces: bool = True, truth: Result | None = None) -> Counts:
    """Visit all that can happen; Found when something is wrong."""
    truth = truth or truth_of(case)
    search, behind = Search(case.world(), truth, reduces), Search(case.world(begins=False), truth, reduces)
    paths = [search.path]
    try:
        search.run(search.world.begin())
        for found, path in search.cuts.items():
            behind.path = []
            paths = [path, behind.path]
            behind.run(behind.world.restored(*found))
    except Exception as error:
        schedule = " then ".join(" ".join(map(str, path)) for path in paths)
        raise Found(f"{error!r}\npython tests/sim/{Path(__file__).name} {case} '{schedule}'") from error
    return Counts(len(search.seen), search.ends, len(search.cuts), len(behind.seen))


def replay(case: Case, schedule: str, truth: Result | None = None) -> Iterator[str]:
    """Go through a schedule, and describe it; raises what was wrong at its end."""
    search = Search(case.world(), truth or truth_of(case), reduces=False)
    state = search.world.begin()
    for number, path in enumerate(schedule.split(" then ")):
        if number:
            (found, *_) = reversed(search.cuts)
            yield f"all go back to checkpoint {found[0]}"
            search = Search(case.world(begins=False), search.truth, reduces=False)
            state = search.world.restored(*found)
        for word in path.split():
            event = next(event for event in search._choices(state) if str(event) == word)
            yield search.world.describe(event)
            state = search._step(state, event)
    search._choices(state)


if __name__ == "__main__":
    for line in replay(Case.parse(sys.argv[1]), sys.argv[2]):
        print(line)
