"""Numbers on the command line that are none, or of no use, are refused with the name of their option."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from riprap.codec.errors import ConfigError
from riprap.engine.cli.main import COMMANDS, riprap
from riprap.engine.cli.rescale import _parsed
from riprap.engine.services.hosts import pretended_hosts

DIGITS = "1" * 5000
"""More than Python takes for a number."""


def options_of(command: click.Command) -> list[click.Option]:
    """The options of a command, and of those below it."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return [
        *(one for one in command.params if isinstance(one, click.Option)),
        *(option for inner in below for option in options_of(inner)),
    ]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999"])
def test_a_number_of_no_size_is_refused(name: str, number: str) -> None:
    assert isinstance(riprap, click.Group)
    context = click.Context(riprap)
    command = riprap.get_command(context, name)
    assert command is not None
    for option in options_of(command):
        if isinstance(option.type, click.types.FloatParamType):
            with pytest.raises(click.BadParameter):
                option.type.convert(number, option, context)


def test_a_port_of_many_digits_is_no_address() -> None:
    result = CliRunner().invoke(riprap, ["backup", "--listen", f"tcp://127.0.0.1:{DIGITS}", "--storage", "there"])
    assert isinstance(result.exception, ConfigError) and "not an address" in str(result.exception)


def test_a_seed_that_no_generator_takes_is_refused() -> None:
    result = CliRunner().invoke(riprap, ["prep", "synth", "graph", "there", "--rows=1", "--seed=-1"])
    assert result.exit_code == 2 and "--seed" in result.output


@pytest.mark.parametrize("number", [DIGITS, "0", "-1", "x", ""])
def test_a_number_of_tasks_or_of_domains_that_is_none_is_refused(number: str) -> None:
    with pytest.raises(ConfigError, match="no stage with a number of tasks"):
        _parsed(f"count={number}")
    with pytest.raises(ConfigError, match="--domains"):
        pretended_hosts(4, [f"rack={number}"])
