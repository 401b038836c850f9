"""Looks at the memory of arrays and segments, many times a message."""

from cpython.buffer cimport PyBUF_FULL_RO, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stddef cimport size_t

import numpy as np

from riprap.engine.wire.borrowed cimport Borrowed

cdef object ndarray = np.ndarray


def origin_of(object array):
    cdef object below
    while True:
        if isinstance(array, ndarray):
            below = array.base
        elif isinstance(array, memoryview):
            below = array.obj
        else:
            return array
        if below is None:
            return array
        array = below


def address_of(object array):
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_FULL_RO)
    cdef size_t address = <size_t>view.buf
    PyBuffer_Release(&view)
    return address


def largest_of(object block):
    cdef Py_ssize_t largest = 0, nbytes
    for array in block.arrays:
        nbytes = array.nbytes
        largest = max(largest, nbytes)
    if block.attachment is not None:
        nbytes = block.attachment.nbytes
        largest = max(largest, nbytes)
    return largest


def are_current(dict segments):
    for segment in segments.values():
        if not (<Borrowed?>segment).current():
            return False
    return True
