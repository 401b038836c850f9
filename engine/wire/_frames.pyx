"""Turns Python's headers and buffers into messages, and received messages into headers and Frames."""

cimport cython
from cpython.buffer cimport Py_buffer, PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from riprap.engine.wire._message cimport (
    FRAMES_MAX, SEND, Message, message_free, message_new, part_copy, part_lend, release_returned,
)
from riprap.engine.wire._zmq cimport libzmq, zmq_msg_t

UPSTREAM = 0
DOWNSTREAM = 1


@cython.final
@cython.freelist(256)
cdef class Frame:
    def __cinit__(self):
        libzmq.msg_init(&self.message)

    def __dealloc__(self):
        libzmq.msg_close(&self.message)

    def __len__(self):
        return libzmq.msg_size(&self.message)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, libzmq.msg_data(&self.message), libzmq.msg_size(&self.message), 1, flags)


cdef Message* pack(unsigned int link, bytes peer, bytes header, object frames, size_t bytes_max) except NULL:
    cdef Py_ssize_t count = len(frames)
    if count > FRAMES_MAX:
        raise ValueError(f"a message has at most {FRAMES_MAX} frames, not {count}")
    if not header:
        raise ValueError("a message needs a header of at least one byte")
    cdef Message* message = message_new(SEND, link, count + 2)
    if message == NULL:
        raise MemoryError
    try:
        pack_parts(message, peer, header, frames)
        if message.bytes > bytes_max:
            raise ValueError(f"a message of {message.bytes} bytes is over the bound of {bytes_max}")
    except BaseException:
        message_free(message)
        release_returned()
        raise
    return message


cdef int pack_parts(Message* message, bytes peer, bytes header, object frames) except -1:
    cdef int i = 2
    part_copy(&message.part[0], PyBytes_AS_STRING(peer), PyBytes_GET_SIZE(peer))
    part_copy(&message.part[1], PyBytes_AS_STRING(header), PyBytes_GET_SIZE(header))
    message.bytes = PyBytes_GET_SIZE(header)
    for frame in frames:
        if i == message.parts:
            raise ValueError("frames grew while they were packed")
        pack_frame(&message.part[i], frame)
        message.bytes += libzmq.msg_size(&message.part[i])
        i += 1
    return 0


cdef int pack_frame(zmq_msg_t* part, object frame) except -1:
    """A received frame shares its memory; anything else lends or copies its bytes."""
    if isinstance(frame, Frame):
        libzmq.msg_copy(part, &(<Frame>frame).message)
        return 0
    return part_lend(part, frame)


cdef tuple unpack(Message* message, object origin):
    cdef list frames = []
    cdef Frame frame
    cdef int i
    for i in range(2, message.parts):
        frame = Frame.__new__(Frame)
        libzmq.msg_move(&frame.message, &message.part[i])
        frames.append(frame)
    sender = part_bytes(&message.part[0]) if origin == UPSTREAM else message.link
    return origin, sender, part_bytes(&message.part[1]), frames


cdef bytes part_bytes(zmq_msg_t* part):
    return PyBytes_FromStringAndSize(<char*>libzmq.msg_data(part), libzmq.msg_size(part))
