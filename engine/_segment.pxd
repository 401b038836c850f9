"""The layout of a segment: memory of one worker that other workers of its host read (engine/arena.pyx).

    Head | generation of each slot | per link: owner, then what was released of each slot | data

All words are written by the lender, but `released`, which the link's borrower writes. Both ends treat what the other
wrote as a claim: a borrower checks the generation of a slot, a lender compares what was released with what it lent.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from engine._atomics cimport Word

cdef enum:
    SLOTS = 1024
    LINKS_MAX = 4096
    PAGE_BYTES = 4096
    TOKEN_BYTES = 16
    MAGIC = 0x72697072  # "ripr"

cdef struct Head:
    uint64_t magic
    unsigned char token[TOKEN_BYTES]  # drawn by the lender: tells its segment from any other file
    uint64_t links
    uint64_t data_bytes

cdef struct Lane:
    Word owner  # which life the link leads to; 0: none. Once it changes the former owner may read nothing any more.
    char pad[56]
    Word released[SLOTS]  # the last generation that the borrower has let go of

cdef inline Word* generations(char* base) noexcept nogil:
    return <Word*>(base + PAGE_BYTES)


cdef inline Lane* lane_of(char* base, size_t link) noexcept nogil:
    return <Lane*>(base + PAGE_BYTES + SLOTS * sizeof(Word)) + link


cdef inline size_t control_bytes(size_t links) noexcept nogil:
    """Bytes before the data: whole pages."""
    cdef size_t bytes = PAGE_BYTES + SLOTS * sizeof(Word) + links * sizeof(Lane)
    return (bytes + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES
