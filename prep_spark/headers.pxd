"""Records of packets, and the reading of one packet's headers."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

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


cdef int read_packet(Packet *packet, uint32_t link, Span span, size_t wire_bytes) noexcept nogil
