"""The two halves of a link, and what is done for every message of one; the odd cases stand in engine/flow/links.py."""

from collections import deque

cimport cython
from libc.stdint cimport int64_t

from riprap.codec.blocks import Kind

cdef object HELLO = Kind.HELLO
cdef object ACK = Kind.ACK
cdef object BARRIER = Kind.BARRIER
# Places beyond a window: a full link must not hold barriers up, nor what waits before one.
cdef int64_t BARRIERS_MAX = 4096
cdef int64_t BEFORE_MAX = 64


@cython.final
cdef class OutLink:
    cdef readonly object window
    cdef readonly int64_t sent
    cdef readonly int64_t acked
    cdef readonly object kept
    cdef readonly int64_t kept_bytes
    cdef object sizes  # of `kept`, in bytes

    def __init__(self, window):
        self.window = window
        self.sent = self.acked = self.kept_bytes = 0
        self.kept = deque()
        self.sizes = deque()

    @property
    def room(self):
        return room_of(self)

    def put(self, block):
        return keep(self, block)

    def ack(self, int64_t seq):
        forget(self, seq)

    def after(self, int64_t seq):
        return [(self.acked + i, block) for i, block in enumerate(self.kept, 1) if self.acked + i > seq]


cdef int64_t room_of(OutLink link) except? -1:
    if link.kept_bytes >= link.window.nbytes:
        return 0
    return link.window.blocks - (link.sent - link.acked)


def places(window, block):
    return places_of(window, block)


cdef int64_t places_of(object window, object block) except -1:
    return <int64_t>window.blocks + (BARRIERS_MAX if block.kind == BARRIER else BEFORE_MAX)


cdef bint has_reserve(OutLink link, object block) except *:
    return link.sent - link.acked < places_of(link.window, block)


cdef int64_t nbytes_of(object block) except -1:
    cdef int64_t nbytes = 0
    for array in block.arrays:
        nbytes += <int64_t>array.nbytes
    if block.attachment is not None:
        nbytes += <int64_t>block.attachment.nbytes
    return nbytes


cdef int64_t keep(OutLink link, object block) except -1:
    cdef int64_t nbytes = nbytes_of(block)
    link.kept.append(block)
    link.sizes.append(nbytes)
    link.kept_bytes += nbytes
    link.sent += 1
    return link.sent


cdef int forget(OutLink link, int64_t seq) except -1:
    while link.acked < seq <= link.sent:
        link.kept.popleft()
        link.kept_bytes -= <int64_t>link.sizes.popleft()
        link.acked += 1
    return 0


@cython.final
cdef class InLink:
    cdef public int64_t received
    cdef public int64_t safe
    cdef public int64_t acked
    cdef public int64_t asked

    def __init__(self):
        self.received = self.safe = self.acked = self.asked = 0


cdef class OrdinaryLinks:
    cdef public object wire
    cdef public object window
    cdef public dict _incarnations
    cdef public set _up
    cdef public dict _out
    cdef public dict _in

    def __init__(self, wire, window):
        self.wire, self.window = wire, window
        self._incarnations, self._up, self._out, self._in = {}, set(), {}, {}

    def incarnation(self, worker):
        return self._incarnations.get(worker, 0)

    def is_up(self, worker):
        return worker in self._up

    def room(self, edge, to):
        return room_of(out_link(self, edge, to)) if to in self._up else 0

    def unacknowledged(self, edge, to):
        return len(out_link(self, edge, to).kept)

    def send(self, edge, to, block, urgent=False):
        cdef OutLink link
        if to not in self._up:
            return False
        link = out_link(self, edge, to)
        if room_of(link) <= 0 and not (urgent and has_reserve(link, block)):
            return False
        self.wire.transmit(edge, to, keep(link, block), block)
        return True

    def accept(self, edge, sender, incarnation, int64_t seq, block):
        cdef InLink link
        if sender in self._up and incarnation == self._incarnations.get(sender, 0) and block.kind != HELLO:
            link = in_link(self, edge, sender)
            if seq == link.received + 1 and seq <= link.safe + places_of(self.window, block):
                link.received = seq
                return True
        self._on_odd(edge, sender, incarnation, seq, block)
        return False

    def on_reply(self, edge, peer, incarnation, kind, int64_t seq):
        link = self._out.get((edge, peer))
        if link is None or incarnation != self._incarnations.get(peer, 0):
            return
        if kind == ACK:
            forget(link, seq)
        elif kind == HELLO:
            self._replay(edge, peer, link, seq)

    def ack(self, edge, sender, seq=None):
        cdef InLink link = self._in.get((edge, sender))
        cdef int64_t number
        if link is None:
            return
        if seq is None:
            link.safe = link.received
        else:
            number = seq
            link.safe = min(link.received, max(link.safe, number))

    def flush(self, int64_t least):
        cdef InLink link
        cdef bint left = False
        for place, link in self._in.items():
            if link.safe - link.acked >= least:
                link.acked = link.safe
                self.wire.reply(place[0], place[1], ACK, link.safe)
            elif link.safe > link.acked:
                left = True
        return left

    def _out_link(self, edge, to):
        return out_link(self, edge, to)

    def _in_link(self, edge, sender):
        return in_link(self, edge, sender)


cdef OutLink out_link(OrdinaryLinks links, object edge, object to):
    place = (edge, to)
    link = links._out.get(place)
    if link is None:
        link = links._out[place] = OutLink(links.window)
    return link


cdef InLink in_link(OrdinaryLinks links, object edge, object sender):
    place = (edge, sender)
    link = links._in.get(place)
    if link is None:
        link = links._in[place] = InLink()
    return link
