"""A short run of the fuzz of a job's sockets; `make fuzz` sends millions."""

from __future__ import annotations

import sys

from cli_harness import REPO, Cli

sys.path.insert(0, str(REPO / "tests/fuzz"))
import fuzz_sockets
import pytest


def test_a_job_does_not_notice_what_strangers_and_fools_send(
    tmp_path_factory: pytest.TempPathFactory, ensemble: str
) -> None:
    cli = Cli(tmp_path_factory.mktemp("fuzzed"), ensemble)
    try:
        assert fuzz_sockets.run(cli, count=1000, processes=2, seed=7, seconds=4) >= 1000
    finally:
        cli.kill_all()
