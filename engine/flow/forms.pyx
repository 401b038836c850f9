"""The forms of messages: what gates let through, field by field."""

from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject

from riprap.codec.blocks import Kind
from riprap.codec.errors import FrameError
from riprap.operators.returns import FOREVER

cdef enum:
    HEAD_COUNTS = 8  # numbers that a head begins with

cdef object DATA = Kind.DATA
cdef object PARITY = Kind.PARITY
cdef object RESULT = Kind.RESULT
cdef object PUNCTUATION = Kind.PUNCTUATION
cdef object FEEDBACK = Kind.FEEDBACK
cdef object ACK = Kind.ACK
cdef object RESEND = Kind.RESEND


cdef inline object got(dict meta, str name):
    """A field, None where there is none: no field is None, for no form admits it."""
    cdef PyObject* found = PyDict_GetItem(meta, name)
    return None if found == NULL else <object>found


cdef inline bint count(object value) except -1:
    return type(value) is int and value >= 0


cdef bint counts(object values, Py_ssize_t length) except -1:
    if type(values) is not list or PyList_GET_SIZE(values) != length:
        return False
    for value in <list>values:
        if not count(value):
            return False
    return True


cdef inline bint count_or_none(dict meta, str name) except -1:
    return name not in meta or count(got(meta, name))


def are_counts(object values, Py_ssize_t length):
    return counts(values, length)


def is_window_end(object meta):
    return window_end(meta)


cdef bint window_end(object fields) except -1:
    if type(fields) is not dict:
        return False
    cdef dict meta = fields
    if not count(got(meta, "items")) or type(got(meta, "last")) is not bool or type(got(meta, "opened_at")) is not float:
        return False
    if "opened_ago" in meta and type(got(meta, "opened_ago")) is not float:
        return False
    if "clock" in meta and type(got(meta, "clock")) is not int:
        return False
    if "time" in meta and not (type(got(meta, "time")) is int and -FOREVER <= got(meta, "time") <= FOREVER):
        return False
    return "idle" not in meta or got(meta, "idle") is True


# coded segments
def check_of_segment(object block, object pair, frozenset processors):
    cdef object kind = block.kind
    cdef dict meta = block.meta
    if kind is DATA or kind is PARITY or kind is RESULT:
        source, sink, _, _ = block.key
        if source != pair or sink != pair:
            raise FrameError("a key of another pair")
    if kind is not PUNCTUATION and of_words(meta):
        raise FrameError("a field of a row's word in another message")
    if "cause" in meta:
        raise FrameError("the cause that blocks of links have")
    if not has_form(kind, block, meta):
        raise FrameError(f"a {kind.name} with odd fields")
    if not names_known(kind, meta, processors):
        raise FrameError("it names workers that are no processors")


cdef bint of_words(dict meta) except -1:
    return "participants" in meta or "heads" in meta or "moved" in meta or "begin" in meta


cdef bint has_form(object kind, object block, dict meta) except -1:
    if kind is DATA:
        return piece(block, meta) and len(block.arrays[0]) == block.items
    if kind is PARITY:
        return parity(block, meta)
    if kind is RESULT:
        attached = block.attachment
        return count_or_none(meta, "of") and (attached is None or (attached.ndim == 2 and len(attached) == block.items))
    if kind is PUNCTUATION:
        return word(meta)
    if kind is FEEDBACK:
        return count_or_none(meta, "window")
    if kind is ACK:
        return "avoided" not in meta or texts(got(meta, "avoided"))
    if kind is RESEND:
        return pairs(got(meta, "pieces"))
    return True


cdef bint piece(object block, dict meta) except -1:
    cdef tuple arrays = block.arrays
    return len(arrays) == 1 and arrays[0].ndim == 2 and count_or_none(meta, "window")


cdef bint parity(object block, dict meta) except -1:
    items = got(meta, "counts")
    if not piece(block, meta) or not count(got(meta, "of")) or type(items) is not list or not items:
        return False
    return counts(items, len(items)) and max(items) == len(block.arrays[0])


cdef bint word(dict meta) except -1:
    if "participants" not in meta:
        return "moved" in meta and "heads" not in meta and moves(got(meta, "moved"))
    return row(meta) and ("moved" not in meta or moves(got(meta, "moved")))


cdef bint row(dict meta) except -1:
    incarnations, active = got(meta, "participants"), got(meta, "active")
    if type(incarnations) is not dict or not count(got(meta, "blocks")) or not count(active):
        return False
    if not 0 < active <= len(<dict>incarnations) or not counts(list((<dict>incarnations).values()), len(<dict>incarnations)):
        return False
    return "heads" not in meta or heads(got(meta, "heads"))


cdef bint heads(object found) except -1:
    """Blocks without their pieces (engine/spreads/rows.py): numbers, and at a window's end what it says."""
    if type(found) is not list:
        return False
    for head in <list>found:
        if type(head) is not list or (head and not is_head(head)):
            return False
    return True


cdef bint is_head(list head) except -1:
    if len(head) != HEAD_COUNTS + 1 or not counts(head[:HEAD_COUNTS], HEAD_COUNTS):
        return False
    return counts(head[HEAD_COUNTS], 2) or window_end(head[HEAD_COUNTS])


cdef bint moves(object found) except -1:
    if type(found) is not list:
        return False
    for move in <list>found:
        if type(move) is not list or len(<list>move) != 4 or type(move[2]) is not str:
            return False
        if not (count(move[0]) and count(move[1]) and count(move[3])):
            return False
    return True


cdef bint texts(object found) except -1:
    if type(found) is not list:
        return False
    for text in <list>found:
        if type(text) is not str:
            return False
    return True


cdef bint pairs(object found) except -1:
    if type(found) is not list:
        return False
    for pair in <list>found:
        if not counts(pair, 2):
            return False
    return True


cdef bint names_known(object kind, dict meta, frozenset processors) except -1:
    """All workers that a message to or from a source tells of are processors."""
    if kind is ACK:
        return "avoided" not in meta or processors.issuperset(got(meta, "avoided"))
    if kind is not PUNCTUATION:
        return True
    if "participants" in meta and not processors.issuperset(got(meta, "participants")):
        return False
    for move in <list>(got(meta, "moved") or []):
        if move[2] not in processors:
            return False
    return True
