"""Rings, channels, shared memory and sockets: how messages leave a worker and come in, in Cython."""
