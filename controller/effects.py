"""Carries faults out by signals: kills a process at once, stops it or slows it down for a while."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from dataclasses import dataclass

from riprap.controller.faults import Fault

TICK_S = 0.002
SLOW_PERIOD_S = 0.02
"""A slowed process runs and pauses about once per period: short against an epoch and a heartbeat."""


class Victim:
    """One process, held by pidfd (a copy of the one given); `incarnation` is 0 for a service."""

    def __init__(self, pid: int, incarnation: int = 0, pidfd: int | None = None) -> None:
        self.pid = pid
        self.incarnation = incarnation
        self._pidfd = os.pidfd_open(pid) if pidfd is None else os.dup(pidfd)
        self._killed = False
        self._holds = 0
        """The stops that no SIGCONT has answered."""

    def signal(self, signum: signal.Signals) -> bool:
        """Send a signal; False when the process is gone. It goes on with the SIGCONT for the last of its stops."""
        self._holds = max(0, self._holds + (signum == signal.SIGSTOP) - (signum == signal.SIGCONT))
        if signum == signal.SIGCONT and self._holds:
            return True
        try:
            signal.pidfd_send_signal(self._pidfd, signum)
        except ProcessLookupError:
            return False
        self._killed |= signum == signal.SIGKILL
        return True

    def alive(self) -> bool:
        """True when the process has neither ended nor been killed through this object (which it obeys soon)."""
        if self._killed:
            return False
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return not poll.poll(0)

    def __del__(self) -> None:
        if hasattr(self, "_pidfd"):
            os.close(self._pidfd)


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
    """The time at which it was last stopped or continued."""
    ran_s: float = 0.0
    """Time that it ran before it was last stopped; at first, as long as a period grants."""

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
        """The time at which a slowed victim is next to be stopped or continued."""
        cpu = self.fault.cpu
        return self.turned_at + (cpu * SLOW_PERIOD_S if self.running else self.ran_s * (1 - cpu) / cpu)

    def end(self) -> None:
        """Let the victim run, as far as this effect goes."""
        if not self.running:
            self.running = True
            self.victim.signal(signal.SIGCONT)


def begin(fault: Fault, victim: Victim, now: float) -> tuple[bool, Effect | None]:
    """Inject a fault; returns True when the process was still there, and the rest of the work for `Effect.step`."""
    if not victim.signal(signal.SIGKILL if fault.action == "kill" else signal.SIGSTOP):
        return False, None
    return True, None if fault.action == "kill" else Effect(fault, victim, now)


class Effects:
    """Stops and slow-downs under way, on a thread of their own that ends with the last of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._effects: list[Effect] = []
        self._thread: threading.Thread | None = None

    def inject(self, fault: Fault, victim: Victim) -> bool:
        """Inject a fault now; False when the process is gone."""
        with self._lock:  # its effects of before end on the thread
            done, effect = begin(fault, victim, time.monotonic())
            if effect is not None:
                self._effects.append(effect)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="effects", daemon=True)
                    self._thread.start()
        return done

    def _run(self) -> None:
        while True:
            time.sleep(TICK_S)
            with self._lock:
                now = time.monotonic()
                self._effects = [effect for effect in self._effects if effect.step(now)]
                if not self._effects:
                    self._thread = None
                    return
