"""A working directory with shards and a sound topology, in which nothing may be left running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import Cli, write_shards, write_topology


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """`riprap` in a directory with `shards/` and `job.yaml`; what a test leaves running is killed."""
    write_shards(tmp_path / "shards")
    write_topology(tmp_path / "job.yaml")
    cli = Cli(tmp_path)
    yield cli
    cli.kill_all()
