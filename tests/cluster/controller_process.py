"""Runs a controller or an agent of toy workers as a process: `controller_process.py ROLE ZK [HOST [ADDRESS]]`."""

from __future__ import annotations

import logging
import os
import sys

from riprap.codec.errors import RiprapError
from riprap.controller.agent import run_agent
from riprap.controller.processes import die_with_parent
from riprap.controller.service import run_controller
from riprap.controller.zookeeper import EmbeddedZooKeeper


def main() -> int:
    """Be what the first argument says, and die with the process that started this one."""
    logging.basicConfig(level=logging.INFO, format="%(process)d %(name)s %(message)s")
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    die_with_parent(os.getppid())
    role, zookeeper, *place = sys.argv[1:]
    try:
        if role == "controller":
            run_controller(zookeeper)
        elif role == "agent":
            run_agent(zookeeper, *place, entry="toy_worker:main")
        else:
            launch_and_hang(data_dir=zookeeper)
    except RiprapError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def launch_and_hang(data_dir: str) -> None:
    """Be a launcher as `riprap run` is one: start ZooKeeper, a controller and an agent, print their pids, and wait."""
    import subprocess

    zookeeper = EmbeddedZooKeeper(data_dir)
    zookeeper.start()
    command = [sys.executable, __file__]
    roles = (["controller", zookeeper.connect_string], ["agent", zookeeper.connect_string, "h1"])
    children = [subprocess.Popen([*command, *role]) for role in roles]
    print(zookeeper.connect_string, os.getpid(), zookeeper.pid, *(child.pid for child in children), flush=True)
    children[0].wait()


if __name__ == "__main__":
    sys.exit(main())
