"""`riprap up`: the cluster services of this host, in the background."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from riprap.codec.errors import ConfigError, RiprapError
from riprap.codec.json_text import to_json
from riprap.configs.sections import SERVERS_MAX
from riprap.controller import ensemble
from riprap.engine.cli.options import json_option, label_option, own_ensemble_option, standby_option
from riprap.engine.services.state import (
    ServiceState,
    alone,
    read_state,
    remove_state,
    started_ticks,
    state_folder,
    write_state,
)

if TYPE_CHECKING:
    from riprap.engine.services.host import Services

START_TIMEOUT_S = 30.0
SUPERVISE_EVERY_S = 0.2


@click.command("up")
@own_ensemble_option
@standby_option(1)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The embedded ZooKeeper's port (default: free).")
@click.option("--address", default="", metavar="IP", help="Where other hosts reach this one (default: they do not).")
@click.option("--backups", type=click.IntRange(0, SERVERS_MAX), default=1, show_default=True, help="Backup servers.")
@label_option
@click.option("--foreground", is_flag=True, help="Stay in the foreground until interrupted.")
@json_option
def command(
    zookeeper: str | None, standby: int, port: int, address: str, backups: int, labels: tuple[str, ...],
    foreground: bool, as_json: bool,
) -> None:  # fmt: skip
    """Start cluster services on this host: ZooKeeper, controllers, backup servers, an agent.

    Says what runs if they run already. Jobs of a cluster whose processes were lost, and not ended by `riprap down`, go
    on from their last durable epoch.

    \b
    Example:
      riprap up --standby 1
      riprap submit configs/svm_higgs.yaml
      riprap down
      riprap up --address 10.0.0.7 --port 2181   # and `riprap agent --zookeeper 10.0.0.7:2181` on further hosts
      riprap up --address 10.0.0.7 --port 2181 --label rack=r1   # the failure domain of its agent (docs/domains.md)
    """
    from riprap.controller.labels import read_labels

    read_labels(labels)  # what is wrong with them is said here
    state = read_state()
    if state is None and zookeeper:
        _take_ensemble(zookeeper)
    if state is None:
        address = _own_address(address, zookeeper)
    if state is None and foreground:
        _serve(zookeeper, standby, port, address, backups, labels)
        return
    already = state is not None
    state = state or _start(zookeeper, standby, port, address, backups, labels)
    if as_json:
        known = {"already": already, "zookeeper": state.zookeeper, "pid": state.pid, "backups": state.backups}
        click.echo(to_json(known))
    else:
        word = "already up" if already else "up"
        named = f"backup servers {', '.join(state.backups)}" if state.backups else "no backup server"
        click.echo(f"{word}: ZooKeeper {state.zookeeper}, {named}, supervisor {state.pid}, logs in {state.folder}")


def _take_ensemble(zookeeper: str) -> None:
    """Make our folder there: whoever connects first is its owner. ConfigError when it cannot be used, before services
    die of that one after the other."""
    from riprap.controller.session import connect, disconnect
    from riprap.engine.services.cluster import quiet_kazoo

    quiet_kazoo()
    disconnect(connect(zookeeper))


def _own_address(given: str, zookeeper: str | None) -> str:
    """The address that this host's services listen at; with the user's ensemble, by default the one seen from there."""
    from riprap.controller.addresses import ONE_HOST, address_towards, is_loopback, own_address

    if given or not zookeeper:
        return own_address(given) if given else ONE_HOST
    seen = address_towards(zookeeper)
    return ONE_HOST if is_loopback(seen) else seen


def _start(
    zookeeper: str | None, standby: int, port: int, address: str, backups: int, labels: tuple[str, ...]
) -> ServiceState:
    """Start the supervisor detached from this terminal, and wait until it has written its state."""
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    arguments = ["up", "--foreground", "--standby", str(standby), "--port", str(port), "--address", address]
    arguments += ["--backups", str(backups)]
    arguments += ["--zookeeper", zookeeper] if zookeeper else []
    arguments += [part for label in labels for part in ("--label", label)]
    log_path = folder / "up.log"
    with log_path.open("ab") as log:
        begun = log.tell()
        supervisor = subprocess.Popen(
            [sys.executable, "-P", "-m", "riprap.engine.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        state = _await_state(supervisor)
    except KeyboardInterrupt:
        supervisor.terminate()
        supervisor.wait()
        raise
    if state is None:
        told = log_path.read_bytes()[begun:].decode(errors="replace").strip()
        if supervisor.returncode == ConfigError.exit_code:
            raise ConfigError(told.rpartition("error: ")[2])  # with its remedy
        raise RiprapError(f"the services did not start\n{told}", f"see {folder}")
    return state


def _await_state(supervisor: subprocess.Popen[bytes]) -> ServiceState | None:
    """The state that a supervisor writes once all is up; None when it has ended, or was ended for it took too long."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while (state := read_state()) is None:
        if supervisor.poll() is not None or time.monotonic() > deadline:
            supervisor.kill()
            supervisor.wait()
            return None
        time.sleep(0.02)
    return state


def _serve(zookeeper: str | None, standby: int, port: int, address: str, backups: int, labels: tuple[str, ...]) -> None:
    """Be the supervisor: services up, restarted when they die, down when interrupted."""
    from riprap.codec.trust.keys import own_authority
    from riprap.controller.labels import read_labels
    from riprap.engine.services.backup_servers import servers_of_cluster
    from riprap.engine.services.host import Services
    from riprap.engine.services.hosts import this_host

    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with alone(folder):
        servers = servers_of_cluster(folder, backups, address)
        hosts = (this_host(read_labels(labels)),)
        services = Services(folder, zookeeper, standby, port, address, hosts, on_restart=_note_restart, backups=servers)
        try:
            keys = own_authority().id
            services.start()
            if not zookeeper:  # the user's own was taken before the services began
                _take_ensemble(services.zookeeper)  # before anybody is told where it is
            state = _own_state(services.zookeeper, folder, [server.address for server in servers], keys)
            write_state(state)
            while True:
                services.supervise()
                state = _follow_keys(services, state)
                time.sleep(SUPERVISE_EVERY_S)
        finally:
            services.stop()
            remove_state()


def _follow_keys(services: Services, state: ServiceState) -> ServiceState:
    """Bring the services under the keys that have followed theirs, if any have; returns the state that is true then."""
    from riprap.codec.trust.keys import is_off, keys_folder
    from riprap.codec.trust.rotation import promoted_since

    try:
        keys = state.keys if is_off() else promoted_since(state.keys, keys_folder())
    except RiprapError:
        return state  # somebody is at the folder; whoever needs it will say what is wrong with it
    if keys == state.keys:
        return state
    click.echo(f"{time.strftime('%F %T')} the cluster's keys have changed; starting the services again", err=True)
    services.renew()
    state = replace(state, keys=keys)
    write_state(state)
    return state


def _own_state(zookeeper: str, folder: Path, backups: list[str], keys: str) -> ServiceState:
    ticks = started_ticks(os.getpid())
    assert ticks is not None
    return ServiceState(os.getpid(), ticks, zookeeper, str(folder), backups, ensemble.file_in_use(), keys)


def _note_restart(name: str, code: int) -> None:
    click.echo(f"{time.strftime('%F %T')} {name} ended with code {code}; starting it again", err=True)
