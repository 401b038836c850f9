"""The ordinary way of a message before its link sees it; the odd cases stand in engine/flow/intake.py."""

cimport cython

from riprap.codec.blocks import Kind
from riprap.codec.errors import FrameError
from riprap.codec.header import decode_behind, decode_bundle, is_bundle, prefix_of

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
        cdef list blocks
        try:
            prefix = prefix_of(header)
            name = (peer, prefix)
            found = self._proved.get(name)
            link = found if found is not None else self._prove(peer, prefix)
            if is_bundle(header, prefix):
                blocks = self._sound(link, decode_bundle(header, frames))
                return (link.edge, link.sender, link.head, blocks) if blocks else None
            block = decode_behind(header, frames, link.fetch)
            if block.kind is not HELLO:
                self._check(link, block)
        except FrameError as error:
            self.drop(str(error))
            return None
        return link.edge, link.sender, link.head, [block]

    cdef int _check(self, Incoming link, object block) except -1:
        if block.kind not in link.kinds:
            raise FrameError("a kind that this edge does not carry")
        link.check(link.sender, block)
        return 0

    cdef list _sound(self, Incoming link, list blocks):
        """Those of a bundle that may come in; the others are dropped and counted one by one."""
        cdef list sound = []
        for block in blocks:
            try:
                self._check(link, block)
            except FrameError as error:
                self.drop(str(error))
            else:
                sound.append(block)
        return sound

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
