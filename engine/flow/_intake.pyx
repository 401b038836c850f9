"""The ordinary way of a message before its link sees it; the odd cases stand in engine/flow/intake.py."""

cimport cython

from riprap.codec.blocks import Kind
from riprap.codec.errors import FrameError
from riprap.codec.header import decode_behind, prefix_of

cdef object HELLO = Kind.HELLO
cdef object ACK = Kind.ACK


@cython.final
cdef class Incoming:
    cdef readonly object edge
    cdef readonly object sender
    cdef readonly object head
    cdef object kinds
    cdef object fetch
    cdef object check

    def __init__(self, edge, sender, head, kinds, fetch, check):
        self.edge, self.sender, self.head = edge, sender, head
        self.kinds, self.fetch, self.check = kinds, fetch, check


@cython.final
cdef class Outgoing:
    cdef readonly object edge
    cdef readonly object receiver
    cdef readonly object head

    def __init__(self, edge, receiver, head):
        self.edge, self.receiver, self.head = edge, receiver, head


cdef class OrdinaryIntake:
    cdef public dict _proved
    cdef public dict _answered

    def __init__(self):
        self._proved, self._answered = {}, {}

    def forward(self, bytes peer, bytes header, object frames):
        cdef Incoming link
        try:
            prefix = prefix_of(header)
            name = (peer, prefix)
            found = self._proved.get(name)
            link = found if found is not None else self._prove(peer, prefix)
            block = decode_behind(header, frames, link.fetch)
            kind = block.kind
            if kind not in link.kinds:
                raise FrameError("a kind that this edge does not carry")
            if kind is not HELLO:
                link.check(link.sender, block)
        except FrameError as error:
            self.drop(str(error))
            return None
        return link.edge, link.sender, link.head, block

    def backward(self, bytes header):
        cdef Outgoing link
        try:
            prefix = prefix_of(header)
            found = self._answered.get(prefix)
            link = found if found is not None else self._find(prefix)
            block = decode_behind(header, ())
            if block.kind is not ACK and block.kind is not HELLO:
                raise FrameError("no such link starts here")
        except FrameError as error:
            self.drop(str(error))
            return None
        return link.edge, link.receiver, link.head, block
