"""Tries the operators of a topology in this process, on its own input, for `riprap check` and `riprap.testing`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from riprap.engine.run.preflight import CheckedJob, check_job
from riprap.operators.trial.law import RESTS, Cause, Outcome

ITEMS = 10_000
"""Number of items tried where nobody says."""

NEVER = "What takes several processes (links, failures, speed) is not checked: run the job for that."


@dataclass
class Trial:
    """A job whose operators are tried on at most `items` items of its stream."""

    job: CheckedJob
    items: int = ITEMS
    _complaints: set[Cause] = field(default_factory=set)

    @classmethod
    def of(cls, path: str, sets: Iterable[str] = (), items: int = ITEMS, verify: bool = True) -> Trial:
        """The trial of a topology file. RiprapError for whatever is wrong with it already before it is run."""
        return cls(check_job(path, sets, verify=verify), items)

    @property
    def tried_items(self) -> int:
        """Number of items tried, about."""
        job = self.job
        return self.items if job.items is None else min(self.items, job.kind.tried_of(job.topology, job.items))

    def outcomes(self) -> Iterator[Outcome]:
        """Law by law, stage by stage, as they are tried."""
        return self.job.kind.outcomes(self.job.topology, self.job.schema, self.tried_items, self._complaints)


def unchecked(outcomes: Sequence[Outcome]) -> list[str]:
    """The laws that were not tried: a line for each reason of each stage."""
    found: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        if outcome.not_tried:
            found.setdefault((outcome.subject, outcome.not_tried), []).append(outcome.law)
    told = {
        (stage, why): f"{len(laws)} more" if why == RESTS else ", ".join(laws) for (stage, why), laws in found.items()
    }
    return [f"{stage}: {what} ({why})" for (stage, why), what in told.items()] + [NEVER]
