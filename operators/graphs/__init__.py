"""Algorithms on graphs, as loops within a window."""
