"""Looks at a job beside the hosts that are there: placement, targets of faults, and the loss of a whole host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from riprap.codec.errors import ConfigError
from riprap.configs.topology import Topology
from riprap.controller.faults import Fault
from riprap.controller.labels import HOST, HostLabels
from riprap.controller.placement import REMEDY, Rules, dealt, unsatisfied
from riprap.controller.victims import check_group, is_group, names_hosts
from riprap.engine.run.checkup import FAIL, OK, WARN, Check
from riprap.engine.run.preflight import CheckedJob

Hosts = Mapping[str, HostLabels]


class Shortage(NamedTuple):
    """A thing that the hosts do not give a job, and what to do about it."""

    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.found}; {self.remedy}"


def on_hosts(job: CheckedJob, hosts: Hosts) -> CheckedJob:
    """The job with cautions about these hosts; ConfigError where it is not to start on them, or a fault names none of
    them.

    Of its placement nothing is said where there are none: the controller then waits for some.
    """
    for fault in job.faults:
        if is_group(fault.target):
            _check_fault(fault, job.topology, hosts)
    if not hosts:
        return job
    lacking = placement_shortages(job.topology, hosts)
    if lacking and Rules.of(job.topology.to_dict()).strict:
        raise ConfigError("\n".join(f"placement: {one.found}" for one in lacking), REMEDY)
    told = (*map(str, lacking), *map(str, coding_shortages(job.topology, hosts)))
    return replace(job, cautions=(*job.cautions, *told))


def asks_for_hosts(job: CheckedJob) -> bool:
    """True for a job that is refused on some hosts."""
    return Rules.of(job.topology.to_dict()).strict or any(names_hosts(fault.target) for fault in job.faults)


def _check_fault(fault: Fault, topology: Topology, hosts: Hosts) -> None:
    try:
        check_group(fault.target, topology.stages, hosts)
    except ConfigError as error:
        raise ConfigError(f"fault '{fault}': {error.args[0]}", error.remedy) from error


def placement_shortages(topology: Topology, hosts: Hosts) -> list[Shortage]:
    """The spreads that these hosts do not allow."""
    rules = Rules.of(topology.to_dict())
    found = unsatisfied(rules, hosts, dealt(rules, topology.workers(), hosts))
    return [
        Shortage(sentence, "the job runs, spread as well as can be (placement.when_unsatisfiable)")
        for sentence in found
    ]


def coding_shortages(topology: Topology, hosts: Hosts) -> Iterator[Shortage]:
    """Coded stages of which one host, or another domain of the job's placement, holds more than they can lose.

    Of a single host nothing is said.
    """
    rules = Rules.of(topology.to_dict())
    placed = dealt(rules, topology.workers(), hosts)
    for stage, row in rules.rows.items():
        for label in dict.fromkeys((HOST, *rules.spread)) if len(hosts) > 1 else ():
            held: Counter[tuple[str, int]] = Counter()
            for worker in topology.tasks(stage):
                if (domain := hosts[placed[worker]].get(label)) is not None:
                    held[domain, rules.row_of(worker)[1]] += 1
            (domain, _), most = max(sorted(held.items()), key=lambda item: item[1], default=(("", 0), 0))
            if most > _bearable(topology, stage):
                yield _shortage(topology, stage, f"{label} {domain}", most, row)


def _bearable(topology: Topology, stage: str) -> int:
    """Pieces of a row, or copies of a block, that may be lost."""
    scheme = topology.scheme_of(stage)
    return int(scheme["r"] if scheme["scheme"] == "erasure" else scheme["copies"] - 1)


def _shortage(topology: Topology, stage: str, domain: str, most: int, row: int) -> Shortage:
    scheme, bearable = topology.scheme_of(stage), _bearable(topology, stage)
    word = domain.partition(" ")[0]
    if scheme["scheme"] == "erasure":
        code = f"k = {scheme['k']} and r = {scheme['r']}"
        found = (
            f"stage {stage} is coded with {code}, and {domain} has {most} of its {row} tasks: when it dies, {most}"
            f" pieces of a row are lost at once, more than r = {bearable}, and the job pauses until they are back"
        )
        wider = f"have at least {-(-row // bearable)} values of {word}, or " if bearable else ""
        return Shortage(found, f"{wider}raise r to {most}")
    found = (
        f"stage {stage} has copies = {scheme['copies']}, and {domain} has {most} copies of some blocks: when it dies,"
        " all copies are lost at once, and the job pauses until they are back"
    )
    return Shortage(found, f"have at least 2 values of {word}")


def checks_of(topology: Topology, hosts: Hosts) -> Iterator[Check]:
    """The lines of `riprap doctor` about a job beside these hosts."""
    rules, several = Rules.of(topology.to_dict()), f"{len(hosts)} host{'' if len(hosts) == 1 else 's'}"
    lacking = placement_shortages(topology, hosts)
    for one in lacking:
        yield Check("placement", FAIL, one.found, REMEDY) if rules.strict else Check("placement", WARN, *one)
    if rules.spread and not lacking:
        yield Check("placement", OK, f"spread over {', '.join(rules.spread)} on {several}")
    shortages = list(coding_shortages(topology, hosts))
    yield from (Check("loss of a host", WARN, *one) for one in shortages)
    if rules.rows and not shortages:
        found = "no host holds more of a row than may be lost" if len(hosts) > 1 else "all tasks are on it"
        yield Check("loss of a host", OK, f"{several}: {found}")
