"""Every command explains itself with an example, and the overview costs almost nothing."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from riprap.engine.cli.main import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    from click.testing import CliRunner

    from riprap.engine.cli.main import riprap

    result = CliRunner().invoke(riprap, [name, "--help"])
    assert result.exit_code == 0
    assert f"riprap {name}" in result.output.split("Example:")[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_whoever_names_an_ensemble_may_say_how_it_is_entered(name: str) -> None:
    from riprap.engine.cli.main import riprap

    assert isinstance(riprap, click.Group)
    command = riprap.get_command(click.Context(riprap), name)
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts}
    assert ("--zookeeper" in options) == ("--zookeeper-auth" in options)


def test_the_overview_names_every_command_that_users_need() -> None:
    output = subprocess.check_output([sys.executable, "-m", "riprap.engine.cli.main", "--help"], text=True)
    for name, line in COMMANDS.items():
        assert (f"  {name} " in output) == bool(line)


def test_the_overview_imports_nothing_that_is_slow() -> None:
    code = (
        "import sys\nfrom riprap.engine.cli.main import main\n"
        "try: main(['--help'])\n"
        "finally: print([m for m in ('numpy', 'zmq', 'kazoo', 'pydantic', 'rich', 'pyspark') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip().endswith("[]")
