"""`riprap token`: lets another host join a cluster."""

from __future__ import annotations

import click

from riprap.engine.cli.options import zookeeper_option


@click.command("token")
@click.option(
    "--minutes", type=click.IntRange(1, 1440), default=10, show_default=True, help="How long the token is worth it."
)
@click.option("--reader", is_flag=True, help="For one who may only ask how the jobs are: riprap status, riprap jobs.")
@click.option("--revoke", is_flag=True, help="Make all tokens worth nothing instead.")
@click.option("--rotate", is_flag=True, help="Change the keys of the cluster of `riprap up` here, while jobs run.")
@zookeeper_option
def command(minutes: int, reader: bool, revoke: bool, rotate: bool, zookeeper: str | None) -> None:
    """Print a token with which another host gets the keys of a cluster.

    Whoever has the token until it expires can do with the cluster what you can, or with --reader see how its jobs are.
    It is forgotten when the controller that leads ends.

    With --rotate, keys that somebody may know open nothing of the cluster any more. Jobs, workers and agents go on;
    every agent that is there gets the new keys, so see that all are yours. Killed half-way it can be given again.

    \b
    Example:
      riprap token
      riprap token --rotate
    """
    from riprap.engine.services.cluster import open_client

    if rotate:
        _rotate(zookeeper, reader or revoke)
        return
    with open_client(zookeeper) as client:
        if revoke:
            click.echo(f"revoked: {client.revoke_tokens()}")
            return
        click.echo(client.token(60 * minutes, reader))
    click.echo(f"within {minutes} minutes, on the other host: riprap join, and paste the token", err=True)


def _rotate(zookeeper: str | None, more: bool) -> None:
    from riprap.codec.errors import ConfigError
    from riprap.engine.services.rotation import rotate

    if zookeeper or more:
        raise ConfigError("--rotate goes with no other option", "give it on the host of the cluster's `riprap up`")
    done = rotate()
    click.echo("the keys are new, and the former ones open nothing: controllers and backup servers were started again")
    click.echo(f"agents that have the new keys: {', '.join(done.hosts)}")
    click.echo("hosts that were not there: `riprap join` with a new token, then start what runs there again", err=True)
    for server in done.foreign_backups:
        click.echo(
            f"backup server {server} is not one of `riprap up`, and has the former keys: start it again with the new"
            " ones, for workers that start from now on do not reach it", err=True,
        )  # fmt: skip
