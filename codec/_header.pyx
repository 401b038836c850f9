"""Writes and reads the header of a message, field by field in C; its layout stands in codec/header.py."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

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

COUNT_MAX = 2**62
ROUND_MAX = EDGE_MAX = 2**32 - 1
CODES = ("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|i1", "|b1")
"""The dtypes that the wire carries; a header names one by its place here."""

cdef enum:
    NAMES_AT = 20  # what comes before the names of the job and of the sender
    ATTACHED = 1
    META = 2
    REFERENCES = 4
    BY_REFERENCE = 128  # added to the dimensions of an array that has no frame
    VERSION_1 = 0x9D  # its headers are msgpack arrays of 13
    VERSION_2 = 2  # has no bundles

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
cdef object ndarray = np.ndarray
cdef object new_tuple = tuple.__new__
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
    cdef uint8_t out[NAMES_AT + 2 * NAME_BYTES_MAX + BLOCK_BYTES_MAX]
    cdef Py_ssize_t at = PyBytes_GET_SIZE(prefix)
    cdef list frames = []
    cdef list references = []
    cdef tuple arrays = arrays_of(block)
    cdef object meta = block.meta
    if at > NAMES_AT + 2 * NAME_BYTES_MAX:
        raise ValueError("that is not the prefix of a header")
    memcpy(out, PyBytes_AS_STRING(prefix), at)
    cdef uint8_t* body = &out[at]
    at += BODY_BYTES
    for array in arrays:
        at += put_array(&out[at], array, refer, frames, references)
    put_body(body, block, block.seq, len(arrays))
    if references:
        body[1] |= REFERENCES
    cdef bytes packed = PyBytes_FromStringAndSize(<char*>out, at)
    if references or meta:
        packed += tail(references, meta)
        if PyBytes_GET_SIZE(packed) > HEADER_BYTES_MAX:
            raise ValueError(f"a header of {len(packed)} bytes is over the limit of {HEADER_BYTES_MAX}")
    return packed, frames


cdef tuple arrays_of(object block):
    """All that has a frame or a reference, the attachment last."""
    cdef tuple arrays = tuple(block.arrays)
    if block.attachment is not None:
        arrays = (*arrays, block.attachment)
    if len(arrays) > FRAMES_MAX:
        raise ValueError(f"a block carries at most {FRAMES_MAX} arrays, not {len(arrays)}")
    return arrays


cdef int put_body(uint8_t* to, object block, object seq, int arrays) except -1:
    cdef object key = block.key
    cdef int i
    to[0], to[1], to[2], to[3] = block.kind, 0, arrays, 0
    if block.attachment is not None:
        to[1] |= ATTACHED
    if block.meta:
        to[1] |= META
    put_count(&to[4], seq)
    put_count(&to[12], block.epoch)
    for i in range(4):
        put_count(&to[20 + 8 * i], key[i])
    put_count(&to[52], block.items)
    return 0


cdef Py_ssize_t put_form(uint8_t* to, object array, Py_ssize_t place, int64_t* nbytes) except -1:
    """One entry of the table of arrays; its bytes, and those of the array."""
    cdef object dtype = array.dtype
    cdef tuple shape = array.shape
    cdef Py_ssize_t dimensions = PyTuple_GET_SIZE(shape)
    cdef object code = 0 if dtype is <object>dtypes[0] else codes.get(dtype)
    cdef int i
    if code is None or dimensions > DIMENSIONS_MAX:
        raise ValueError(f"array {place} is {dtype} with {dimensions} dimensions; the wire carries {CODES}")
    to[0], to[1] = code, dimensions
    for i in range(dimensions):
        put64(&to[2 + 8 * i], shape[i])
    nbytes[0] = extent(&to[2], dimensions, itemsizes[to[0]])
    if nbytes[0] < 0:
        raise ValueError(f"array {place} of shape {shape} is over the limit of {PAYLOAD_BYTES_MAX} bytes")
    return 2 + 8 * dimensions


cdef Py_ssize_t put_array(uint8_t* to, object array, object refer, list frames, list references) except -1:
    """One entry of the table of arrays; its frame, or its reference, is appended. The bytes of the entry."""
    cdef int64_t nbytes
    cdef Py_ssize_t size = put_form(to, array, len(frames) + len(references), &nbytes)
    cdef bint contiguous = array.flags.c_contiguous
    reference = refer(array) if refer is not None and contiguous else None
    if reference is None:
        frames.append(array if contiguous else ascontiguousarray(array))
    else:
        to[1] |= BY_REFERENCE
        references.append(reference)
    return size


cdef bytes packed_meta(object meta):
    return pack(meta)


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
        raise FrameError(other_version(data[0]) if nbytes else "another protocol version")
    if nbytes < NAMES_AT + BODY_BYTES or nbytes < NAMES_AT + data[1] + data[2] + BODY_BYTES:
        raise FrameError("a header that was cut short")
    if data[1] > NAME_BYTES_MAX or data[2] > NAME_BYTES_MAX or data[3]:
        raise FrameError("job and sender must be short strings")
    return NAMES_AT + data[1] + data[2]


cdef str other_version(uint8_t first):
    found = {VERSION_1: 1, VERSION_2: 2}.get(first)
    return "another protocol version" if found is None else f"protocol version {found}, not {VERSION}"


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
    return read_block(header, body_at(header), PyBytes_GET_SIZE(header), frames, fetch, None)


cdef object read_block(
    bytes header, Py_ssize_t at, Py_ssize_t nbytes, object frames, object fetch, Payload payload
):
    """The block from `at` to `nbytes`, where there is a whole body; its arrays over frames and what references name,
    or out of a payload."""
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
    cdef object key = new_tuple(
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
        meta = meta_in(header[at:nbytes]) if payload is None else payload.meta_of(header[at:nbytes])
    elif at != nbytes:
        raise FrameError("bytes behind the header")
    cdef tuple arrays = ()
    if payload is not None:
        if named:
            raise FrameError("a reference in a bundle")
        arrays = payload.arrays(&data[table_at], body[2])
    elif body[2] or frames:
        arrays = read_arrays(&data[table_at], body[2], frames, named, fetch)
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


cdef dict meta_in(bytes packed):
    cdef dict meta = unpacked(packed, dict)
    if len(meta) > META_KEYS_MAX:
        raise FrameError("meta is a small map with string keys")
    for name in meta:
        if not isinstance(name, str):
            raise FrameError("meta is a small map with string keys")
    return meta


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


@cython.final
cdef class Payload:
    def __init__(self, object frame, Py_ssize_t nbytes, int blocks):
        self.frame, self.at, self.nbytes, self.blocks = frame, 0, nbytes, blocks
        self.form = NULL

    cdef tuple arrays(self, const uint8_t* table, int count):
        """The arrays of a table that was checked, those that come next."""
        cdef int i
        self.blocks -= 1
        if count == 1:
            return (self._array(table),)
        cdef list arrays = []
        for i in range(count):
            arrays.append(self._array(table))
            table += 2 + 8 * table[1]
        return tuple(arrays)

    cdef object _array(self, const uint8_t* form):
        cdef int64_t nbytes = extent(&form[2], form[1], itemsizes[form[0]]) if form[1] <= DIMENSIONS_MAX else -1
        cdef tuple shape
        if nbytes < 0 or nbytes > self.nbytes - self.at:
            raise FrameError("a payload shorter than its arrays")
        cdef bint again = (
            self.form != NULL and self.form[1] == form[1] and memcmp(self.form, form, 2 + 8 * form[1]) == 0
        )
        self.form = form
        if not again:
            self.alike = None
        if self.alike:
            array = self.alike.pop()
        elif nbytes == 0:
            array = empty(shape_of(&form[2], form[1]), dtypes[form[0]])
        else:
            shape, dtype = shape_of(&form[2], form[1]), dtypes[form[0]]
            array = ndarray(shape, dtype, self.frame, self.at)
            if again and self.blocks and form[1] and nbytes == padded(nbytes):
                self.alike = self._views(shape, dtype, self.at + nbytes, nbytes)
        self.at += padded(nbytes)
        return array

    cdef list _views(self, tuple shape, object dtype, Py_ssize_t at, int64_t nbytes):
        """As many arrays as blocks may follow, in reverse order: as one array and its rows they cost least."""
        cdef Py_ssize_t count = min(self.blocks, (self.nbytes - at) // nbytes)
        if count == 0:
            return None
        return list(ndarray((count, *shape), dtype, self.frame, at)[::-1])

    cdef dict meta_of(self, bytes packed):
        """The fields of a meta; not read again where it is that of the block before."""
        if self.meta is None or packed != self.packed:
            meta = meta_in(packed)
            self.packed, self.meta = packed, None
            for value in meta.values():
                if type(value) is not int:
                    return meta
            self.meta = meta
        return self.meta.copy()


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
cdef void put16(uint8_t* to, uint16_t number) noexcept:
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


cdef uint16_t get16(const uint8_t* at) noexcept:
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
