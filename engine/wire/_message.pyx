"""Makes and frees messages, and lends Python buffers to libzmq without a copy.

libzmq frees a lent buffer on its own I/O thread, where the GIL may not be taken: the free function only pushes the
loan onto a lock-free list (Treiber, 1986; emptied as a whole, so no ABA), which the compute thread empties.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from riprap.engine.wire._atomics cimport Pointer, add, exchange_pointer, load_relaxed, store_pointer, swap_pointer
from riprap.engine.wire._zmq cimport libzmq, raise_zmq_error

cdef enum:
    # A copy of less costs no more than a loan and its return, and leaves the caller free to change the buffer.
    LEND_BYTES_MIN = 2048

cdef struct Loan:
    Py_buffer view
    Loan* next

# Process-wide, so that it outlives every Network whose messages may still be on their way back.
cdef Pointer returned
store_pointer(&returned, NULL)


cdef Message* message_new(Verb verb, unsigned int link, int parts) noexcept nogil:
    cdef Message* message = <Message*>malloc(sizeof(Message) + parts * sizeof(zmq_msg_t))
    cdef int i
    if message == NULL:
        return NULL
    message.verb = verb
    message.link = link
    message.linger_ms = 0
    message.parts = parts
    message.socket = NULL
    message.bytes = 0
    for i in range(parts):
        libzmq.msg_init(&message.part[i])
    add(&live_messages, 1)
    return message


cdef void message_free(Message* message) noexcept nogil:
    cdef int i
    for i in range(message.parts):
        libzmq.msg_close(&message.part[i])
    if message.socket != NULL:
        libzmq.close(message.socket)
    free(message)
    add(&live_messages, <size_t>-1)


cdef int part_copy(zmq_msg_t* part, const void* data, size_t size) except -1:
    if libzmq.msg_init_size(part, size) != 0:
        libzmq.msg_init(part)
        return raise_zmq_error("message")
    memcpy(libzmq.msg_data(part), data, size)
    return 0


cdef int part_lend(zmq_msg_t* part, object exporter) except -1:
    cdef Loan* loan = <Loan*>malloc(sizeof(Loan))
    if loan == NULL:
        raise MemoryError
    try:
        PyObject_GetBuffer(exporter, &loan.view, PyBUF_SIMPLE)
    except BaseException:
        free(loan)
        raise
    add(&live_loans, 1)
    if loan.view.len >= LEND_BYTES_MIN:
        if libzmq.msg_init_data(part, loan.view.buf, loan.view.len, give_back, loan) == 0:
            return 0
        libzmq.msg_init(part)
        end_loan(loan)
        return raise_zmq_error("message")
    try:
        return part_copy(part, loan.view.buf, loan.view.len)
    finally:
        end_loan(loan)


cdef void give_back(void* data, void* hint) noexcept nogil:
    """Called by libzmq, on any thread, when it is done with a lent buffer."""
    cdef Loan* loan = <Loan*>hint
    cdef void* head = NULL
    loan.next = NULL
    while not swap_pointer(&returned, &head, loan):
        loan.next = <Loan*>head


cdef int end_loan(Loan* loan) except -1:
    PyBuffer_Release(&loan.view)
    free(loan)
    add(&live_loans, <size_t>-1)
    return 0


cdef int release_returned() except -1:
    cdef Loan* loan = <Loan*>exchange_pointer(&returned, NULL)
    cdef Loan* following
    while loan != NULL:
        following = loan.next
        end_loan(loan)
        loan = following
    return 0


def live():
    return load_relaxed(&live_messages), load_relaxed(&live_loans)
