"""Loops within a window: supersteps that all tasks of a stage take together (docs/iteration.md)."""
