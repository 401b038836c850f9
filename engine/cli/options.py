"""Options that several subcommands share."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import click

from riprap.codec.json_text import to_json
from riprap.engine.services.limits import HOSTS_MAX, STANDBY_MAX


class FiniteRange(click.FloatRange):
    """A number within bounds; to click NaN is within any, and infinity where one end is open."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As click does."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document, for scripts.")


def zookeeper_options(help: str, *, required: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that name an ensemble and its credentials; a command gets the first as `zookeeper`, and the second
    holds for its process and all children."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(*args: Any, zookeeper: str | None, zookeeper_auth: str | None, **options: Any) -> Any:
            from riprap.controller import ensemble  # brings NumPy, which `--help` has no use for

            ensemble.use(zookeeper, zookeeper_auth)
            return function(*args, zookeeper=zookeeper, **options)

        name = click.option("--zookeeper", metavar="HOST:PORT", required=required, help=help)
        auth_help = "How to enter that ensemble: user, password, TLS (docs/security.md)."
        return name(click.option("--zookeeper-auth", metavar="FILE", help=auth_help)(command))

    return decorate


zookeeper_option = zookeeper_options("The ensemble to use (default: the one `riprap up` started here).")

own_ensemble_option = zookeeper_options("Use this ensemble, not an embedded server.")

cluster_ensemble_option = zookeeper_options("The ensemble of the cluster.", required=True)

set_option = click.option(
    "--set", "sets", multiple=True, metavar="PATH=VALUE", help="Change a value of the topology; may be repeated."
)

fault_option = click.option("--fault", "faults", multiple=True, metavar="SPEC", help="Inject a fault; may be repeated.")

faults_file_option = click.option(
    "--faults", "faults_file", metavar="FILE.yaml", help="Inject the faults listed in a file."
)

out_option = click.option("--out", metavar="DIR", help="The run directory (default: runs/JOB-TIME).")


def standby_option(default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option for so many controllers beside the one that leads, to take over from it."""
    count = click.IntRange(0, STANDBY_MAX)
    return click.option("--standby", type=count, default=default, show_default=True, help="Standby controllers.")


label_option = click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="A failure domain of this host; may be repeated."
)


def hosts_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that make several hosts of this machine; a command gets them as `hosts`, empty where it is itself."""

    @functools.wraps(function)
    def command(*args: Any, hosts: int, domains: Sequence[str], **options: Any) -> Any:
        from riprap.engine.services.hosts import pretended_hosts

        return function(*args, hosts=pretended_hosts(hosts, domains) if hosts > 1 or domains else (), **options)

    count, help = click.IntRange(1, HOSTS_MAX), "Act as so many hosts, to try out their loss."
    named = click.option("--hosts", type=count, default=1, show_default=True, help=help)
    domains_help = "Deal N values of a label over these hosts; may be repeated."
    return named(click.option("--domains", multiple=True, metavar="LABEL=N", help=domains_help)(command))


from_option = click.option("--from", "start_from", metavar="DIR", help="Begin from a savepoint.")


def begun_from(start_from: str | None) -> tuple[str, ...]:
    """The value of the topology that `--from` sets."""
    return () if start_from is None else (f"start_from={to_json(os.path.abspath(start_from))}",)


no_verify_option = click.option(
    "--no-verify", is_flag=True, help="Do not read the shards beforehand for damage, NaN and infinity."
)

die_with_parent_option = click.option("--die-with-parent", type=int, hidden=True, help="The pid to die with.")
