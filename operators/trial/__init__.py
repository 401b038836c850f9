"""Tries operators in one process on real items, before a job relies on them: the demands on each kind, as laws.

law.py        what a law is, how one is tried, and the complaint about one that is broken
arrays.py     arrays as messages bring them, and where two lists of arrays differ
source.py, processor.py, sink.py, dataflow.py, states.py
              the laws of each kind
play.py       runs a source, a processor and a sink over some epochs, as a job would
graph.py      runs the stages of DataflowOperators over some windows, as a job would
subjects.py   fresh operators from a class, or from one that was made
"""
