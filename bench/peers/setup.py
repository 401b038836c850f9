"""Makes each peer's virtual environment under .data/peers, with the versions pinned here.

    python -m bench.peers.setup [NAME...]

What does not install leaves the last line of its error in .data/peers/NAME/failed.txt, which becomes a row of the
results.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HOME = Path(".data/peers").absolute()
NUMPY = "numpy==2.4.6"
INSTALL_TIMEOUT_S = 900


@dataclass(frozen=True)
class Peer:
    """A system, and the needs of its programs: pip requirements, all pinned, in a virtual environment of its own."""

    packages: list[str]
    python: str = "3.11"
    """The version of the interpreter; python3.x must be on the path unless it is the one that runs this."""
    apt: list[str] = field(default_factory=list)
    """Commands that must be on the path, each with the Debian package that brings it, as "command: package"."""
    build: list[str] = field(default_factory=list)
    """A command that the environment's interpreter runs at the end, its own name left out; from the repo's root."""


#: Name -> peer. A program NAME_WORKLOAD.py or NAME_VARIANT_WORKLOAD.py in programs/ runs in NAME's environment.
PEERS: dict[str, Peer] = {
    "numpy": Peer([NUMPY]),
    "sklearn": Peer([NUMPY, "scikit-learn==1.9.1"]),
    "river": Peer([NUMPY, "pandas==3.1.1", "river==0.26.1"]),
    "vw": Peer([NUMPY, "vowpalwabbit==9.11.9"]),
    "bytewax": Peer([NUMPY, "bytewax==0.21.1"]),
    "pathway": Peer([NUMPY, "pathway==0.33.0"]),
    "spark": Peer([NUMPY, "pyspark==4.3.0", "pandas==2.2.3", "pyarrow==26.0.1"], apt=["java: default-jre-headless"]),
    "flink": Peer(
        ["apache-flink==2.3.0"],
        apt=["javac: default-jdk-headless"],
        build=["bench/peers/programs/flink_common.py"],
    ),
}


class NotInstalled(Exception):
    """The reason why a peer is not there."""


def folder(name: str) -> Path:
    """The folder of a peer's environment and its data."""
    return HOME / name


def interpreter(name: str) -> Path:
    """The interpreter of a peer that is installed as the table says. NotInstalled with the reason when it is not."""
    failed = folder(name) / "failed.txt"
    if failed.exists():
        raise NotInstalled(failed.read_text().strip())
    if not _is_current(name):
        raise NotInstalled(f"not set up: python -m bench.peers.setup {name}")
    return folder(name) / "venv/bin/python"


def install(name: str) -> str:
    """Make the environment unless it is there; returns the last line of the error, or nothing."""
    if _is_current(name):
        return ""
    peer = PEERS[name]
    shutil.rmtree(folder(name), ignore_errors=True)
    folder(name).mkdir(parents=True)
    try:
        _make(name, peer)
    except NotInstalled as error:
        (folder(name) / "failed.txt").write_text(f"{error}\n")
        return str(error)
    (folder(name) / "installed.txt").write_text(_wanted(peer))
    return ""


def _make(name: str, peer: Peer) -> None:
    for entry in peer.apt:
        command, package = entry.split(": ")
        if not shutil.which(command):
            raise NotInstalled(f"no {command} on the path: apt install {package}")
    _run([_base(peer.python), "-m", "venv", str(folder(name) / "venv")])
    python = str(folder(name) / "venv/bin/python")
    _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.packages])
    if peer.build:
        _run([python, *peer.build])


def _base(version: str) -> str:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = shutil.which(f"python{version}")
    if not found:
        raise NotInstalled(f"no python{version} on the path")
    return found


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(str(error).splitlines()[-1]) from error
    if done.returncode:
        raise NotInstalled(last_line(done.stderr) or last_line(done.stdout) or f"exit code {done.returncode}")


def last_line(text: str) -> str:
    """The last line with something on it."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _wanted(peer: Peer) -> str:
    return "\n".join([peer.python, *peer.packages, *peer.apt, *peer.build]) + "\n"


def _is_current(name: str) -> bool:
    marker = folder(name) / "installed.txt"
    return marker.exists() and marker.read_text() == _wanted(PEERS[name])


def main() -> None:
    """Install, and say the outcome of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PEERS)}; all unless given")
    for name in parser.parse_args().names or PEERS:
        if name not in PEERS:
            parser.error(f"no peer {name}: there are {', '.join(PEERS)}")
        print(f"{name}: {install(name) or 'installed'}", flush=True)


if __name__ == "__main__":
    main()
