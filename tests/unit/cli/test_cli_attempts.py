"""Attempts are counted durably, whatever a crash leaves of the file; one launcher at a time works in a directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError
from riprap.engine.run_directory.attempts import ATTEMPTS, Attempts, resume_command, submit_again_command

HOLDER = """\
import sys, time
from pathlib import Path
from riprap.engine.run_directory.attempts import Attempts
attempts = Attempts(Path(sys.argv[1]))
attempts.begin([0])
print("held", flush=True)
time.sleep(60)
"""


def begin(run_dir: Path, *before: int) -> tuple[int, str]:
    with Attempts(run_dir) as attempts:
        attempt = attempts.begin(before)
    return attempt.number, attempt.run


def test_attempts_are_counted_and_the_job_keeps_its_name(tmp_path: Path) -> None:
    first, second, third = begin(tmp_path, 0, 0), begin(tmp_path, 3, 2), begin(tmp_path, 9, 9)
    assert [first[0], second[0], third[0]] == [1, 2, 3]
    assert first[1] == second[1] == third[1] != ""
    assert begin_elsewhere(tmp_path)[1] != first[1]
    with Attempts(tmp_path) as attempts:
        assert attempts.begin([10, 10]).before == ((0, 0), (3, 2), (9, 9), (10, 10))


def begin_elsewhere(tmp_path: Path) -> tuple[int, str]:
    other = tmp_path / "other"
    other.mkdir()
    return begin(other, 0)


def test_opening_alone_counts_nothing(tmp_path: Path) -> None:
    with Attempts(tmp_path) as attempts:
        named = attempts.run
    assert (tmp_path / ATTEMPTS).read_bytes() == b""
    assert begin(tmp_path)[0] == 1 and named


@settings(deadline=None)
@given(cut=st.integers(1, 400))
def test_a_torn_line_counts_as_an_attempt(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    """Whoever wrote it may have started workers already; the next attempt must shut them out."""
    run_dir = tmp_path_factory.mktemp("torn")
    numbers = [begin(run_dir, 0)[0], begin(run_dir, 5)[0]]
    content = (run_dir / ATTEMPTS).read_bytes()
    kept = content[: max(1, len(content) - cut)]
    (run_dir / ATTEMPTS).write_bytes(kept)
    left = kept.count(b"\n") + (not kept.endswith(b"\n"))
    number, run = begin(run_dir, 7)
    assert number == left + 1 <= numbers[-1] + 1
    lines = (run_dir / ATTEMPTS).read_bytes().splitlines()
    assert len(lines) == number and json.loads(lines[-1])["before"] == [7]
    assert begin(run_dir)[1] == run


def test_a_second_launcher_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout and holder.stdout.readline() == "held\n"
            with pytest.raises(ConfigError, match="in use by another `riprap run`"):
                Attempts(tmp_path)
        finally:
            os.kill(holder.pid, signal.SIGKILL)
    assert begin(tmp_path, 0)[0] == 2


def test_a_directory_that_cannot_be_written_is_an_error_of_the_users(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        Attempts(tmp_path / "none")


def test_the_command_can_be_pasted(tmp_path: Path) -> None:
    assert resume_command(Path("/a b/run")) == "riprap run --resume '/a b/run'"
    assert resume_command(Path("/run"), "zk:1") == "riprap run --resume /run --zookeeper zk:1"
    options = "--zookeeper zk:1 --zookeeper-auth '/a b/f'"
    assert resume_command(Path("/run"), "zk:1", "/a b/f") == f"riprap run --resume /run {options}"
    assert submit_again_command("job", "zk:1", "/a b/f") == f"riprap submit --resume job {options}"
    assert submit_again_command("job", None, "/a b/f") == "riprap submit --resume job", "the cluster of `up` knows it"
