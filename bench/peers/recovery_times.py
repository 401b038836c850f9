"""The effect of a kill on a stream, from facts: the moments of the outputs, of the kill, and of its notice."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

STEADY_GAPS = 3
SLOWEST = 2.0


@dataclass(frozen=True)
class Output:
    """A micro-batch whose result was put out; `number` counts from 1, `at` is in seconds."""

    number: int
    at: float


@dataclass(frozen=True)
class Times:
    """Milliseconds since a kill; None for moments that did not come before the next kill or the end."""

    detected_ms: float | None
    first_output_ms: float | None
    caught_up_ms: float | None


def measure(outputs: Sequence[Output], kills: Sequence[float], noticed: Sequence[float]) -> list[Times]:
    """The times of each kill, in order; `noticed` are the moments at which the system saw a worker die.

    The first output is that of a micro-batch that had none before. Caught up is the stream with the first such output
    after which STEADY_GAPS outputs in a row came no slower than SLOWEST times the median gap between outputs before
    all kills.
    """
    usual = _usual_gap(outputs, kills[0]) if kills else 0.0
    times = []
    for at, until in zip(kills, [*kills[1:], float("inf")], strict=True):
        detected = next((moment for moment in noticed if at <= moment < until), None)
        fresh = _new(outputs, at, until)
        steady = _steady(fresh, SLOWEST * usual)
        times.append(Times(_ms(detected, at), _ms(fresh[0].at if fresh else None, at), _ms(steady, at)))
    return times


def repeated(outputs: Iterable[Output]) -> int:
    """The number of outputs that had been there before."""
    seen, count = set(), 0
    for output in outputs:
        count += output.number in seen
        seen.add(output.number)
    return count


def lost(outputs: Iterable[Output]) -> int:
    """The count of numbers up to the last one that never came."""
    numbers = {output.number for output in outputs}
    return max(numbers, default=0) - len(numbers)


def parse_outputs(text: str) -> list[Output]:
    """Lines "NUMBER MILLISECONDS"; one that was cut off by a kill is left out."""
    whole = text[: text.rfind("\n") + 1]
    return [Output(int(number), float(ms) / 1000) for number, ms in map(str.split, whole.splitlines())]


def flink_noticed(exceptions: Mapping[str, Any]) -> list[float]:
    """The moments of failures in the answer of Flink's /jobs/ID/exceptions, in seconds, in order."""
    entries = exceptions["exceptionHistory"]["entries"]
    return sorted(entry["timestamp"] / 1000 for entry in entries)


def spark_noticed(events: Iterable[Mapping[str, Any]]) -> list[float]:
    """The moments at which executors were removed, of the events in Spark's event log, in seconds, in order."""
    return sorted(event["Timestamp"] / 1000 for event in events if event["Event"] == "SparkListenerExecutorRemoved")


def _usual_gap(outputs: Sequence[Output], until: float) -> float:
    before = [output.at for output in outputs if output.at < until]
    gaps = [later - sooner for sooner, later in pairwise(before)]
    return statistics.median(gaps) if gaps else float("inf")


def _new(outputs: Sequence[Output], after: float, until: float) -> list[Output]:
    highest = max((output.number for output in outputs if output.at < after), default=0)
    return [output for output in outputs if output.number > highest and after <= output.at < until]


def _steady(outputs: Sequence[Output], gap_max: float) -> float | None:
    for first in range(len(outputs) - STEADY_GAPS):
        run = outputs[first : first + STEADY_GAPS + 1]
        if all(later.at - sooner.at <= gap_max for sooner, later in pairwise(run)):
            return run[0].at
    return None


def _ms(moment: float | None, since: float) -> float | None:
    return None if moment is None else (moment - since) * 1000
