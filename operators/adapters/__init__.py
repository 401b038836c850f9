"""Runs `Source`, `Processor` and `Sink` as DataflowOperators, which every scheme takes.

stages.py   the three adapters
states.py   what of them is backed up and restored
"""
