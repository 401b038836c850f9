"""Topology files: their schema, how they are loaded and checked, and a runnable example for each algorithm."""
