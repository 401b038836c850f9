"""Writes and reads the header of a message, field by field in C; its layout stands in codec/header.py."""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

import msgpack
import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import FrameError

cdef extern from "<endian.h>" nogil:
    uint16_t htole16(uint16_t)
    uint32_t htole32(uint32_t)
    uint64_t htole64(uint64_t)
    uint16_t le16toh(uint16_t)
    uint32_t le32toh(uint32_t)
    uint64_t le64toh(uint64_t)

cpdef enum:
    VERSION = 2
    HEADER_BYTES_MAX = 65536  # a punctuation names every participant: about 30 bytes each
    FRAMES_MAX = 16  # arrays of one block
    DIMENSIONS_MAX = 4
    PAYLOAD_BYTES_MAX = 268435456
    META_KEYS_MAX = 16
    NAME_BYTES_MAX = 64  # of a job, or of a sender

COUNT_MAX = 2**62
ROUND_MAX = EDGE_MAX = 2**32 - 1
CODES = ("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|i1", "|b1")
"""The dtypes that the wire carries; a header names one by its place here."""

cdef enum:
    NAMES_AT = 20  # what comes before the names of the job and of the sender
    COUNTS = 7  # seq, epoch, the four fields of the key, items
    BODY_BYTES = 4 + 8 * COUNTS
    ARRAY_BYTES_MAX = 2 + 8 * DIMENSIONS_MAX
    PLAIN_BYTES_MAX = NAMES_AT + 2 * NAME_BYTES_MAX + BODY_BYTES + FRAMES_MAX * ARRAY_BYTES_MAX
    ATTACHED = 1
    META = 2
    REFERENCES = 4
    BY_REFERENCE = 128  # added to the dimensions of an array that has no frame
    VERSION_1 = 0x9D  # its headers are msgpack arrays of 13

cdef uint64_t count_max = COUNT_MAX
cdef tuple dtypes = tuple([np.dtype(code) for code in CODES])
cdef int64_t[9] itemsizes = [dtype.itemsize for dtype in dtypes]
cdef dict codes = {dtype: code for code, dtype in enumerate(dtypes)}
cdef tuple kinds = tuple([Kind(i) if i in set(Kind) else None for i in range(max(Kind) + 1)])
cdef uint64_t kinds_end = len(kinds)
cdef object pack = msgpack.Packer().pack
cdef object unpackb = msgpack.unpackb
cdef object frombuffer = np.frombuffer
cdef object empty = np.empty
cdef object ascontiguousarray = np.ascontiguousarray


# writing
def write_prefix(str job, str sender, object incarnation, object edge, object round_):
    cdef bytes names = job.encode() + sender.encode()
    cdef Py_ssize_t job_bytes = len(job.encode())
    cdef uint8_t out[NAMES_AT]
    if job_bytes > NAME_BYTES_MAX or len(names) - job_bytes > NAME_BYTES_MAX:
        raise ValueError(f"job and sender have at most {NAME_BYTES_MAX} bytes")
    if not 0 <= edge <= EDGE_MAX or not 0 <= round_ <= ROUND_MAX:
        raise ValueError("an edge and a round are numbers of 32 bits")
    out[0], out[1], out[2], out[3] = VERSION, job_bytes, len(names) - job_bytes, 0
    put32(&out[4], edge)
    put32(&out[8], round_)
    put_count(&out[12], incarnation)
    return PyBytes_FromStringAndSize(<char*>out, NAMES_AT) + names


def encode_behind(bytes prefix, object block, object refer=None):
    cdef uint8_t out[PLAIN_BYTES_MAX]
    cdef Py_ssize_t at = PyBytes_GET_SIZE(prefix)
    cdef list frames = []
    cdef list references = []
    cdef tuple arrays = tuple(block.arrays)
    cdef object attachment = block.attachment
    cdef object meta = block.meta
    cdef uint8_t flags = 0
    if at > NAMES_AT + 2 * NAME_BYTES_MAX:
        raise ValueError("that is not the prefix of a header")
    if attachment is not None:
        arrays = (*arrays, attachment)
        flags = ATTACHED
    if len(arrays) > FRAMES_MAX:
        raise ValueError(f"a block carries at most {FRAMES_MAX} arrays, not {len(arrays)}")
    memcpy(out, PyBytes_AS_STRING(prefix), at)
    cdef uint8_t* body = &out[at]
    put_counts(&body[4], block)
    at += BODY_BYTES
    for array in arrays:
        at += put_array(&out[at], array, refer, frames, references)
    if references:
        flags |= REFERENCES
    if meta:
        flags |= META
    body[0], body[1], body[2], body[3] = block.kind, flags, len(arrays), 0
    cdef bytes packed = PyBytes_FromStringAndSize(<char*>out, at)
    if flags & (REFERENCES | META):
        packed += tail(references, meta)
        if PyBytes_GET_SIZE(packed) > HEADER_BYTES_MAX:
            raise ValueError(f"a header of {len(packed)} bytes is over the limit of {HEADER_BYTES_MAX}")
    return packed, frames


cdef int put_counts(uint8_t* to, object block) except -1:
    cdef object key = block.key
    cdef int i
    put_count(to, block.seq)
    put_count(&to[8], block.epoch)
    for i in range(4):
        put_count(&to[16 + 8 * i], key[i])
    put_count(&to[48], block.items)
    return 0


cdef Py_ssize_t put_array(uint8_t* to, object array, object refer, list frames, list references) except -1:
    """One entry of the table of arrays; its frame, or its reference, is appended. The bytes of the entry."""
    cdef object dtype = array.dtype
    cdef tuple shape = array.shape
    cdef Py_ssize_t dimensions = PyTuple_GET_SIZE(shape)
    cdef object code = 0 if dtype is <object>dtypes[0] else codes.get(dtype)
    cdef int i
    if code is None or dimensions > DIMENSIONS_MAX:
        place = len(frames) + len(references)
        raise ValueError(f"array {place} is {dtype} with {dimensions} dimensions; the wire carries {CODES}")
    to[0], to[1] = code, dimensions
    for i in range(dimensions):
        put64(&to[2 + 8 * i], shape[i])
    if extent(&to[2], dimensions, itemsizes[to[0]]) < 0:
        place = len(frames) + len(references)
        raise ValueError(f"array {place} of shape {shape} is over the limit of {PAYLOAD_BYTES_MAX} bytes")
    cdef bint contiguous = array.flags.c_contiguous
    reference = refer(array) if refer is not None and contiguous else None
    if reference is None:
        frames.append(array if contiguous else ascontiguousarray(array))
    else:
        to[1] |= BY_REFERENCE
        references.append(reference)
    return 2 + 8 * dimensions


cdef bytes tail(list references, object meta):
    """The part without a fixed form: the references, behind their length, and the meta."""
    cdef bytes named = b""
    cdef uint8_t length[2]
    if references:
        named = pack(references)
        if PyBytes_GET_SIZE(named) > HEADER_BYTES_MAX - 1:
            raise ValueError(f"references of {len(named)} bytes are over the limit of {HEADER_BYTES_MAX - 1}")
        put16(length, PyBytes_GET_SIZE(named))
        named = PyBytes_FromStringAndSize(<char*>length, 2) + named
    if meta:
        named += pack(meta)
    return named


# reading
cdef Py_ssize_t body_at(bytes header) except -1:
    """The offset of the body; there is a whole one behind."""
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(header)
    cdef Py_ssize_t nbytes = PyBytes_GET_SIZE(header)
    if nbytes > HEADER_BYTES_MAX:
        raise FrameError("header over the size limit")
    if nbytes == 0 or data[0] != VERSION:
        raise FrameError("protocol version 1, not 2" if nbytes and data[0] == VERSION_1 else "another protocol version")
    if nbytes < NAMES_AT + BODY_BYTES or nbytes < NAMES_AT + data[1] + data[2] + BODY_BYTES:
        raise FrameError("a header that was cut short")
    if data[1] > NAME_BYTES_MAX or data[2] > NAME_BYTES_MAX or data[3]:
        raise FrameError("job and sender must be short strings")
    return NAMES_AT + data[1] + data[2]


def prefix_of(bytes header):
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(header), body_at(header))


def read_prefix(bytes prefix):
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(prefix)
    cdef Py_ssize_t sender_at = NAMES_AT + data[1]
    try:
        job, sender = prefix[NAMES_AT:sender_at].decode(), prefix[sender_at:].decode()
    except UnicodeDecodeError:
        raise FrameError("job and sender must be short strings") from None
    return job, sender, get_count(&data[12]), get32(&data[4]), get32(&data[8])


def decode_behind(bytes header, object frames, object fetch=None):
    cdef Py_ssize_t at = body_at(header)
    cdef Py_ssize_t nbytes = PyBytes_GET_SIZE(header)
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(header)
    cdef const uint8_t* body = &data[at]
    cdef uint8_t flags = body[1]
    cdef object kind = kinds[body[0]] if body[0] < kinds_end else None
    if kind is None:
        raise FrameError("unknown kind")
    if flags > (ATTACHED | META | REFERENCES) or body[3] or (flags & ATTACHED and not body[2]):
        raise FrameError("bad attachment or flags")
    if body[2] > FRAMES_MAX:
        raise FrameError("too many arrays")
    cdef object key = tuple.__new__(
        Key, (get_count(&body[20]), get_count(&body[28]), get_count(&body[36]), get_count(&body[44]))
    )
    cdef Py_ssize_t table_at = at + BODY_BYTES
    cdef Py_ssize_t table_end = end_of_table(data, table_at, nbytes, body[2])
    cdef object named = ()
    cdef dict meta = {}
    at = table_end
    if flags & REFERENCES:
        at = end_of_references(data, at, nbytes)
        named = unpacked(header[table_end + 2 : at], list)
    if flags & META:
        meta = unpacked(header[at:], dict)
        check_meta(meta)
    elif at != nbytes:
        raise FrameError("bytes behind the header")
    cdef tuple arrays = read_arrays(&data[table_at], body[2], frames, named, fetch) if body[2] or frames else ()
    attachment = None
    if flags & ATTACHED:
        attachment = arrays[body[2] - 1]
        arrays = arrays[: body[2] - 1]
    return Block(kind, get_count(&body[12]), key, get_count(&body[52]), arrays, attachment, meta, get_count(&body[4]))


cdef Py_ssize_t end_of_table(const uint8_t* data, Py_ssize_t at, Py_ssize_t nbytes, int arrays) except -1:
    """The offset at which the table of the arrays ends; all of it is there."""
    cdef int i
    for i in range(arrays):
        if nbytes - at < 2 or nbytes - at < 2 + 8 * (data[at + 1] & ~BY_REFERENCE):
            raise FrameError("a header that was cut short")
        if data[at] >= PyTuple_GET_SIZE(dtypes) or data[at + 1] & ~BY_REFERENCE > DIMENSIONS_MAX:
            raise FrameError("unknown dtype or too many dimensions")
        at += 2 + 8 * (data[at + 1] & ~BY_REFERENCE)
    return at


cdef Py_ssize_t end_of_references(const uint8_t* data, Py_ssize_t at, Py_ssize_t nbytes) except -1:
    if nbytes - at < 2 or nbytes - at - 2 < get16(&data[at]):
        raise FrameError("a header that was cut short")
    return at + 2 + get16(&data[at])


cdef object unpacked(bytes packed, type wanted):
    try:
        found = unpackb(packed, strict_map_key=True, max_ext_len=0)
    except Exception as error:  # msgpack raises many kinds; a stranger's bytes may provoke any
        raise FrameError(f"not msgpack: {error.__class__.__name__}") from None
    if type(found) is not wanted or not found:
        raise FrameError(f"a {wanted.__name__} is missing or empty")
    return found


cdef int check_meta(dict meta) except -1:
    if len(meta) > META_KEYS_MAX:
        raise FrameError("meta is a small map with string keys")
    for name in meta:
        if not isinstance(name, str):
            raise FrameError("meta is a small map with string keys")
    return 0


cdef tuple read_arrays(const uint8_t* table, int count, object frames, object named, object fetch):
    """The arrays of a table that was checked, over the frames and over what the references name."""
    cdef list arrays = []
    cdef object rest = iter(frames)
    cdef object names = iter(named)
    cdef int i, dimensions
    cdef int64_t nbytes
    for i in range(count):
        dimensions = table[1] & ~BY_REFERENCE
        dtype = dtypes[table[0]]
        nbytes = extent(&table[2], dimensions, itemsizes[table[0]])
        if nbytes < 0:
            raise FrameError("a shape over the size limit")
        if table[1] & BY_REFERENCE:
            frame = fetched(next(names, None), nbytes, fetch)
        else:
            frame = next(rest, None)
        arrays.append(array_of(frame, dtype, shape_of(&table[2], dimensions), nbytes))
        table += 2 + 8 * dimensions
    if next(rest, None) is not None or next(names, None) is not None:
        raise FrameError("frames and shapes differ in number")
    return tuple(arrays)


cdef object array_of(object frame, object dtype, tuple shape, int64_t nbytes):
    cdef Py_buffer view
    if frame is None:
        raise FrameError("frames and shapes differ in number")
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    cdef Py_ssize_t length = view.len
    PyBuffer_Release(&view)
    if length != nbytes:
        raise FrameError("a frame's size is not that of its shape")
    if nbytes == 0:
        return empty(shape, dtype)
    array = frombuffer(frame, dtype)
    return array if PyTuple_GET_SIZE(shape) == 1 else array.reshape(shape)


cdef object fetched(object reference, int64_t nbytes, object fetch):
    if fetch is None or not isinstance(reference, list):
        raise FrameError("a reference where none is expected")
    return fetch(reference, nbytes)


cdef tuple shape_of(const uint8_t* lengths, int dimensions):
    if dimensions == 1:
        return (get64(lengths),)
    if dimensions == 2:
        return (get64(lengths), get64(&lengths[8]))
    return tuple([get64(&lengths[8 * i]) for i in range(dimensions)])


cdef int64_t extent(const uint8_t* lengths, int dimensions, int64_t itemsize):
    """The bytes of a shape; -1 when they are over the limit, an empty dimension counting as 1: NumPy makes no array
    whose other dimensions overflow."""
    cdef uint64_t room = PAYLOAD_BYTES_MAX // itemsize
    cdef uint64_t length
    cdef uint64_t elements = 1
    cdef int i
    cdef bint is_empty = False
    for i in range(dimensions):
        length = get64(&lengths[8 * i])
        is_empty = is_empty or length == 0
        length = length or 1
        if length > room // elements:
            return -1
        elements *= length
    return 0 if is_empty else elements * itemsize


# numbers, little-endian at any address
cdef inline void put16(uint8_t* to, uint16_t number) noexcept:
    number = htole16(number)
    memcpy(to, &number, 2)


cdef inline void put32(uint8_t* to, uint32_t number) noexcept:
    number = htole32(number)
    memcpy(to, &number, 4)


cdef inline void put64(uint8_t* to, uint64_t number) noexcept:
    number = htole64(number)
    memcpy(to, &number, 8)


cdef inline int put_count(uint8_t* to, object count) except -1:
    cdef int64_t number = count
    if not 0 <= number <= <int64_t>count_max:
        raise ValueError(f"{count} is no count that a header carries")
    put64(to, number)
    return 0


cdef inline uint16_t get16(const uint8_t* at) noexcept:
    cdef uint16_t number
    memcpy(&number, at, 2)
    return le16toh(number)


cdef inline uint32_t get32(const uint8_t* at) noexcept:
    cdef uint32_t number
    memcpy(&number, at, 4)
    return le32toh(number)


cdef inline uint64_t get64(const uint8_t* at) noexcept:
    cdef uint64_t number
    memcpy(&number, at, 8)
    return le64toh(number)


cdef inline object get_count(const uint8_t* at):
    cdef uint64_t number = get64(at)
    if number > count_max:
        raise FrameError("a count is out of range")
    return number
