"""The interface of a kind of operators: all that a job is asked before its start and that depends on theirs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from riprap.configs.problems import Problem
from riprap.configs.topology import Draft, Topology
from riprap.engine.run.job_schema import JobSchema
from riprap.engine.schemes.registry import scheme_class
from riprap.operators.base import Operator
from riprap.operators.trial.law import Cause, Outcome


class JobKind(ABC):
    """Stateless; one object for each kind, in KINDS (engine/run/kinds/__init__.py)."""

    bases: ClassVar[tuple[type[Operator], ...]]
    """The classes of which its operators inherit one."""
    name: ClassVar[str]
    """The operators, in the user's words."""
    one: ClassVar[str]
    """One of them."""
    schemes: ClassVar[Sequence[str]]
    """The schemes that such a job may name."""
    window: ClassVar[str]
    """Its users' word for what a punctuation closes."""
    reads_live: ClassVar[bool]
    """True when its sources can read an input that goes on."""

    def has(self, operator: type[Operator]) -> bool:
        """True for an operator of this kind."""
        return issubclass(operator, self.bases)

    @abstractmethod
    def job_problems(self, draft: Draft, operators: Iterable[str]) -> Iterator[Problem]:
        """Topologies and schemes that these operators cannot be in; `operators` are those that could be imported."""

    @abstractmethod
    def stage_problems(self, draft: Draft, stage: str, operator: type[Operator], is_sound: bool) -> Iterator[Problem]:
        """Problems of one stage's operator; `is_sound`: its options are."""

    @abstractmethod
    def open(self, topology: Topology, verified: tuple[str, ...]) -> JobSchema:
        """Open the input as workers will; RiprapError, or what an operator raises."""

    def unprotected(self, topology: Topology) -> str:
        """The reason why a lost sink would end a job that has backup servers; empty when it would not."""
        bare = [name for name in topology.sinks if not scheme_class(topology.scheme_of(name)).saves]
        none = any(topology.scheme_of(name)["scheme"] == "none" for name in bare)
        return "" if not bare else "the scheme is none" if none else "all thresholds are infinite"

    @abstractmethod
    def cautions(self, topology: Topology, schema: JobSchema) -> Iterator[str]:
        """Sentences for the user of a sound job, before it starts."""

    @abstractmethod
    def tried_of(self, topology: Topology, items: int) -> int:
        """The number of a job's items that a trial can reach."""

    @abstractmethod
    def outcomes(self, topology: Topology, schema: JobSchema, items: int, complaints: set[Cause]) -> Iterator[Outcome]:
        """Try the operators on so many items: law by law, stage by stage, as they are tried."""
