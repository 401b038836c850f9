"""What actors do, done once: an event of an actor is run by real code on a copy of it, and what came of it remembered.

Actors are the workers and the controller. They share nothing but messages, so what one does depends on its own state
and on the event alone; states, messages and what is on a lane are known by numbers.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from explore_controller import CUT, Controller
from explore_jobs import Fact
from explore_plan import Record, Sent
from explore_state import Actor, copied, named
from explore_worker import Grave, reborn

T = TypeVar("T", bound=Hashable)


class Left(NamedTuple):
    """What there is of a worker when it dies: what it has saved, and what it has announced."""

    disk: tuple[Record, ...] = ()
    announced: tuple[tuple[int, int], ...] = ()
    """Windows, with their items."""


class Face(NamedTuple):
    """What of an actor's state can be seen from outside."""

    alive: bool
    life: int = 0
    round: int = 0
    writes: bool = False
    """The store, or the controller's record, has something to write."""
    peers: tuple[tuple[int, bool], ...] = ()
    """Of each worker the newest life, and whether that is up, as far as is known here."""
    left: Left = Left()
    result: tuple[Fact, ...] = ()
    done: bool = False
    """At a destination: all windows are announced. Others are done as they are."""
    may: tuple[str, ...] = ()
    """What it may do when it likes."""
    awaits: tuple[int, ...] = ()
    """The workers without whose report a controller says nothing more."""
    fears: bool = False
    """At a controller: nobody has died yet."""


class Outcome(NamedTuple):
    """What comes of an event."""

    state: int
    """The actor's, behind it."""
    put: tuple[tuple[int, int, int], ...] = ()
    """Messages: to whom, on which edge, which."""
    cut: int = 0
    """The checkpoint that is decided by it; 0 for none."""


class Numbers(Generic[T]):
    """Numbers things in the order in which they are met; equal things have one number."""

    def __init__(self) -> None:
        self.things: list[T] = []
        self._numbers: dict[T, int] = {}

    def __call__(self, thing: T) -> int:
        number = self._numbers.setdefault(thing, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


class Actors:
    """All states of all actors that were met, and what comes of each event in each of them."""

    def __init__(self) -> None:
        self.faces: list[Face] = []
        self.messages: Numbers[Sent] = Numbers()
        self._states: Numbers[bytes] = Numbers()
        self._copies: list[bytes] = []
        self._outcomes: dict[tuple[int, str, int], Outcome | None] = {}

    def state(self, actor: Actor) -> int:
        """The number of an actor's state."""
        number = self._states(named(actor))
        if number == len(self._copies):
            self._copies.append(copied(actor))
            self.faces.append(_face(actor))
        return number

    def outcome(self, state: int, does: str, message: int) -> Outcome | None:
        """What comes of it when an actor in this state takes a message, or does something of its own (message -1);
        None where that is nothing."""
        key = (state, does, message)
        if key not in self._outcomes:
            actor = pickle.loads(self._copies[state])
            if message < 0:
                found = self.settled(_deed(actor, does))
                self._outcomes[key] = None if found == Outcome(state) else found
            else:
                self._outcomes[key] = self.settled(_take(actor, self.messages.things[message]))
        return self._outcomes[key]

    def settled(self, actor: Actor) -> Outcome:
        """What came of an actor's last event."""
        if isinstance(actor, Grave):
            lost = Sent("lost", actor.at, actor.life, 0, 0, ())
            return Outcome(self.state(actor), ((len(actor.plan.workers), 0, self.messages(lost)),))
        actor.settle()
        out, actor.out = actor.out, []
        cut = sum(sent.body[0] for to, _, sent in out if to == CUT)
        put = tuple((to, edge, self.messages(sent)) for to, edge, sent in out if to != CUT)
        return Outcome(self.state(actor), put, cut)


def _take(actor: Actor, sent: Sent) -> Actor:
    if isinstance(actor, Grave):
        return reborn(actor, sent)
    if isinstance(actor, Controller):
        actor.hear(sent)
    elif sent.kind == "view":
        actor.see(sent)
    else:
        actor.arrive(sent)
    return actor


def _deed(actor: Any, does: str) -> Actor:
    if does == "die":
        return Grave(actor.plan, actor.at, actor.life, actor.disk, actor.announced)
    DEEDS[does](actor)
    return actor


DEEDS: dict[str, Callable[[Any], Any]] = {
    "work": lambda node: node.task.work(),
    "ring": lambda node: node.ring(),
    "write": lambda actor: actor.write(),
    "trigger": lambda controller: controller.begin(at_end=False),
    "last": lambda controller: controller.begin(at_end=True),
    "abort": lambda controller: controller.abort(),
    "lead": lambda controller: controller.lead(),
}


def _face(actor: Actor) -> Face:
    if isinstance(actor, Controller):
        return Face(True, writes=actor.writing is not None, may=actor.may, awaits=actor.awaits, fears=actor.fears)
    left = Left(tuple(actor.disk), tuple(actor.announced))
    if isinstance(actor, Grave):
        return Face(False, actor.life, left=left)
    task, links = actor.task, actor.links
    peers = tuple((links.incarnation(worker), links.is_up(worker)) for worker in actor.plan.workers)
    done = task.done if task.layout.is_sink else True
    return Face(
        True, actor.life, links.round, bool(actor.unsaved), peers, left, tuple(task.operator.state.facts), done,
        ("work", *("ring",) * bool(actor.rings_in)),
    )  # fmt: skip
