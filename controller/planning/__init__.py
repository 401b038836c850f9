"""The planner of partially active replication: the tasks that get an active replica, chosen before a job starts.

Pure: no file, no clock, no process. Su and Zhou, "Tolerating Correlated Failures in Massively Parallel Stream
Processing Engines" (ICDE 2016), with the errors of its pseudo-code mended (docs/planning.md says which).

```
 configs/shape.py + rates.py --> graph.py: tasks, substreams with rates, joins
                                   |
       fidelity.py: OF and IC of a set of replicas      trees.py: MC-trees      cuts.py: sub-topologies that multiply
                                   |
       greedy.py  dp.py  paths.py  full.py + structured.py -> structure_aware.py  exact.py  full_tree.py
                                   |                                          (and domains.py: scenarios)
       planner.py: one entry, a plan with its upper bound (bounds.py)
```
"""
