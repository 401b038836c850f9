"""The flow of blocks from link to operator and on. All of it is free of sockets and clocks.

edges.py     the edges around a worker
port.py      all that tasks and schemes may do to the outside world
intake.py    the gate for what comes from the network
links.py     FIFO between two tasks: numbers, acknowledgements, window, replay
_links.pyx   of that, what is done for every message

General topologies (AF 3.2): any stages, tasks, data edges and feedback edges, with one task class for all of them.

layout.py    which workers are joined, by the partitioning of each edge
gate.py      what a peer may send
scheme.py    what a scheme is to a task
task.py      the task: its inbox, windows and the calls of the operator
threads.py   the compute threads that prepare blocks before their turn
outlet.py    what the operator puts out, link by link
progress.py  how far every link is, in numbers that outlive the workers at its ends
pace.py      consistency models: BSP, SSP, ASP

three_stage/ is the same for source, processor, sink.
"""
