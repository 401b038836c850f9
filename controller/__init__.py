"""The control plane: places workers on hosts, detects failures, and repairs them.

```
 client.py --submit, status, kill--> service.py (one leads, elected in ZooKeeper; the others stand by)
                                        |  core.py decides (pure): reports, losses and ticks in, actions out
                                        |  executor.py acts: store.py (ZooKeeper), messages to agents, events.jsonl
                     full reports ^     v full desired state + view          (messages.py; a lost one heals itself)
                                  agent.py (one a host) --> zygote.py (pre-imported spares) --> worker processes
                                        `-- a SEQPACKET channel to each worker: spec, view, stop | ready, progress, done
```
Decisions take their time and facts as arguments (`core.py`, `detector.py`, `steps.py`, `phases.py`); sockets, processes
and ZooKeeper stay in `service.py`, `executor.py`, `agent.py` and `zygote.py`.
"""
