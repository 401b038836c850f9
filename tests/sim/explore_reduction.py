"""Leaves out orders of events that come to the same: persistent sets (Godefroid 1996).

Events of different actors commute: they have nothing in common but lanes, of which one takes the first message and the
other puts a last one. So if some actors cannot be sent anything that they could take next before one of them has moved,
it is enough to try what these can do: what others do meanwhile may as well come later. Such a set of actors is closed:
with an actor it has the sender of each of its empty lanes, who might put something there. The graph of states has no
cycles (the explorer looks), so nothing is put off for ever. Each maximal order of events is tried up to the order of
events that commute, so all ends are reached, all that an actor does in some order is done, and all checkpoints are met:
a checkpoint is made of what each worker saved, which does not depend on the order of events that commute.

Of the controller more is known, as long as it hears of no loss, gives nothing up and goes on. Reports commute then:
each only counts towards its own checkpoint, and none is begun before the one under way is whole. It says nothing before
the last worker has reported. A death is an event of its worker, which the controller may hear of at any time; so while
it may happen almost nothing is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from explore_world import EMPTY, FAULTS, Event, State, World


class Reduction:
    """Chooses of all events some that are enough."""

    def __init__(self, world: World) -> None:
        self._world = world

    def enough(self, state: State, events: Sequence[Event]) -> Sequence[Event]:
        """Some of the events that are possible; not faults alone, if there are others."""
        controller, is_calm = self._world.controller, self._is_calm(state)
        if is_calm:
            alone = next((event for event in events if event.actor == controller and event.does != "trigger"), None)
            if alone is not None:
                return [alone]
        best = events
        for at in dict.fromkeys(event.actor for event in events if event.does not in FAULTS):
            closed = self._closed(state, at, is_calm)
            found = [event for event in events if event.actor in closed]
            best = min(best, found, key=len)
            if len(best) == 1:
                break
        return best

    def _is_calm(self, state: State) -> bool:
        """True when the controller will hear of no loss, cannot give up a checkpoint, and is followed by none."""
        face = self._world.face(state, self._world.controller)
        return not {"abort", "lead"}.intersection(face.may) and (self._world.victim is None or not face.fears)

    def _closed(self, state: State, at: int, is_calm: bool) -> set[int]:
        """An actor, and all who may send something that changes what they can do."""
        closed, waiting = {at}, [at]
        while waiting:
            for sender in self._senders(state, waiting.pop(), closed, is_calm):
                if sender not in closed:
                    closed.add(sender)
                    waiting.append(sender)
        return closed

    def _senders(self, state: State, at: int, closed: set[int], is_calm: bool) -> list[int]:
        world, controller = self._world, self._world.controller
        face = world.face(state, at)
        if at == controller and is_calm:
            return []
        senders = []
        for lane in world.into[at]:
            sender = world.lanes[lane][0]
            if lane in world.quiet or state[controller + 1 + lane] != EMPTY:
                continue
            if sender == controller and is_calm:
                senders += self._before_it_speaks(state, closed)
            elif face.alive or sender == controller:  # else it is lost
                senders.append(sender)
        if at == controller and world.victim is not None:
            senders.append(world.victim)
        return senders

    def _before_it_speaks(self, state: State, closed: set[int]) -> list[int]:
        """Who must move before the controller says anything, if that is not one of these already."""
        face = self._world.face(state, self._world.controller)
        if face.may:
            return [self._world.controller]
        return [] if closed.intersection(face.awaits) else list(face.awaits[:1])
