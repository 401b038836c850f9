"""Injects faults from outside the workers: watches the job's progress and sends signals when the moment has come."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from riprap.codec.events import EventLog
from riprap.controller.effects import TICK_S, Effect, begin
from riprap.controller.faults import Fault, JobProgress, When, is_due
from riprap.engine.run.summary import Injected
from riprap.engine.run.targets import Targets
from riprap.engine.run_directory.epochs import Committed


class Injector(threading.Thread):
    """A thread that injects planned faults in time; `stop` ends it and undoes what can be undone.

    `first_item_at` (monotonic seconds) is set by whoever learns it; faults at `seconds=` wait for it.
    """

    def __init__(self, faults: Sequence[Fault], targets: Targets, committed: Committed, events: EventLog) -> None:
        super().__init__(name="fault injector", daemon=True)
        self.first_item_at: float | None = None
        self.injected: list[Injected] = []
        self.pending = list(faults)
        self.not_injected: dict[str, str] = {}
        """Each fault that did not happen, and the reason; filled by `stop`."""
        self._due: set[str] = set()
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
            due = str(fault) in self._due
            why = f"{fault.target} was not running from then on" if due else "the job ended before that moment"
            self.not_injected[str(fault)] = why
            self._note("fault_not_injected", fault=str(fault), reason=why)

    def kill(self, target: str) -> bool:
        """SIGKILL a target now, on whatever thread; False when none of that name is running."""
        began = self.first_item_at
        moment = When("seconds", round(time.monotonic() - began, 3) if began is not None else 0.0)
        return self._inject(Fault("kill", target, moment))

    def step(self, now: float) -> None:
        """One look at the progress; faults whose target is not running yet stay pending."""
        self._committed.refresh()
        seconds = now - self.first_item_at if self.first_item_at is not None else -1.0
        progress = JobProgress(self._committed.epoch, self._committed.items, seconds)
        for fault in [fault for fault in self.pending if is_due(fault.when, progress)]:
            self._due.add(str(fault))
            if self._inject(fault):
                self.pending.remove(fault)
        self._effects = [effect for effect in self._effects if effect.step(now)]

    def _inject(self, fault: Fault) -> bool:
        """Hit all processes of the target that run, one right after the other; False when there are none."""
        hits = []
        for name, victim in self._targets.find(fault.target).items():
            at = time.monotonic()
            done, effect = begin(fault, victim, at)
            hits += [Injected(name, victim.incarnation, fault.action, at)] if done else []
            self._effects += [effect] if effect is not None else []
        for hit in hits:
            self.injected.append(hit)
            words = {"fault": str(fault), "action": fault.action, "target": hit.target}
            self._note("fault_injected", monotonic=hit.at, incarnation=hit.incarnation, **words)
        return bool(hits)

    def _note(self, event: str, **fields: Any) -> None:
        """Log an event; on a full disk the job ends by itself, and says why."""
        with suppress(OSError):
            self._events.write(event, **fields)
