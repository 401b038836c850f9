"""Parses captures of packets, pcap and pcapng, into one fixed record a packet, and counts the others by reason.

One pass over the bytes. Formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from riprap.prep_spark.headers cimport BROKEN, CUT, KEPT, MALFORMED, REASONS, Packet, Span, be32, number, read_packet

cdef enum Form:
    UNKNOWN = 0
    PCAP = 1
    PCAPNG = 2
    NO_CAPTURE = 3
    ENDED = 4

cdef enum:
    PCAP_HEADER_BYTES = 24
    PCAP_RECORD_BYTES = 16
    BLOCK_BYTES_MIN = 12
    # libpcap refuses larger ones; whoever claims more is damaged.
    CAPTURED_BYTES_MAX = 262144
    BLOCK_BYTES_MAX = 16777216
    SECTION = 0x0A0D0D0A
    INTERFACE = 1
    PACKET = 2
    SIMPLE_PACKET = 3
    ENHANCED_PACKET = 6
    OPTION_TIME_RESOLUTION = 9
    OPTION_TIME_OFFSET = 14
    INTERFACES_MAX = 1024

cdef uint64_t SECOND_NS = 1000000000
cdef uint32_t MICROSECONDS_MAGIC = 0xA1B2C3D4
cdef uint32_t NANOSECONDS_MAGIC = 0xA1B23C4D

cdef struct Link:
    uint32_t type
    uint32_t captured_bytes_max
    uint8_t resolution  # as if_tsresol: a power of ten, or with the high bit of two
    int64_t offset_seconds


cdef int64_t nanoseconds(uint64_t ticks, const Link *link) noexcept nogil:
    cdef int power = link.resolution & 0x7F
    cdef uint64_t whole, rest, scale = 1
    cdef int i
    if link.resolution & 0x80:
        power = min(power, 63)
        whole = ticks >> power
        rest = ticks & ((<uint64_t>1 << power) - 1)
        if power > 32:  # a quarter of a nanosecond is fine enough, and does not overflow
            rest >>= power - 32
            power = 32
        rest = (rest * SECOND_NS) >> power
    else:
        power = min(power, 19)
        for i in range(power):
            scale *= 10
        whole = ticks // scale
        rest = ticks % scale
        for i in range(power, 9):
            rest *= 10
        for i in range(9, power):
            rest //= 10
    return <int64_t>((whole + <uint64_t>link.offset_seconds) * SECOND_NS + rest)


cdef class Capture:
    """One capture that is parsed piece by piece.

    `counts` has, for each of packet_records.REASONS, how many packets: the first those that gave a record.
    """

    cdef Form form
    cdef bint big
    cdef Link links[INTERFACES_MAX]
    cdef size_t interfaces
    cdef int64_t last_ns
    cdef uint64_t counted[REASONS]

    def __cinit__(self):
        self.form = UNKNOWN
        self.interfaces = 0
        self.last_ns = 0
        memset(self.counted, 0, sizeof(self.counted))

    @property
    def counts(self):
        return [self.counted[i] for i in range(REASONS)]

    @property
    def is_capture(self):
        """False when the first bytes are not those of any capture."""
        return self.form != NO_CAPTURE

    @property
    def ended(self):
        """True when nothing that follows can be understood any more."""
        return self.form == NO_CAPTURE or self.form == ENDED

    def parse(self, const uint8_t[::1] data, uint8_t[::1] out):
        """Parse whole packets from the front of `data` into `out`, which has room for a number of records.

        Returns the bytes used up and the records made. The rest must be given again, with more behind it, unless
        `out` was full.
        """
        cdef size_t used = 0, made = 0, room = out.shape[0] // sizeof(Packet)
        if data.shape[0] == 0 or room == 0:
            return 0, 0
        with nogil:
            self.run(&data[0], data.shape[0], <Packet *>&out[0], room, &used, &made)
        return used, made

    def finish(self, size_t left_bytes):
        """The file has ended, with some bytes that parse() left: then it was cut in the middle of a packet."""
        if left_bytes and not self.ended:
            self.counted[CUT] += 1

    cdef void run(
        self, const uint8_t *data, size_t size, Packet *out, size_t room, size_t *used, size_t *made
    ) noexcept nogil:
        cdef size_t step
        if self.form == UNKNOWN:
            used[0] = self.begin(data, size)
        while self.form != UNKNOWN and made[0] < room:
            if self.form == PCAP:
                step = self.pcap_record(data + used[0], size - used[0], out, made)
            elif self.form == PCAPNG:
                step = self.block(data + used[0], size - used[0], out, made)
            else:
                step = size - used[0]
            if step == 0:
                return
            used[0] += step

    cdef size_t begin(self, const uint8_t *data, size_t size) noexcept nogil:
        """Learn the format from the first bytes; returns the bytes used up."""
        cdef uint32_t magic
        if size < PCAP_HEADER_BYTES:
            return 0
        magic = be32(data)
        if magic == SECTION:
            self.form = PCAPNG
            return 0
        self.big = magic == MICROSECONDS_MAGIC or magic == NANOSECONDS_MAGIC
        if not self.big:
            magic = number(data, 4, False)
        if magic != MICROSECONDS_MAGIC and magic != NANOSECONDS_MAGIC:
            self.form = NO_CAPTURE
            return 0
        self.form = PCAP
        self.links[0].type = number(data + 20, 4, self.big) & 0xFFFF
        self.links[0].resolution = <uint8_t>(9 if magic == NANOSECONDS_MAGIC else 6)
        return PCAP_HEADER_BYTES

    cdef void end(self) noexcept nogil:
        self.counted[BROKEN] += 1
        self.form = ENDED

    cdef size_t pcap_record(self, const uint8_t *data, size_t size, Packet *out, size_t *made) noexcept nogil:
        cdef size_t captured
        cdef uint64_t fraction
        cdef Span span
        if size < PCAP_RECORD_BYTES:
            return 0
        captured = number(data + 8, 4, self.big)
        if captured > CAPTURED_BYTES_MAX:
            self.end()
            return 0
        if size - PCAP_RECORD_BYTES < captured:
            return 0
        fraction = number(data + 4, 4, self.big)
        if self.links[0].resolution == 6:
            fraction *= 1000
        self.last_ns = number(data, 4, self.big) * SECOND_NS + fraction
        span.at = data + PCAP_RECORD_BYTES
        span.left = captured
        self.packet(self.links[0].type, span, number(data + 12, 4, self.big), out, made)
        return PCAP_RECORD_BYTES + captured

    cdef void packet(self, uint32_t link, Span span, size_t wire_bytes, Packet *out, size_t *made) noexcept nogil:
        cdef int found = read_packet(&out[made[0]], link, span, wire_bytes)
        self.counted[found] += 1
        if found == KEPT:
            out[made[0]].time_ns = self.last_ns
            made[0] += 1

    cdef size_t block(self, const uint8_t *data, size_t size, Packet *out, size_t *made) noexcept nogil:
        """One block of pcapng; returns the bytes used up, 0 when it is not there whole."""
        cdef uint32_t type, length
        if size < BLOCK_BYTES_MIN:
            return 0
        type = number(data, 4, self.big)
        if type == SECTION:  # reads the same in either order
            self.big = be32(data + 8) == 0x1A2B3C4D
            if not self.big and number(data + 8, 4, False) != 0x1A2B3C4D:
                self.end()
                return 0
            self.interfaces = 0
        length = number(data + 4, 4, self.big)
        if length < BLOCK_BYTES_MIN or length % 4 or length > BLOCK_BYTES_MAX:
            self.end()
            return 0
        if size < length:
            return 0
        if type == INTERFACE:
            self.add_interface(data + 8, length - BLOCK_BYTES_MIN)
        elif type == ENHANCED_PACKET or type == PACKET:
            self.enhanced_packet(data + 8, length - BLOCK_BYTES_MIN, type == PACKET, out, made)
        elif type == SIMPLE_PACKET:
            self.simple_packet(data + 8, length - BLOCK_BYTES_MIN, out, made)
        return length

    cdef void add_interface(self, const uint8_t *body, size_t size) noexcept nogil:
        """Note an interface. One without a whole header, or one too many, leaves its packets malformed."""
        cdef Link link
        cdef size_t place = 8, length
        cdef uint32_t option
        if size < 8 or self.interfaces == INTERFACES_MAX:
            return
        link.type = number(body, 2, self.big)
        link.captured_bytes_max = number(body + 4, 4, self.big)
        link.resolution = 6
        link.offset_seconds = 0
        while place + 4 <= size:
            option = number(body + place, 2, self.big)
            length = number(body + place + 2, 2, self.big)
            place += 4
            if option == 0 or size - place < length:
                break
            if option == OPTION_TIME_RESOLUTION and length == 1:
                link.resolution = body[place]
            elif option == OPTION_TIME_OFFSET and length == 8:
                link.offset_seconds = self.wide(body + place)
            place += (length + 3) // 4 * 4
        self.links[self.interfaces] = link
        self.interfaces += 1

    cdef int64_t wide(self, const uint8_t *p) noexcept nogil:
        cdef uint64_t first = number(p, 4, self.big), second = number(p + 4, 4, self.big)
        return <int64_t>((first << 32) | second if self.big else (second << 32) | first)

    cdef void enhanced_packet(
        self, const uint8_t *body, size_t size, bint obsolete, Packet *out, size_t *made
    ) noexcept nogil:
        cdef uint32_t interface
        cdef uint64_t ticks
        cdef Span span
        if size < 20:
            self.counted[MALFORMED] += 1
            return
        interface = number(body, 2 if obsolete else 4, self.big)
        span.at = body + 20
        span.left = number(body + 12, 4, self.big)
        if interface >= self.interfaces or span.left > size - 20:
            self.counted[MALFORMED] += 1
            return
        ticks = (<uint64_t>number(body + 4, 4, self.big) << 32) | number(body + 8, 4, self.big)
        self.last_ns = nanoseconds(ticks, &self.links[interface])
        self.packet(self.links[interface].type, span, number(body + 16, 4, self.big), out, made)

    cdef void simple_packet(self, const uint8_t *body, size_t size, Packet *out, size_t *made) noexcept nogil:
        """A packet without a time: it gets that of the packet before it."""
        cdef Span span
        cdef size_t wire_bytes
        if size < 4 or self.interfaces == 0:
            self.counted[MALFORMED] += 1
            return
        wire_bytes = number(body, 4, self.big)
        span.at = body + 4
        span.left = min(size - 4, wire_bytes)
        if self.links[0].captured_bytes_max:
            span.left = min(span.left, <size_t>self.links[0].captured_bytes_max)
        self.packet(self.links[0].type, span, wire_bytes, out, made)
