"""The runtime: where operators, schemes, links and the control plane run together.

    input -> flow/reader.py -> flow/task.py -> flow/outlet.py -> flow/links.py -> worker/port.py -> wire/network.pyx
                                  |   ^                                                                    ||
                       operator, scheme                                                                    ||
                                  v   |                                                                    ||
    outputs <----------------- flow/task.py <- flow/links.py <- flow/intake.py <- worker/port.py <- wire/network.pyx

Where a stage is coded, an encoder of spreads/ stands between outlet and links, and a decoder between links and task.
Each folder imports only from those before it:

wire/           rings, channels, shared memory and sockets, in Cython
flow/           links, layouts, the task, and the interfaces of ports and schemes
spreads/        coded stages: how blocks are dealt over tasks and collected again
schemes/        the fault-tolerance schemes
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
