"""The places of all nodes in ZooKeeper.

```
/riprap/leader             ephemeral: {endpoint, pid, keys} of the controller that leads; its czxid is the leader's term
/riprap/agents/HOST        ephemeral: {instance, address, pid}
/riprap/jobs/JOB/spec      {topology, run_dir}, written once by submit
/riprap/runs/RUN/ATTEMPT   a `riprap run` on this ensemble: the same folders again, for itself alone
/riprap/jobs/JOB/state     {term, phase, error, tasks: {WORKER: [incarnation, host, instance]}, ...}, see record.py
```
The leader's node is the election as well: whoever creates it leads, so that no one leads without an endpoint.
"""

from __future__ import annotations

ROOT = "/riprap"
LEADER = f"{ROOT}/leader"
AGENTS = f"{ROOT}/agents"
JOBS = f"{ROOT}/jobs"
RUNS = f"{ROOT}/runs"


def agent(host: str) -> str:
    """The ephemeral node of a host's agent."""
    return f"{AGENTS}/{host}"


def job(name: str) -> str:
    """The folder of a job."""
    return f"{JOBS}/{name}"


def job_spec(name: str) -> str:
    """The node of a job's spec; never changes."""
    return f"{JOBS}/{name}/spec"


def job_state(name: str) -> str:
    """The node of the decisions about a job."""
    return f"{JOBS}/{name}/state"


def run(name: str) -> str:
    """The folder of one `riprap run`."""
    return f"{RUNS}/{name}"
