"""`riprap backup`: a backup server in the foreground, which keeps states and items for workers that may die."""

from __future__ import annotations

import click

from riprap.codec.start import importing
from riprap.engine.cli.options import die_with_parent_option

PORT_MAX = 65_535


@click.command("backup")
@click.option("--listen", required=True, metavar="ADDRESS", help="tcp://IP:PORT, or ipc://PATH for this host alone.")
@click.option("--storage", required=True, metavar="DIR_OR_URL", help="A directory, or a URL that fsspec knows.")
@click.option(
    "--durability",
    type=click.Choice(["always", "interval", "never"]),
    default="interval",
    show_default=True,
    help="When records are forced to disk: before they are acknowledged, at intervals, or when the system likes.",
)
@click.option("--interval-ms", type=click.IntRange(1, 60_000), default=100, show_default=True, help="Of `interval`.")
@die_with_parent_option
def command(listen: str, storage: str, durability: str, interval_ms: int, die_with_parent: int | None) -> None:
    """Run a backup server in the foreground; topologies name it under backup.servers.

    \b
    Example:
      riprap backup --listen tcp://10.0.0.7:7070 --storage /var/lib/riprap --durability always
      riprap run job.yaml --set 'backup.servers=[tcp://10.0.0.7:7070]'
    """
    from riprap.codec.errors import ConfigError
    from riprap.controller.processes import run_before_workers
    from riprap.engine.cli.daemon import begin

    begin(die_with_parent)  # before the imports that take long
    if not listen.startswith(("tcp://", "ipc://")) or _has_no_port(listen):
        raise ConfigError(
            f"--listen {listen}: not an address", "write tcp://IP:PORT, or ipc://PATH for this host alone"
        )
    with importing():
        from riprap.backupserver.server import serve

    run_before_workers()  # who is restored, and what may leave only when it is durable, waits for this server
    serve(listen, storage, durability, interval_ms)


def _has_no_port(listen: str) -> bool:
    """True for a number that is too large to be a port; libzmq would listen at what is left of it in 16 bits."""
    port = listen.rpartition(":")[2]
    return listen.startswith("tcp://") and port.isdecimal() and (len(port) > 5 or int(port) > PORT_MAX)
