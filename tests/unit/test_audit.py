"""`make audit`: a known vulnerability fails, a service that cannot be reached does not and is told of."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

AUDIT = Path(__file__).parents[2] / ".ci" / "audit.py"
STUB = """\
import json, sys
said = json.loads(open(sys.argv[1]).read())
service = sys.argv[sys.argv.index("--vulnerability-service") + 1]
found = said.get(service + (" one" if "--requirement" in sys.argv else " all"), said.get(service))
if isinstance(found, str):
    sys.exit(found)
print(json.dumps({"dependencies": found, "fixes": []}))
sys.exit(any(package.get("vulns") for package in found))
"""
CLEAN = {"name": "click", "version": "8.1.7", "vulns": []}
SKIPPED = {"name": "click", "skip_reason": "Dependency not found on PyPI and could not be audited: click (8.1.7)"}
HOLE = {"id": "PYSEC-2099-1", "fix_versions": ["2.0"], "aliases": [], "description": "a hole"}
HOLED = {"name": "numpy", "version": "1.0", "vulns": [HOLE]}
OLD_PIP = HOLED | {"name": "pip"}
NO_NAME = "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.osv.dev', port=443): Max retries exceeded"
NO_FEED = "ERROR:pip_audit._cli:Could not connect to PyPI's vulnerability feed"
REACHED = "not checked: the service of advisories cannot be reached\n"


def audit(tmp_path: Path, **services: Any) -> tuple[int, str]:
    """The exit code and what was said, when the services answer so."""
    (tmp_path / "stub.py").write_text(STUB)
    answers = {name.replace("_", " "): answer for name, answer in services.items()}
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    words = [sys.executable, str(AUDIT), sys.executable, str(tmp_path / "stub.py"), str(tmp_path / "answers.json")]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("pypi", [[SKIPPED], NO_NAME, NO_FEED])
def test_services_that_do_not_answer_fail_nothing_and_are_told_of(tmp_path: Path, pypi: Any) -> None:
    assert audit(tmp_path, pypi=pypi, osv=NO_NAME) == (0, REACHED)


def test_a_service_that_ceases_to_answer_fails_nothing(tmp_path: Path) -> None:
    assert audit(tmp_path, pypi_one=[CLEAN], pypi_all=NO_FEED, osv=NO_NAME) == (0, REACHED)


@pytest.mark.parametrize("services", [{"pypi": [CLEAN, HOLED]}, {"pypi": [SKIPPED], "osv": [CLEAN, HOLED]}])
def test_a_known_vulnerability_fails(tmp_path: Path, services: Any) -> None:
    code, said = audit(tmp_path, **services)
    assert code == 1 and "numpy 1.0: PYSEC-2099-1, fixed in 2.0\n1 of 2 packages have" in said


def test_what_is_clean_passes_and_what_was_skipped_is_named(tmp_path: Path) -> None:
    code, said = audit(tmp_path, pypi=[CLEAN, SKIPPED | {"name": "ours"}, OLD_PIP])
    assert code == 0 and "does not know them: ours\n0 of 1 packages have known" in said


@pytest.mark.parametrize("error", ["usage: pip-audit [-h] [--timeout TIMEOUT]", "No module named pip_audit"])
def test_a_failure_of_the_tool_itself_is_one(tmp_path: Path, error: str) -> None:
    code, said = audit(tmp_path, pypi=error)
    assert code == 1 and error in said
