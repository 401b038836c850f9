"""`riprap join`: gets the keys of a cluster with a token."""

from __future__ import annotations

import click


@click.command("join")
@click.argument("token", required=False)
def command(token: str | None) -> None:
    """Get the keys of a cluster, with a TOKEN of `riprap token`; without one it is asked for, so that no list shows it.

    \b
    Example:
      riprap join && riprap agent --zookeeper 10.0.0.7:2181
    """
    from riprap.codec.errors import ConfigError
    from riprap.codec.trust.keys import FOLDER_VARIABLE, is_off, keys_folder
    from riprap.codec.trust.reader import adopt_reader
    from riprap.codec.trust.rotation import adopt_after
    from riprap.codec.trust.tokens import Token
    from riprap.controller.joining import join

    if is_off():
        raise ConfigError("security is off here, so no keys are kept", f"unset {FOLDER_VARIABLE}")
    joined = join(Token.read((token or click.prompt("token", hide_input=True)).strip()))
    if joined.reader:
        adopt_reader(joined.reader, keys_folder())
    else:
        adopt_after(joined.former, joined.secret, keys_folder())
    auth = " --zookeeper-auth FILE, with a file as on the first host" if joined.secured else ""
    now = f"riprap {'status' if joined.reader else 'agent'} --zookeeper {joined.zookeeper}{auth}"
    click.echo(f"the keys are in {keys_folder()}; now: {now}")
