"""Received frames as Python objects, and the two ways between Python's arguments and messages."""

from riprap.engine.wire._message cimport Message
from riprap.engine.wire._zmq cimport zmq_msg_t


cdef class Frame:
    cdef zmq_msg_t message

# Raises ValueError over the bounds, and what the exporters of the buffers raise. `peer` is empty on a DEALER.
cdef Message* pack(unsigned int link, bytes peer, bytes header, object frames, size_t bytes_max) except NULL

# (origin, sender, header, frames); takes the frames out of the message, which stays the caller's.
cdef tuple unpack(Message* message, object origin)
