"""Looks for known vulnerabilities of the packages that are installed beside it: `python .ci/audit.py`.

Exit code 1 when there is one, or when pip-audit fails by itself. Where no service of advisories can be reached that is
said, and the code is 0. pip-audit tells neither apart by its own code: it calls a machine clean on which it could look
nothing up, and ends with 1 when a service does not answer.

Words on the command line are run in place of pip-audit.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

SERVICES = ("pypi", "osv")
KNOWN = "click==8.1.7"
"""A release that every service knows; it is asked for first, as a registry may be there without its advisories."""
UNREACHABLE = re.compile(
    r"Connection\w*Error|(Connect|Read)Timeout|Could not connect|not redirecting|ServiceError|JSONDecode"
)
NOT_OURS = {"pip"}  # Python brings it along

Packages = list[dict[str, Any]]


def main(words: Sequence[str]) -> int:
    """The exit code."""
    if not words and find_spec("pip_audit") is None:
        print("not checked: pip-audit is not installed")
        return 0
    command = list(words) or [sys.executable, "-m", "pip_audit"]
    for service in SERVICES:
        if not checked(look_up_one(command, service)):
            continue
        found = look_up(command, service, "--local", "--skip-editable")
        if checked(found):
            return report(found, service)
    print("not checked: the service of advisories cannot be reached")
    return 0


def look_up_one(command: Sequence[str], service: str) -> Packages:
    """What is known of one release."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.write(KNOWN)
        requirements.flush()
        return look_up(command, service, "--requirement", requirements.name, "--no-deps", "--disable-pip")


def look_up(command: Sequence[str], service: str, *what: str) -> Packages:
    """Packages, each with its vulnerabilities or why it was skipped; none when the service does not answer."""
    options = ("--vulnerability-service", service, "--format", "json", "--progress-spinner", "off")
    done = subprocess.run([*command, *options, *what], capture_output=True, text=True)
    try:
        return list(json.loads(done.stdout)["dependencies"])
    except (ValueError, KeyError, TypeError):
        if UNREACHABLE.search(done.stderr):
            return []
        sys.exit(f"pip-audit failed with code {done.returncode}:\n{done.stderr[-2000:]}")


def checked(found: Packages) -> Packages:
    """Those that were looked up."""
    return [package for package in found if "vulns" in package and package["name"] not in NOT_OURS]


def report(found: Packages, service: str) -> int:
    """Print what is vulnerable; 1 if anything is."""
    vulnerable = [package for package in checked(found) if package["vulns"]]
    for package in vulnerable:
        for one in package["vulns"]:
            fixed = ", ".join(one.get("fix_versions") or ()) or "no version yet"
            print(f"{package['name']} {package['version']}: {one['id']}, fixed in {fixed}")
    skipped = [package["name"] for package in found if "vulns" not in package]
    if skipped:
        print(f"not checked, as {service} does not know them: {', '.join(skipped)}")
    print(f"{len(vulnerable)} of {len(checked(found))} packages have known vulnerabilities, says {service}")
    return 1 if vulnerable else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
