"""The nine experiments of AF-Stream (AFX 6), a module each; `make bench-afstream` runs them all.

data.py      the streams, synthesized or real
jobs.py      runs of `riprap`, interleaved, with their results and failures
settings.py  schemes, thresholds and the paper's figures
overhead.py  beside the experiments: what approximate fault tolerance costs on each workload, in pairs of runs
"""
