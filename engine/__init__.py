"""The runtime: where operators, schemes, links and the control plane run together.

    shards -> flow/three_stage/source.py -> schemes/ -> flow/links.py -> worker/port.py -> wire/network.pyx
                                                                                                  ||
    flow/three_stage/sink.py <- schemes/ <- flow/links.py <- flow/intake.py <- worker/port.py <- wire/network.pyx
         |                                                                          ^         (processors alike)
         +-- feedback to the processors, acknowledgement to the source -------------+

Tasks of general topologies (`flow/task.py`) stand where those of three stages do. Each folder imports only from those
before it:

wire/           rings, channels, shared memory and sockets, in Cython
flow/           links, layouts, tasks, and the interfaces of ports and schemes
spreads/        how blocks are dealt over tasks and collected again, with what stripes need
schemes/        the fault-tolerance schemes
segments/       coded stages inside a graph
worker/         the process: its real port, views, control, persistence, outputs
run_directory/  what a job leaves, and how it is read while it runs
services/       ZooKeeper, backup servers, controllers and agents of this host
show/ plot/     a run as tables, as a picture
profile/        what the threads of a job did
run/            a job from its checks to its summary
tune/           thresholds for an accuracy
api/            the same from Python
cli/            one file a subcommand
"""
