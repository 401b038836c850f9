"""Streams of text: words that are counted, lines that match, and their kernels."""
