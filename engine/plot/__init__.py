"""A run as pictures: series.py reads a run directory into plain numbers, figure.py draws them."""
