"""`riprap up`: the cluster services of this host, in the background."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import click

from codec.errors import RiprapError
from codec.json_text import to_json
from engine.cli.options import json_option
from engine.cli.state import State, read_state, remove_state, started_ticks, state_folder, write_state

START_TIMEOUT_S = 30.0
SUPERVISE_EVERY_S = 0.2


@click.command("up")
@click.option("--zookeeper", metavar="HOST:PORT", help="Use this ensemble, not an embedded server.")
@click.option("--standby", type=click.IntRange(0, 4), default=1, show_default=True, help="Standby controllers.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The embedded ZooKeeper's port (default: free).")
@click.option("--address", default="", metavar="IP", help="Where other hosts reach this one (default: they do not).")
@click.option("--backups", type=click.IntRange(0, 5), default=1, show_default=True, help="Backup servers.")
@click.option("--foreground", is_flag=True, help="Stay in the foreground until interrupted.")
@json_option
def command(
    zookeeper: str | None, standby: int, port: int, address: str, backups: int, foreground: bool, as_json: bool
) -> None:
    """Start cluster services on this host: ZooKeeper, controllers, backup servers, an agent.

    Says what runs if they run already. Jobs of a cluster whose processes were lost, and not ended by `riprap down`, go
    on from their last durable epoch.

    \b
    Example:
      riprap up --standby 1
      riprap submit configs/svm_higgs.yaml
      riprap down
      riprap up --address 10.0.0.7 --port 2181   # and `riprap agent --zookeeper 10.0.0.7:2181` on further hosts
    """
    state = read_state()
    if state is None and foreground:
        _serve(zookeeper, standby, port, address, backups)
        return
    if state is None:
        address = _own_address(address, zookeeper)
    already = state is not None
    state = state or _start(zookeeper, standby, port, address, backups)
    if as_json:
        known = {"already": already, "zookeeper": state.zookeeper, "pid": state.pid, "backups": state.backups}
        click.echo(to_json(known))
    else:
        word = "already up" if already else "up"
        named = f"backup servers {', '.join(state.backups)}" if state.backups else "no backup server"
        click.echo(f"{word}: ZooKeeper {state.zookeeper}, {named}, supervisor {state.pid}, logs in {state.folder}")


def _own_address(given: str, zookeeper: str | None) -> str:
    """What this host's services listen at; with an ensemble of the user's, by default, what is seen from there."""
    from controller.addresses import ONE_HOST, address_towards, is_loopback, own_address

    if given or not zookeeper:
        return own_address(given) if given else ONE_HOST
    seen = address_towards(zookeeper)
    return ONE_HOST if is_loopback(seen) else seen


def _start(zookeeper: str | None, standby: int, port: int, address: str, backups: int) -> State:
    """Start the supervisor detached from this terminal, and wait until it has written its state."""
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    arguments = ["up", "--foreground", "--standby", str(standby), "--port", str(port), "--address", address]
    arguments += ["--backups", str(backups)]
    arguments += ["--zookeeper", zookeeper] if zookeeper else []
    log_path = folder / "up.log"
    with log_path.open("wb") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-P", "-m", "engine.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while (state := read_state()) is None:
        if supervisor.poll() is not None or time.monotonic() > deadline:
            supervisor.kill()
            supervisor.wait()
            raise RiprapError(f"the services did not start\n{log_path.read_text().strip()}", f"see {folder}")
        time.sleep(0.02)
    return state


def _serve(zookeeper: str | None, standby: int, port: int, address: str, backups: int) -> None:
    """Be the supervisor: services up, restarted when they die, down when interrupted."""
    from engine.cli.backup_servers import servers_of_cluster
    from engine.cli.services import Services

    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    servers = servers_of_cluster(folder, backups, address)
    services = Services(folder, zookeeper, standby, port, address, on_restart=_note_restart, backups=servers)
    try:
        services.start()
        write_state(_own_state(services.zookeeper, folder, [server.address for server in servers]))
        while True:
            services.supervise()
            time.sleep(SUPERVISE_EVERY_S)
    finally:
        services.stop()
        remove_state()


def _own_state(zookeeper: str, folder: Path, backups: list[str]) -> State:
    ticks = started_ticks(os.getpid())
    assert ticks is not None
    return State(os.getpid(), ticks, zookeeper, str(folder), backups)


def _note_restart(name: str, code: int) -> None:
    click.echo(f"{time.strftime('%F %T')} {name} ended with code {code}; starting it again", err=True)
