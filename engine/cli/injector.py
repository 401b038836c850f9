"""Injects faults from outside the workers: watches the job's progress and sends signals when the moment has come."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from codec.events import EventLog
from engine.cli.epochs import Committed
from engine.cli.faults import Fault, Progress, is_due
from engine.cli.summary import Injected
from engine.cli.targets import Targets, Victim

TICK_S = 0.002
SLOW_PERIOD_S = 0.02
"""A slowed process runs and pauses about once per period: short against an epoch and a heartbeat."""


@dataclass
class Effect:
    """A stop or slow-down under way; it begins with the victim stopped. `cpu` 0 means stopped throughout.

    A slowed process is stopped for as long as the time that it really ran demands, so that the fraction holds however
    late this thread is let onto a busy machine.
    """

    fault: Fault
    victim: Victim
    since: float
    running: bool = False
    turned_at: float = 0.0
    """When it was last stopped or continued."""
    ran_s: float = 0.0
    """How long it ran before it was last stopped; at first, as long as a period grants."""

    def __post_init__(self) -> None:
        self.turned_at, self.ran_s = self.since, self.fault.cpu * SLOW_PERIOD_S

    def step(self, now: float) -> bool:
        """Stop or continue the victim as the time demands; False when the effect is over."""
        if now >= self.since + self.fault.for_s:
            self.end()
            return False
        if not self.fault.cpu or now < self.turns_at():
            return True
        if self.running:
            self.ran_s = now - self.turned_at
        self.running, self.turned_at = not self.running, now
        return self.victim.signal(signal.SIGCONT if self.running else signal.SIGSTOP)

    def turns_at(self) -> float:
        """When a slowed victim is next to be stopped or continued."""
        cpu = self.fault.cpu
        return self.turned_at + (cpu * SLOW_PERIOD_S if self.running else self.ran_s * (1 - cpu) / cpu)

    def end(self) -> None:
        """Let the victim run, whatever it was doing."""
        self.victim.signal(signal.SIGCONT)


class Injector(threading.Thread):
    """A thread that injects planned faults in time; `stop` ends it and undoes what can be undone.

    `first_item_at` (monotonic seconds) is set by whoever learns it; faults at `seconds=` wait for it.
    """

    def __init__(self, faults: Sequence[Fault], targets: Targets, committed: Committed, events: EventLog) -> None:
        super().__init__(name="fault injector", daemon=True)
        self.first_item_at: float | None = None
        self.injected: list[Injected] = []
        self.pending = list(faults)
        self._effects: list[Effect] = []
        self._targets = targets
        self._committed = committed
        self._events = events
        self._stopping = threading.Event()

    def run(self) -> None:
        """The thread's loop; ends early when nothing is left to do."""
        while (self.pending or self._effects) and not self._stopping.wait(TICK_S):
            self.step(time.monotonic())
        for effect in self._effects:
            effect.end()

    def stop(self) -> None:
        """End the thread, with every victim running again; faults that did not happen are logged."""
        self._stopping.set()
        if self.is_alive():
            self.join()
        for fault in self.pending:
            self._events.write("fault_not_injected", fault=str(fault))

    def step(self, now: float) -> None:
        """One look at the progress; faults whose target is not running yet stay pending."""
        self._committed.refresh()
        seconds = now - self.first_item_at if self.first_item_at is not None else -1.0
        progress = Progress(self._committed.epoch, self._committed.items, seconds)
        for fault in [fault for fault in self.pending if is_due(fault.when, progress)]:
            victim = self._targets.find(fault.target)
            if victim and self._inject(fault, victim):
                self.pending.remove(fault)
        self._effects = [effect for effect in self._effects if effect.step(now)]

    def _inject(self, fault: Fault, victim: Victim) -> bool:
        at = time.monotonic()
        if not victim.signal(signal.SIGKILL if fault.action == "kill" else signal.SIGSTOP):
            return False
        if fault.action != "kill":
            self._effects.append(Effect(fault, victim, at))
        self.injected.append(Injected(fault.target, victim.incarnation, fault.action, at))
        self._events.write(
            "fault_injected",
            monotonic=at,
            fault=str(fault),
            action=fault.action,
            target=fault.target,
            incarnation=victim.incarnation,
        )
        return True
