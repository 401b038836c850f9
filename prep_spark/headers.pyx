"""Reads the headers of one packet, from its link's to its ports, and nothing outside the captured bytes.

Link types: www.tcpdump.org/linktypes.html. Sizes are those that the IP header states. The outermost IP header counts:
tunnels are not entered.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum:
    IPV4 = 0x0800
    IPV6 = 0x86DD
    BY_VERSION = 1  # no header says which IP it is
    NOTHING = 0
    FRAGMENT = 0x4000
    LATER_FRAGMENT = 0x8000


cdef inline bint skip(Span *span, size_t count) noexcept nogil:
    """Step over `count` bytes; False when there are not as many."""
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
    cdef uint64_t words[5]
    cdef uint64_t h = 0
    cdef int i
    memcpy(words, packet.source, 32)  # source and destination lie side by side
    words[4] = (<uint64_t>packet.protocol << 32) | (<uint64_t>packet.destination_port << 16) | packet.source_port
    for i in range(5):
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
    """The kind behind an Ethernet type: IPV4, IPV6, BY_VERSION, NOTHING, or a reason below 0. Tags are stepped over."""
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


cdef inline size_t transport_header(uint8_t protocol, Span span) noexcept nogil:
    """The bytes of a transport header; the least there may be where the part that tells was not captured."""
    if protocol == 6:
        return max((span.at[12] >> 4) * 4, 20) if span.left >= 13 else 20
    if protocol == 33:  # DCCP, whose header is 12 or 16 bytes and its options
        return max(span.at[4] * 4, 12) if span.left >= 5 else 12
    if protocol == 132:
        return 12
    return 8 if protocol == 17 or protocol == 136 else 0


cdef void read_transport(Packet *packet, Span span) noexcept nogil:
    """Ports and TCP's flags, where they were captured, and the part of the payload that is the transport header."""
    cdef uint8_t protocol = packet.protocol
    packet.payload -= <uint32_t>min(<size_t>packet.payload, transport_header(protocol, span))
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
    """True when one more IPv6 header follows whose second byte tells its length (RFC 8200, 4; RFC 7045)."""
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
                packet.payload -= <uint32_t>min(<size_t>packet.payload, length)
                return
        if not skip(&span, length):
            return
        packet.protocol = following
        packet.payload -= <uint32_t>min(<size_t>packet.payload, length)
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
    """Fill in a record except for its time; returns KEPT, or the reason why there is none."""
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
