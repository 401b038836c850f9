"""An installed copy works as a checkout does: built as a wheel, run and tested from another folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cli_harness import REPO, Cli, write_topology

TESTS = ("unit/codec/test_files.py", "unit/test_public_names.py", "conformance/test_operators.py")
"""Some that map files, import all operators, or start interpreters; `make test-wheel` runs them all."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed wheel and nothing else of ours."""
    made, site = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    finish([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(made), str(REPO)], made)
    (wheel,) = made.glob("riprap-*.whl")
    finish([*pip, "install", "--no-deps", "--no-compile", "--target", str(site), str(wheel)], made)
    return site


def finish(command: list[str], directory: Path, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_the_package_alone(site: Path) -> None:
    names = {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"riprap", "bin"}
    assert {"codec", "engine", "operators", "py.typed"} <= {path.name for path in (site / "riprap").iterdir()}


def test_its_copy_trains_through_a_kill(site: Path, cli: Cli) -> None:
    write_topology(cli.directory / "job.yaml")
    environment = {"PYTHONPATH": str(site), "RIPRAP_EXPECTED": str(site)}
    where = (
        "import os, riprap.engine.wire.rings as r; "
        "assert r.__file__.startswith(os.environ['RIPRAP_EXPECTED']), r.__file__"
    )
    finish([sys.executable, "-P", "-c", where], cli.directory, environment)
    run = cli.run("run", "job.yaml", "--json", "--fault", "kill:processor.1@30%", environment=environment)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["completed"]
    cli.await_no_process()


def test_its_copy_passes_tests_from_another_folder(site: Path, tmp_path: Path) -> None:
    chosen = [str(REPO / "tests" / name) for name in TESTS]
    options = ["-q", "-p", "no:cacheprovider", "-c", str(REPO / "pyproject.toml"), "--rootdir", str(REPO)]
    said = finish([sys.executable, "-P", "-m", "pytest", *options, *chosen], tmp_path, {"PYTHONPATH": str(site)})
    assert "passed" in said and "failed" not in said
