"""The flow of blocks from link to operator and on. All of it is free of sockets and clocks.

edges.py     the edges around a worker
port.py      all that tasks and schemes may do to the outside world
intake.py    the gate for what comes from the network
links.py     FIFO between two tasks: numbers, acknowledgements, window, replay
_intake.pyx, _links.pyx, forms.pyx   of these, what is done for every message

Any stages, tasks, data edges and feedback edges, with one task class for all of them (AF 3.2):

layout.py    which workers are joined, by the partitioning of each edge
segment.py   those around a coded stage
gate.py      what a peer may send; segment_gate.py within a segment
scheme.py    what a scheme is to a task
runs.py      what a task is to its worker
task.py      the task: its inbox and the calls of the operator; window_closer.py the end of its windows
threads.py   the compute threads that prepare blocks before their turn
reader.py    the input of a source; epoch_reader.py in epochs, logged_reader.py where it must be logged
read_ahead.py   what is read before its turn, for those threads
outlet.py    what the operator puts out; outlet_link.py one link of it
digests.py   digests of it, by which copies of a task compare themselves
receipts.py  what senders need not keep any more; backlog.py how much may wait here
progress.py  how far every link is, in numbers that outlive the workers at its ends
pace.py      consistency models: BSP, SSP, ASP
window_order.py   the order of windows before a stage that waits for feedback
"""
