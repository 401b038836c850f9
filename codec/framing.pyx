"""Writes and reads the wire form of a block (codec/header.py), which each message goes through twice.

The header is msgpack, written and read here field by field: what has a fixed place and a bounded size goes through no
Python object but those that stand in the block. References and `meta` are left to msgpack's own library.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

import msgpack
import numpy as np

from riprap.codec import header as form
from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import FrameError

cdef enum:
    FIELDS = 14
    DIMENSIONS = 4
    CODE_BYTES = 3
    NAME_MAX = 64
    KINDS_MAX = 128
    NAMES_KNOWN_MAX = 4096
    HEAD_BYTES = 16 * 9  # version, kind, counts and the heads of what follows them
    ARRAY_BYTES = 3 + 1 + CODE_BYTES + DIMENSIONS * 9

cdef uint64_t COUNT_MAX = form.COUNT_MAX
cdef uint64_t PAYLOAD_MAX = form.PAYLOAD_BYTES_MAX
cdef Py_ssize_t FRAMES_MAX = form.FRAMES_MAX
cdef Py_ssize_t HEADER_MAX = form.HEADER_BYTES_MAX
cdef uint8_t VERSION = form.VERSION
assert form.DIMENSIONS_MAX == DIMENSIONS and all(len(code) == CODE_BYTES for code in form.CODES)

cdef object ndarray = np.ndarray, empty = np.empty, Header = form.Header
cdef list CODES = [code.encode() for code in form.CODES]
cdef list DTYPES = [np.dtype(code) for code in form.CODES]
cdef dict PLACES = {dtype: place for place, dtype in enumerate(DTYPES)}
cdef list KINDS = [None] * KINDS_MAX
for kind in Kind:
    KINDS[kind] = kind
cdef dict written_names = {}  # job and sender -> how they are written
cdef dict read_names = {}  # the same the other way


# ---- writing
@cython.final
cdef class HeaderWriter:
    cdef uint8_t* start
    cdef uint8_t* at

    def __cinit__(self, size_t size):
        self.start = self.at = <uint8_t*> PyMem_Malloc(size)
        if not self.start:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.start)


cdef inline void put(HeaderWriter to, uint8_t byte) noexcept:
    to.at[0] = byte
    to.at += 1


cdef inline void put_big(HeaderWriter to, uint64_t value, int size) noexcept:
    cdef int shift
    for shift in range(8 * (size - 1), -1, -8):
        put(to, <uint8_t> (value >> shift))


cdef inline void put_count(HeaderWriter to, uint64_t value) noexcept:
    if value < 0x80:
        put(to, <uint8_t> value)
    elif value < 1 << 8:
        put(to, 0xCC)
        put(to, <uint8_t> value)
    elif value < 1 << 16:
        put(to, 0xCD)
        put_big(to, value, 2)
    elif value < <uint64_t> 1 << 32:
        put(to, 0xCE)
        put_big(to, value, 4)
    else:
        put(to, 0xCF)
        put_big(to, value, 8)


cdef inline void put_bytes(HeaderWriter to, bytes data) noexcept:
    memcpy(to.at, PyBytes_AS_STRING(data), len(data))
    to.at += len(data)


cdef bytes names_of(object job, object sender):
    cdef tuple both = (job, sender)
    cdef bytes found = written_names.get(both)
    if found is None:
        if len(written_names) >= NAMES_KNOWN_MAX:
            written_names.clear()
        found = written_names[both] = msgpack.packb(job) + msgpack.packb(sender)
    return found


cdef uint64_t extent(tuple shape) except? 0:
    """Elements, or some number over PAYLOAD_MAX; an empty dimension counts as 1, for the others must not overflow."""
    cdef uint64_t product = 1
    for length in shape:
        product *= <uint64_t> (length or 1)
        if product > PAYLOAD_MAX:
            break
    return product


cdef int place_of(object array, Py_ssize_t number) except -1:
    """The number of an array's dtype among those that the wire carries; ValueError for what it does not."""
    place = PLACES.get(array.dtype)
    if place is None or array.ndim > DIMENSIONS:
        raise ValueError(
            f"array {number} is {array.dtype} with {array.ndim} dimensions; the wire carries {form.CODES}"
        )
    nbytes = array.nbytes or extent(array.shape) * array.itemsize
    if nbytes > PAYLOAD_MAX:
        raise ValueError(f"array {number} of shape {array.shape} is over the limit of {PAYLOAD_MAX} bytes")
    return place


def encode(header, block, refer=None):
    cdef list arrays = [*block.arrays], frames = [], references = [], places = []
    cdef object attachment = block.attachment, reference
    cdef Py_ssize_t number = 0, room, size
    cdef bytes names = names_of(header.job, header.sender), meta, packed
    cdef HeaderWriter to
    if attachment is not None:
        arrays.append(attachment)
    if len(arrays) > FRAMES_MAX:
        raise ValueError(f"a block carries at most {FRAMES_MAX} arrays, not {len(arrays)}")
    meta = msgpack.packb(block.meta) if block.meta else b"\x80"
    room = HEAD_BYTES + len(names) + len(meta)
    for array in arrays:
        places.append(place_of(array, number))
        number += 1
        reference = None
        if array.flags.c_contiguous:
            reference = refer(array) if refer is not None else None
            if reference is None:
                frames.append(array)
        else:
            frames.append(np.ascontiguousarray(array))
        packed = b"" if reference is None else msgpack.packb(reference)
        references.append(packed)
        room += ARRAY_BYTES + len(packed)
    to = HeaderWriter(room)
    put(to, 0x90 | FIELDS)
    put(to, VERSION)
    put_bytes(to, names)
    put_count(to, header.incarnation)
    put_count(to, header.edge)
    put_count(to, header.round)
    put_count(to, <uint64_t> int(block.kind))
    put_count(to, block.seq)
    put_count(to, block.epoch)
    put(to, 0x94)
    for count in block.key:
        put_count(to, count)
    put_count(to, block.items)
    put(to, 0xC3 if attachment is not None else 0xC2)
    put_shapes(to, arrays, places, references)
    put_bytes(to, meta)
    size = to.at - to.start
    if size > HEADER_MAX:
        raise ValueError(f"a header of {size} bytes is over the limit of {HEADER_MAX}")
    return PyBytes_FromStringAndSize(<char*> to.start, size), frames


cdef int put_shapes(HeaderWriter to, list arrays, list places, list references) except -1:
    cdef bytes reference
    cdef tuple shape
    if len(arrays) < 16:
        put(to, 0x90 | <uint8_t> len(arrays))
    else:
        put_big(to, 0xDC0000 | <uint64_t> len(arrays), 3)
    for array, place, reference in zip(arrays, places, references):
        put(to, 0x93 if reference else 0x92)
        put(to, 0xA0 | CODE_BYTES)
        put_bytes(to, <bytes> CODES[place])
        shape = array.shape
        put(to, 0x90 | <uint8_t> len(shape))
        for length in shape:
            put_count(to, length)
        put_bytes(to, reference)
    return 0


# ---- reading
cdef struct HeaderReader:
    const uint8_t* at
    const uint8_t* end


cdef int refuse(str why) except -1:
    raise FrameError(why)


cdef inline uint64_t take_big(HeaderReader* of, int size) except? 0xFFFFFFFFFFFFFFFF:
    cdef uint64_t value = 0
    cdef int i
    if of.end - of.at < size:
        refuse("a header that ends too soon")
    for i in range(size):
        value = value << 8 | of.at[i]
    of.at += size
    return value


cdef inline uint8_t take(HeaderReader* of) except? 0xFF:
    return <uint8_t> take_big(of, 1)


cdef uint64_t take_count(HeaderReader* of) except? 0xFFFFFFFFFFFFFFFF:
    """A whole number from 0 to COUNT_MAX."""
    cdef uint64_t value = take_number(of)
    if value > COUNT_MAX:
        refuse("a count is missing or out of range")
    return value


cdef uint64_t take_number(HeaderReader* of) except? 0xFFFFFFFFFFFFFFFF:
    """A whole number that is not negative, in whichever width it was written."""
    cdef uint8_t mark = take(of)
    cdef uint64_t value = 0
    cdef int size
    if mark < 0x80:
        return mark
    if 0xCC <= mark <= 0xCF:
        value = take_big(of, 1 << (mark - 0xCC))
    elif 0xD0 <= mark <= 0xD3:
        size = 1 << (mark - 0xD0)
        value = take_big(of, size)
        if value >> (8 * size - 1):
            refuse("a count is missing or out of range")
    else:
        refuse("a count is missing or out of range")
    return value


cdef Py_ssize_t take_length(
    HeaderReader* of, uint8_t fixed, uint8_t fixed_max, uint8_t first, int size, str what
) except -1:
    """The length of an array or a string: a small one stands in the mark, a larger one in `size` bytes or more."""
    cdef uint8_t mark = take(of)
    cdef int step
    if fixed <= mark <= fixed | fixed_max:
        return mark & fixed_max
    step = mark - first
    if not 0 <= step <= 2 or (size << step) > 4:
        refuse(what)
    return <Py_ssize_t> take_big(of, size << step)


cdef bytes take_text(HeaderReader* of, str what):
    """The bytes of a string."""
    cdef Py_ssize_t length = take_length(of, 0xA0, 0x1F, 0xD9, 1, what)
    if of.end - of.at < length:
        refuse(what)
    found = PyBytes_FromStringAndSize(<const char*> of.at, length)
    of.at += length
    return found


cdef Py_ssize_t take_list(HeaderReader* of, str what) except -1:
    """The length of an array."""
    return take_length(of, 0x90, 0x0F, 0xDC, 2, what)


cdef tuple take_names(HeaderReader* of):
    """Job and sender."""
    cdef bytes job = take_text(of, "job and sender must be short strings")
    cdef bytes sender = take_text(of, "job and sender must be short strings")
    cdef tuple raw = (job, sender), found = read_names.get(raw)
    if found is None:
        try:
            found = (job.decode(), sender.decode())
        except UnicodeDecodeError:
            raise FrameError("job and sender must be short strings") from None
        if len(found[0]) > NAME_MAX or len(found[1]) > NAME_MAX:
            raise FrameError("job and sender must be short strings")
        if len(read_names) >= NAMES_KNOWN_MAX:
            read_names.clear()
        read_names[raw] = found
    return found


def decode(header, frames, fetch=None):
    cdef HeaderReader of
    cdef const uint8_t[::1] view = header
    cdef uint64_t incarnation, edge, round_, kind, seq, epoch, source, sink, row, s_index, items
    cdef Py_ssize_t attached
    cdef tuple names
    cdef list arrays
    if view.shape[0] > HEADER_MAX:
        raise FrameError("header over the size limit")
    if view.shape[0] < FIELDS:
        raise FrameError("a header has 14 fields")
    of.at, of.end = &view[0], &view[0] + view.shape[0]
    if take(&of) != 0x90 | FIELDS:
        raise FrameError("a header has 14 fields")
    if take(&of) != VERSION:
        raise FrameError("another protocol version")
    names = take_names(&of)
    incarnation, edge, round_ = take_count(&of), take_count(&of), take_count(&of)
    kind = take_count(&of)
    if kind >= KINDS_MAX or KINDS[kind] is None:
        raise FrameError("unknown kind")
    seq, epoch = take_count(&of), take_count(&of)
    if take_list(&of, "a key has four fields") != 4:
        raise FrameError("a key has four fields")
    source, sink, row, s_index = take_count(&of), take_count(&of), take_count(&of), take_count(&of)
    items = take_count(&of)
    attached = take(&of) - 0xC2
    if attached not in (0, 1):
        raise FrameError("bad attachment or shapes")
    arrays = take_arrays(&of, frames, fetch)
    if attached and not arrays:
        raise FrameError("bad attachment or shapes")
    attachment = arrays.pop() if attached else None
    block = Block(
        KINDS[kind], epoch, Key(source, sink, row, s_index), items, tuple(arrays), attachment, take_meta(&of), seq
    )
    return Header(names[0], names[1], incarnation, edge, round_), block


cdef dict take_meta(HeaderReader* of):
    """The map that ends a header."""
    cdef Py_ssize_t length = of.end - of.at
    if length == 1 and of.at[0] == 0x80:
        return {}
    try:
        meta = msgpack.unpackb(of.at[:length], strict_map_key=True, max_ext_len=0)
    except Exception as error:  # msgpack raises many kinds; a stranger's bytes may provoke any
        raise FrameError(f"not msgpack: {error.__class__.__name__}") from None
    if type(meta) is not dict or len(meta) > form.META_KEYS_MAX or not all(type(name) is str for name in meta):
        raise FrameError("meta is a small map with string keys")
    return meta


cdef list take_arrays(HeaderReader* of, object frames, object fetch):
    cdef Py_ssize_t count = take_list(of, "bad attachment or shapes"), parts, dimensions, i
    cdef uint64_t size, claimed, length
    cdef list arrays = []
    cdef object dtype, rest = iter(frames)
    if count > FRAMES_MAX:
        raise FrameError("too many arrays")
    for _ in range(count):
        parts = take_list(of, "a shape entry is (dtype, shape) or (dtype, shape, reference)")
        if not 2 <= parts <= 3:
            raise FrameError("a shape entry is (dtype, shape) or (dtype, shape, reference)")
        dtype = take_dtype(of)
        dimensions = take_list(of, "unknown dtype or too many dimensions")
        if dimensions > DIMENSIONS:
            raise FrameError("unknown dtype or too many dimensions")
        size = claimed = dtype.itemsize
        shape = []
        for i in range(dimensions):
            length = take_count(of)
            shape.append(length)
            size *= length
            if length and claimed > PAYLOAD_MAX // length:
                raise FrameError("a shape over the size limit")
            claimed *= length or 1
        if parts == 3:
            frame = fetched(take_reference(of), size, fetch)
        else:
            frame = next(rest, None)
            if frame is None:
                raise FrameError("frames and shapes differ in number")
        view = memoryview(frame)
        if size != <uint64_t> view.nbytes:
            raise FrameError("a frame's size is not that of its shape")
        arrays.append(ndarray(shape, dtype, view) if size else empty(shape, dtype))
    if next(rest, None) is not None:
        raise FrameError("frames and shapes differ in number")
    return arrays


cdef object take_dtype(HeaderReader* of):
    cdef bytes name = take_text(of, "unknown dtype or too many dimensions")
    cdef Py_ssize_t place
    for place in range(len(CODES)):
        if CODES[place] == name:
            return DTYPES[place]
    raise FrameError("unknown dtype or too many dimensions")


cdef list take_reference(HeaderReader* of):
    """A list of whole numbers and strings."""
    cdef Py_ssize_t count = take_list(of, "a reference where none is expected")
    cdef list found = []
    if count > of.end - of.at:
        raise FrameError("a header that ends too soon")
    for _ in range(count):
        if of.at == of.end:
            raise FrameError("a header that ends too soon")
        if 0xA0 <= of.at[0] <= 0xBF or 0xD9 <= of.at[0] <= 0xDB:
            try:
                found.append(take_text(of, "a reference of numbers and strings").decode())
            except UnicodeDecodeError:
                raise FrameError("a reference of numbers and strings") from None
        else:
            found.append(take_number(of))  # an inode may be any
    return found


cdef object fetched(list reference, uint64_t size, object fetch):
    if fetch is None:
        raise FrameError("a reference where none is expected")
    return fetch(reference, size)
