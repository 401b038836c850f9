"""Operators of general topologies (AF), with their kernels."""
