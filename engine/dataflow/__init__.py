"""General topologies (AF 3.2): any stages, tasks, data edges and feedback edges, with one task class for all of them.

layout.py    which workers are joined, by the partitioning of each edge
task.py      the task: its inbox, windows and the calls of the operator
threads.py   the compute threads that prepare blocks before their turn
outlet.py    what the operator puts out, link by link
progress.py  how far every link is, in numbers that outlive the workers at its ends
pace.py      consistency models: BSP, SSP, ASP
"""
