"""The runtime: where operators, schemes, links and the control plane run together.

    shards -> tasks/source.py -> schemes/ -> links.py -> port.py -> network.pyx ==> ipc or tcp
                                                                                      ||
    tasks/sink.py <- schemes/ <- links.py <- intake.py <- port.py <- network.pyx <== (processors alike)
         |                                                                  ^
         +-- feedback to the processors, acknowledgement to the source -----+

`worker.py` is the process, `membership.py` follows the controller's views, `control.py` is the line to the agent, and
`cli/` the command line, where all parts are put together. `compose.py` is the same from Python: `handle/` starts what
`cli/` does in a process of its own. `local.py` runs operators without any of it, `plot/` draws what a run left.
"""
