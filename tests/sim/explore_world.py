"""A whole job as the explorer sees it: the states of its actors, and the messages on the lanes between them.

A lane leads from one actor to another, one for each link and direction, and keeps the order of its messages. A state of
the whole is a row of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from explore_actors import Actors, Face, Left, Numbers, Outcome
from explore_controller import Controller
from explore_plan import WIDE, Plan, Sent
from explore_worker import Node

State = tuple[int, ...]
EMPTY = 0
FAULTS = ("die", "lead")
"""What may happen or not: a worker's death, and another leader."""
BETWEEN_WORKERS = ("block", "reply")


class Wrong(Exception):
    """Something happened that must not."""


class Event(NamedTuple):
    """What an actor does next: it takes the first message of a lane, or does something of its own (lane -1)."""

    actor: int
    does: str
    lane: int = -1

    def __str__(self) -> str:
        return f"{self.does}{self.actor if self.lane < 0 else self.lane}"


class World:
    """One job. `budget` is of its controller; `victim` may be killed once."""

    def __init__(self, plan: Plan, victim: int | None = None, **budget: int) -> None:
        self.plan, self.victim = plan, victim
        self.controller = len(plan.workers)
        self._begins_with = Controller(self.controller, **budget)
        up = [(at, self.controller, 0) for at in range(self.controller)]
        down = [(self.controller, at, 0) for at in range(self.controller)]
        self.lanes = sorted([*dict.fromkeys(plan.lanes()), *up, *down], key=lambda lane: lane[1])
        self._lane_of = {lane: place for place, lane in enumerate(self.lanes)}
        self.into = [[i for i, (_, to, _) in enumerate(self.lanes) if to == at] for at in range(self.controller + 1)]
        """The lanes that lead to each actor, side by side."""
        self._ends = [(self.controller + 1 + lanes[0], self.controller + 2 + lanes[-1]) for lanes in self.into]
        self._next: dict[tuple[int, ...], tuple[Event, ...]] = {}
        replies = {joint.reply.index for layout in plan.layouts for joint in layout.inputs}
        self.quiet = {
            place for place, (sender, to, edge) in enumerate(self.lanes)
            if victim is None and self.controller not in (sender, to)
            and (edge in replies or (edge < 0 and plan.window == WIDE))
        }  # fmt: skip
        """Lanes on which nothing is sent but when workers begin, in a round that has begun for all."""
        self.actors = Actors()
        self._queues: Numbers[tuple[int, ...]] = Numbers()
        assert self._queues(()) == EMPTY

    # states to begin with
    def begin(self) -> State:
        """All workers are up and have told each other what has come: nothing."""
        nodes = [Node(self.plan, at, 1, [], []) for at in range(self.controller)]
        return self._placed(nodes, self._begins_with)

    def restored(self, cut: int, parts: Sequence[Left]) -> State:
        """All workers have gone back to a checkpoint, at once."""
        controller = Controller(self.controller)
        controller.go_on_from(cut)
        nodes = [Node(self.plan, at, 1, list(left.disk), list(left.announced)) for at, left in enumerate(parts)]
        for node in nodes:
            node.membership.revision = 0  # none of these views is the first
        return self._placed(nodes, controller)

    def _placed(self, nodes: Sequence[Node], controller: Controller) -> State:
        view, actors = controller.published, self.actors
        state = [*map(actors.state, nodes), actors.state(controller), *[EMPTY] * len(self.lanes)]
        for node in nodes:
            node.see(view)
            self._enter(state, node.at, actors.settled(node))
        while takes := [event for event in self.events(state) if event.lane >= 0]:
            state = list(self.after(state, takes[0])[0])
        return tuple(state)

    # what can happen
    def face(self, state: Sequence[int], at: int) -> Face:
        """What can be seen of an actor."""
        return self.actors.faces[state[at]]

    def queue(self, state: Sequence[int], lane: int) -> tuple[int, ...]:
        """The messages on a lane."""
        return self._queues.things[state[self.controller + 1 + lane]]

    def events(self, state: Sequence[int]) -> list[Event]:
        """All that can happen next, but for what would change nothing."""
        found: list[Event] = []
        for at, (start, stop) in enumerate(self._ends):
            own = (at, state[at], *state[start:stop])
            if own not in self._next:
                self._next[own] = tuple(event for event in self._of(state, at) if self.outcome(state, event))
            found += self._next[own]
        return found

    def _of(self, state: Sequence[int], at: int) -> Iterator[Event]:
        """What an actor may do."""
        face = self.face(state, at)
        for lane in self.into[at]:
            queue = self.queue(state, lane)
            if queue and _may_take(face, self.actors.messages.things[queue[0]]):
                yield Event(at, "take", lane)
        if face.writes:
            yield Event(at, "write")
        yield from (Event(at, does) for does in face.may)
        if at == self.victim and face.alive and face.life == 1:
            yield Event(at, "die")

    def outcome(self, state: Sequence[int], event: Event) -> Outcome | None:
        """What comes of an event; None where that is nothing."""
        message = self.queue(state, event.lane)[0] if event.lane >= 0 else -1
        try:
            return self.actors.outcome(state[event.actor], event.does, message)
        except Exception as error:
            raise Wrong(f"{self.describe(event)}: {error!r}") from error

    def after(self, state: Sequence[int], event: Event) -> tuple[State, int]:
        """The state behind an event, and the checkpoint that is decided by it; 0 for none."""
        outcome = self.outcome(state, event)
        assert outcome is not None
        found = list(state)
        if event.lane >= 0:
            self._pop(found, event.lane)
        self._enter(found, event.actor, outcome)
        if event.does == "die":
            for lane in self.into[event.actor]:
                found[self.controller + 1 + lane] = EMPTY
        return tuple(found), outcome.cut

    def _pop(self, state: list[int], lane: int) -> None:
        state[self.controller + 1 + lane] = self._queues(self.queue(state, lane)[1:])

    def _enter(self, state: list[int], at: int, outcome: Outcome) -> None:
        """Enter what came of an actor's event into a state."""
        before, now = self.face(state, at), self.actors.faces[outcome.state]
        state[at] = outcome.state
        for to, edge, message in outcome.put:
            if _reaches(self.face(state, to), self.actors.messages.things[message]):
                lane = self._lane_of[at, to, edge]
                state[self.controller + 1 + lane] = self._queues((*self.queue(state, lane), message))
                self._drop_stale(state, to, lane)
        if now.alive and (now.round, now.peers) != (before.round, before.peers):
            for lane in self.into[at]:
                self._drop_stale(state, at, lane)

    def _drop_stale(self, state: list[int], at: int, lane: int) -> None:
        """What is of a round or a life that is over for this worker is refused, now or later: it is taken now."""
        face = self.face(state, at)
        while (queue := self.queue(state, lane)) and _is_stale(face, sent := self.actors.messages.things[queue[0]]):
            if self.outcome(state, Event(at, "take", lane)) != Outcome(state[at]):
                raise Wrong(f"{self.plan.workers[at]} takes in what is of an earlier round or life: {sent}")
            self._pop(state, lane)

    def describe(self, event: Event) -> str:
        """For people."""
        names = [*map(str, self.plan.workers), "controller"]
        if event.lane < 0:
            return f"{names[event.actor]}: {event.does}"
        sender, _, edge = self.lanes[event.lane]
        kind = f"edge {edge}" if edge >= 0 else f"answer of edge {-1 - edge}"
        return f"{names[event.actor]}: take from {names[sender]}, {kind}"


def _may_take(face: Face, sent: Sent) -> bool:
    if sent.kind == "view":
        return sent.round <= face.round or not face.writes  # who goes back waits for the store first
    return sent.kind not in BETWEEN_WORKERS or sent.life <= face.peers[sent.sender][0]  # else it cannot connect yet


def _reaches(face: Face, sent: Sent) -> bool:
    """False for what is sent to a life that is over."""
    if sent.kind in BETWEEN_WORKERS:
        return face.alive and sent.to_life == face.life
    return face.alive or sent.kind == "start"


def _is_stale(face: Face, sent: Sent) -> bool:
    if sent.kind not in BETWEEN_WORKERS or not face.alive:
        return False
    life, up = face.peers[sent.sender]
    return sent.round < face.round or sent.life < life or (sent.life == life and not up)
