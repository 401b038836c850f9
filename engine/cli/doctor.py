"""`riprap doctor`: checks this machine and says what to install; or a job beside the hosts that it is to run on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from riprap.codec.json_text import to_json
from riprap.engine.cli.options import hosts_options, json_option, set_option, zookeeper_option

if TYPE_CHECKING:
    from riprap.controller.labels import HostLabels
    from riprap.engine.run.checkup import Check
    from riprap.engine.services.hosts import OwnHost

COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "red"}


@click.command("doctor")
@click.argument("topology", type=click.Path(), required=False)
@set_option
@hosts_options
@zookeeper_option
@json_option
def command(
    topology: str | None, sets: tuple[str, ...], hosts: Sequence[OwnHost], zookeeper: str | None, as_json: bool
) -> None:
    """Check Java, compilers, extensions, ports and limits; exit code 1 when something is missing.

    With a TOPOLOGY its placement is checked too, and whether a host, or a failure domain, holds more of a coded row
    than may be lost (docs/domains.md): on the hosts of --hosts and --domains, of the cluster that runs, or on this one.

    \b
    Example:
      riprap doctor
      riprap doctor configs/svm_higgs.yaml --hosts 4 --domains rack=2
    """
    from riprap.engine.run.checkup import FAIL

    checks: list[Check] = []
    for check in _checks(topology, sets, hosts, zookeeper):
        checks.append(check)
        if not as_json:
            click.echo(f"{click.style(f'{check.level:<5}', fg=COLOURS[check.level])} {check.name:<14} {check.found}")
            if check.remedy:
                click.echo(f"      {'':<14} -> {check.remedy}")
    if as_json:
        click.echo(to_json([asdict(check) for check in checks]))
    if any(check.level == FAIL for check in checks):
        raise SystemExit(1)


def _checks(
    topology: str | None, sets: Sequence[str], own: Sequence[OwnHost], zookeeper: str | None
) -> Iterator[Check]:
    from riprap.engine.run.checkup import run_checks

    if topology is None:
        yield from run_checks()
        return
    from riprap.engine.run.host_checks import checks_of
    from riprap.engine.run.preflight import check_job

    job = check_job(topology, sets, verify=False)
    hosts = _hosts(own, zookeeper)
    yield from run_checks()
    yield from checks_of(job.topology, hosts)


def _hosts(own: Sequence[OwnHost], zookeeper: str | None) -> Mapping[str, HostLabels]:
    """Those that are pretended, else those of the cluster that runs, else this one."""
    from riprap.engine.services.cluster import open_client
    from riprap.engine.services.hosts import this_host
    from riprap.engine.services.state import read_state

    if not own and (zookeeper or read_state()):
        with open_client(zookeeper) as client:
            return {host: about["labels"] for host, about in client.agents().items()}
    return {host.name: host.labels for host in own or (this_host(),)}
