"""Runs `Source`, `Processor` and `Sink` as operators of a general topology, so that every scheme of one takes them.

stages.py   the three adapters
states.py   what of them is backed up and restored
"""
