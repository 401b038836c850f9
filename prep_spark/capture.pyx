"""Parses captures of packets, pcap and pcapng, into one fixed record a packet, and counts what gives none by reason.

One pass over the bytes; nothing is read outside what was captured. Formats: draft-ietf-opsawg-pcap,
draft-ietf-opsawg-pcapng and www.tcpdump.org/linktypes.html. Sizes are those that the IP header states. The outermost
IP header counts: tunnels are not entered.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

# Places of the counters, in the order of packet_records.REASONS.
cdef enum:
    KEPT = 0
    LINK = 1
    NOT_IP = 2
    TRUNCATED = 3
    MALFORMED = 4
    CUT = 5
    BROKEN = 6
    REASONS = 7

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
    IPV4 = 0x0800
    IPV6 = 0x86DD
    BY_VERSION = 1  # no header says which IP it is
    NOTHING = 0
    FRAGMENT = 0x4000
    LATER_FRAGMENT = 0x8000

cdef uint64_t SECOND_NS = 1000000000
cdef uint32_t MICROSECONDS_MAGIC = 0xA1B2C3D4
cdef uint32_t NANOSECONDS_MAGIC = 0xA1B23C4D

cdef struct Packet:
    int64_t time_ns
    uint8_t source[16]
    uint8_t destination[16]
    uint16_t source_port
    uint16_t destination_port
    uint8_t protocol
    uint8_t version
    uint16_t flags
    uint32_t size
    uint32_t payload
    uint64_t flow

cdef struct Link:
    uint32_t type
    uint32_t captured_bytes_max
    uint8_t resolution  # as if_tsresol: a power of ten, or with the high bit of two
    int64_t offset_seconds

# Bytes that are left to read of one packet.
cdef struct Span:
    const uint8_t *at
    size_t left


cdef inline uint16_t be16(const uint8_t *p) noexcept nogil:
    return <uint16_t>((p[0] << 8) | p[1])


cdef inline uint32_t be32(const uint8_t *p) noexcept nogil:
    return (<uint32_t>be16(p) << 16) | be16(p + 2)


cdef inline uint32_t number(const uint8_t *p, int size, bint big) noexcept nogil:
    """An unsigned number of 2 or 4 bytes in either order."""
    cdef uint32_t value = 0
    cdef int i
    for i in range(size):
        value = (value << 8) | p[i if big else size - 1 - i]
    return value


cdef inline bint skip(Span *span, size_t count) noexcept nogil:
    """Step over some bytes; False when there are not so many."""
    if span.left < count:
        return False
    span.at += count
    span.left -= count
    return True


cdef inline uint64_t mixed(uint64_t z) noexcept nogil:
    """The finish of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014, figure 15)."""
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline uint64_t flow_of(const Packet *packet) noexcept nogil:
    cdef uint64_t words[4]
    cdef uint64_t h = 0
    cdef int i
    memcpy(words, packet.source, 32)  # source and destination lie side by side
    for i in range(4):
        h = mixed(h + words[i] + <uint64_t>0x9E3779B97F4A7C15)
    return h


cdef int of_ppp(Span *span) noexcept nogil:
    """Behind PPP's protocol field, which is one byte when that is odd (RFC 1661, 2 and 6.5)."""
    cdef uint16_t protocol
    if span.left >= 2 and span.at[0] == 0xFF and span.at[1] == 0x03:
        skip(span, 2)
    if span.left < 2:
        return -TRUNCATED
    protocol = span.at[0] if span.at[0] & 1 else be16(span.at)
    skip(span, 1 if span.at[0] & 1 else 2)
    return IPV4 if protocol == 0x0021 else IPV6 if protocol == 0x0057 else NOTHING


cdef int of_mpls(Span *span) noexcept nogil:
    cdef bint bottom = False
    while not bottom:
        if span.left < 4:
            return -TRUNCATED
        bottom = span.at[2] & 1
        skip(span, 4)
    return BY_VERSION


cdef int of_ethertype(int ethertype, Span *span) noexcept nogil:
    """What is behind an Ethernet type: IPV4, IPV6, BY_VERSION, NOTHING, or a reason below 0. Tags are stepped over."""
    while ethertype == 0x8100 or ethertype == 0x88A8 or ethertype == 0x9100 or ethertype == 0x9200:
        if span.left < 4:
            return -TRUNCATED
        ethertype = be16(span.at + 2)
        skip(span, 4)
    if ethertype == 0x8864:  # PPPoE session
        return of_ppp(span) if skip(span, 6) else -TRUNCATED
    if ethertype == 0x8847 or ethertype == 0x8848:
        return of_mpls(span)
    if ethertype < 0x0600:  # a length, IEEE 802.3; behind it perhaps LLC with SNAP
        if span.left < 8 or span.at[0] != 0xAA or span.at[1] != 0xAA or span.at[2] != 3:
            return NOTHING
        ethertype = be16(span.at + 6)
        skip(span, 8)
    return ethertype if ethertype == IPV4 or ethertype == IPV6 else NOTHING


cdef int of_family(Span *span) noexcept nogil:
    """The family in front of loopback packets; it is in the byte order of the host that captured."""
    cdef uint32_t family
    if span.left < 4:
        return -TRUNCATED
    family = be32(span.at)
    if family > 0xFFFF:
        family = number(span.at, 4, False)
    skip(span, 4)
    if family == 2:
        return IPV4
    return IPV6 if family == 10 or family == 24 or family == 28 or family == 30 else NOTHING


cdef int of_header(Span *span, size_t size, size_t place) noexcept nogil:
    """A header of `size` bytes with an Ethernet type at `place`."""
    cdef int ethertype
    if span.left < size:
        return -TRUNCATED
    ethertype = be16(span.at + place)
    skip(span, size)
    return of_ethertype(ethertype, span)


cdef int of_link(uint32_t link, Span *span) noexcept nogil:
    """Step over the link's header: IPV4, IPV6, BY_VERSION, NOTHING, or a reason below 0."""
    if link == 1:
        return of_header(span, 14, 12)
    if link == 12 or link == 14 or link == 101:
        return BY_VERSION
    if link == 228:
        return IPV4
    if link == 229:
        return IPV6
    if link == 113:  # Linux "cooked"
        return of_header(span, 16, 14)
    if link == 276:  # and its second version
        return of_header(span, 20, 0)
    if link == 0 or link == 108:
        return of_family(span)
    if link == 9 or link == 50:
        return of_ppp(span)
    if link == 104:  # Cisco HDLC
        return of_header(span, 4, 2)
    return -LINK


cdef void read_transport(Packet *packet, Span span) noexcept nogil:
    """Ports and TCP's flags, where they were captured."""
    cdef uint8_t protocol = packet.protocol
    if protocol != 6 and protocol != 17 and protocol != 132 and protocol != 33 and protocol != 136:
        return
    if span.left < 4:
        return
    packet.source_port = be16(span.at)
    packet.destination_port = be16(span.at + 2)
    if protocol == 6 and span.left >= 14:
        packet.flags |= be16(span.at + 12) & 0x01FF


cdef int read_ipv4(Packet *packet, Span span, size_t wire_bytes) noexcept nogil:
    cdef size_t header, size
    cdef uint16_t fragment
    if span.left < 20:
        return TRUNCATED
    header = (span.at[0] & 15) * 4
    size = be16(span.at + 2)
    if size == 0:  # segmentation was left to the network card; the frame tells the length
        size = wire_bytes
    if span.at[0] >> 4 != 4 or header < 20 or size < header:
        return MALFORMED
    if span.left < header:
        return TRUNCATED
    packet.version = 4
    packet.source[10] = packet.source[11] = packet.destination[10] = packet.destination[11] = 0xFF
    memcpy(&packet.source[12], span.at + 12, 4)
    memcpy(&packet.destination[12], span.at + 16, 4)
    packet.protocol = span.at[9]
    packet.size = <uint32_t>size
    packet.payload = <uint32_t>(size - header)
    fragment = be16(span.at + 6)
    span.left = min(span.left, size)
    skip(&span, header)
    if fragment & 0x3FFF:
        packet.flags = FRAGMENT
    if fragment & 0x1FFF:
        packet.flags |= LATER_FRAGMENT
    else:
        read_transport(packet, span)
    return KEPT


cdef bint is_extension(uint8_t protocol) noexcept nogil:
    """Whether one more IPv6 header follows whose second byte tells its length (RFC 8200, 4; RFC 7045)."""
    return (protocol == 0 or protocol == 43 or protocol == 44 or protocol == 51 or protocol == 60 or protocol == 135
            or protocol == 139 or protocol == 140)


cdef void read_extensions(Packet *packet, Span span) noexcept nogil:
    """Find the protocol behind the extension headers; one that was not captured whole stands for the protocol."""
    cdef size_t length
    cdef uint16_t fragment
    cdef uint8_t following
    while is_extension(packet.protocol):
        if span.left < 8:
            return
        following = span.at[0]
        length = (span.at[1] + 1) * 8
        if packet.protocol == 51:
            length = (span.at[1] + 2) * 4
        elif packet.protocol == 44:
            length = 8
            fragment = be16(span.at + 2)
            if fragment & 0xFFF9:
                packet.flags |= FRAGMENT
            if fragment & 0xFFF8:
                packet.flags |= LATER_FRAGMENT
                packet.protocol = following
                return
        if not skip(&span, length):
            return
        packet.protocol = following
    read_transport(packet, span)


cdef int read_ipv6(Packet *packet, Span span, size_t wire_bytes) noexcept nogil:
    cdef size_t payload
    if span.left < 40:
        return TRUNCATED
    if span.at[0] >> 4 != 6:
        return MALFORMED
    payload = be16(span.at + 4)
    packet.protocol = span.at[6]
    if payload == 0 and packet.protocol != 59 and wire_bytes > 40:  # a jumbogram, or left to the network card
        payload = wire_bytes - 40
    packet.version = 6
    memcpy(packet.source, span.at + 8, 16)
    memcpy(packet.destination, span.at + 24, 16)
    packet.size = <uint32_t>(payload + 40)
    packet.payload = <uint32_t>payload
    skip(&span, 40)
    span.left = min(span.left, payload)
    read_extensions(packet, span)
    return KEPT


cdef int read_packet(Packet *packet, uint32_t link, Span span, size_t wire_bytes) noexcept nogil:
    """Fill in a record but for its time; returns KEPT, or why there is none."""
    cdef const uint8_t *start = span.at
    cdef int kind = of_link(link, &span)
    cdef int found
    if kind < 0:
        return -kind
    if kind == NOTHING:
        return NOT_IP
    if kind == BY_VERSION:
        if span.left < 1:
            return TRUNCATED
        kind = IPV4 if span.at[0] >> 4 == 4 else IPV6 if span.at[0] >> 4 == 6 else NOTHING
        if kind == NOTHING:
            return NOT_IP
    memset(packet, 0, sizeof(Packet))
    wire_bytes -= min(wire_bytes, <size_t>(span.at - start))
    found = read_ipv4(packet, span, wire_bytes) if kind == IPV4 else read_ipv6(packet, span, wire_bytes)
    packet.flow = flow_of(packet)
    return found


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
        """Whether nothing that follows can be understood any more."""
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
        """Learn the format from the first bytes; the bytes used up."""
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
        """One block of pcapng; the bytes used up, 0 when it is not there whole."""
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
