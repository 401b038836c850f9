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
    cdef int64_t upto  # the last number that the receiver has room for; 0: all that the window takes

    def __init__(self, window):
        self.window = window
        self.sent = self.acked = self.kept_bytes = self.upto = 0
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
    cdef int64_t room
    if link.kept_bytes >= link.window.nbytes:
        return 0
    room = link.window.blocks - (link.sent - link.acked)
    return min(room, link.upto - link.sent) if link.upto else room


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
    cdef int64_t done
    cdef int64_t spare  # blocks that may come behind `done` or what is safe; 0: all that the window takes
    cdef int64_t told  # of that, the last number that the sender knows

    def __init__(self):
        self.received = self.safe = self.acked = self.asked = self.done = self.spare = self.told = 0


cdef int64_t last_number(InLink link) noexcept:
    return max(link.done, link.safe) + link.spare if link.spare else 0


cdef bint is_due(InLink link, int64_t least) noexcept:
    """True when so much is safe, or some of the room is new: a sender at its limit waits for that."""
    cdef int64_t upto = last_number(link)
    if link.safe - link.acked >= least or upto == 0 != link.told:
        return True
    if upto == link.told:
        return False
    return least == 1 or upto - link.told >= min(least, max(1, link.spare // 4))


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

    def on_reply(self, edge, peer, incarnation, kind, int64_t seq, int64_t room=0):
        cdef OutLink link = self._out.get((edge, peer))
        if link is None or incarnation != self._incarnations.get(peer, 0):
            return
        if kind == ACK:
            if seq >= link.acked:
                link.upto = seq + room if room else 0
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

    def limit(self, edge, sender, int64_t done, int64_t spare):
        cdef InLink link = self._in.get((edge, sender))
        if link is not None:
            link.done, link.spare = done, spare

    def flush(self, int64_t least):
        cdef InLink link
        cdef bint left = False
        for place, link in self._in.items():
            if is_due(link, least):
                self._tell(place[0], place[1], link)
            elif link.safe > link.acked or last_number(link) != link.told:
                left = True
        return left

    def _tell(self, edge, sender, InLink link):
        link.acked, link.told = link.safe, last_number(link)
        self.wire.reply(edge, sender, ACK, link.safe, link.told - link.safe if link.told else 0)

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
