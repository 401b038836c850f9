"""The C kernels for Python: matrices that combine blocks, aligned arrays, and the instruction set in use."""

import numpy as np

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

cdef extern from *:
    const Py_ssize_t PY_SSIZE_T_MAX

cdef extern from "kernels/level.h":
    int RIPRAP_LEVELS
    int riprap_highest_level() noexcept nogil
    int riprap_level() noexcept nogil
    void riprap_set_level(int level) noexcept nogil

cdef extern from "kernels/buffers.h":
    void *riprap_buffer_new(size_t size) noexcept
    void riprap_buffer_free(void *buffer, size_t size) noexcept

cdef extern from "kernels/real.h":
    void riprap_real_combine(double **out, int n_out, const double **inputs, int n_in, const double *coef,
                             ptrdiff_t stride, size_t begin, size_t end, int add) noexcept nogil

cdef extern from "kernels/gf256.h":
    struct riprap_gf256_coef:
        pass
    uint8_t riprap_gf256_product(uint8_t a, uint8_t b) noexcept nogil
    void riprap_gf256_unfold(riprap_gf256_coef *coef, uint8_t value) noexcept nogil
    void riprap_gf256_combine(uint8_t **out, int n_out, const uint8_t **inputs, int n_in,
                              const riprap_gf256_coef *coef, ptrdiff_t stride, size_t begin, size_t end, int add) noexcept nogil

LEVELS = ("baseline", "ssse3", "avx2", "avx512")
assert len(LEVELS) == RIPRAP_LEVELS


def supported_levels():
    return LEVELS[: riprap_highest_level() + 1]


def level():
    return LEVELS[riprap_level()]


def force_level(name):
    if name not in supported_levels():
        raise ValueError(f"this CPU runs the levels {supported_levels()}, not {name!r}")
    riprap_set_level(LEVELS.index(name))


def gf256_product(uint8_t a, uint8_t b):
    return riprap_gf256_product(a, b)


cdef class Buffer:
    """Owns memory of riprap_buffer_new for as long as any array looks at it."""

    cdef void *memory
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t size):
        self.size = size
        self.memory = riprap_buffer_new(size)
        if self.memory == NULL:
            raise MemoryError(f"no memory for a block of {size} bytes")

    def __dealloc__(self):
        if self.memory != NULL:
            riprap_buffer_free(self.memory, self.size)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.memory, self.size, 0, flags)


def aligned_empty(tuple shape, dtype):
    dtype = np.dtype(dtype)
    cdef Py_ssize_t size = dtype.itemsize
    for length in shape:
        size *= length
    return np.ndarray(shape, dtype, Buffer(size)) if size else np.empty(shape, dtype)


cdef class Views:
    """The addresses of some arrays' bytes; the arrays stay alive and unmoved as long as this does."""

    cdef Py_buffer *buffers
    cdef uint8_t **addresses
    cdef int count
    cdef Py_ssize_t shortest

    def __cinit__(self, list arrays, int flags):
        self.buffers = <Py_buffer *> calloc(len(arrays), sizeof(Py_buffer))
        self.addresses = <uint8_t **> calloc(len(arrays), sizeof(void *))
        if self.buffers == NULL or self.addresses == NULL:
            raise MemoryError("no memory for the addresses of some blocks")
        self.shortest = PY_SSIZE_T_MAX
        for array in arrays:
            self.append(array, flags)

    cdef append(self, array, int flags):
        cdef Py_buffer *buffer = &self.buffers[self.count]
        try:
            PyObject_GetBuffer(array, buffer, flags)
        except (BufferError, ValueError):  # not contiguous, or a dtype without a buffer protocol, such as dates
            if flags & PyBUF_WRITABLE:
                raise
            PyObject_GetBuffer(np.ascontiguousarray(array).view(np.uint8), buffer, flags)
        self.addresses[self.count] = <uint8_t *> buffer.buf
        self.shortest = min(self.shortest, buffer.len)
        self.count += 1

    def __dealloc__(self):
        for i in range(self.count):
            PyBuffer_Release(&self.buffers[i])
        free(self.buffers)
        free(self.addresses)


cdef class Coefficients:
    """Common part of the two kinds of matrices."""

    cdef readonly int rows
    cdef readonly int columns

    def combine(self, list out, list inputs, int column, Py_ssize_t begin, Py_ssize_t end, bint add):
        self.combine_views(Views(out, PyBUF_WRITABLE), Views(inputs, PyBUF_SIMPLE), column, begin, end, add)

    cdef combine_views(self, Views out, Views inputs, int column, Py_ssize_t begin, Py_ssize_t end, bint add):
        if out.count != self.rows or not inputs.count or column < 0 or column + inputs.count > self.columns:
            raise ValueError(f"a {self.rows} x {self.columns} matrix cannot combine {inputs.count} blocks from "
                             f"column {column} into {out.count}")
        if not 0 <= begin <= end <= min(inputs.shortest, out.shortest):
            raise ValueError(f"from byte {begin} to {end} is not a range of blocks of {inputs.shortest} bytes")
        with nogil:
            self.run(out, inputs, column, begin, end, add)

    cdef void run(self, Views out, Views inputs, int column, size_t begin, size_t end, bint add) noexcept nogil:
        pass


cdef class Sums:
    """A matrix times blocks that arrive one by one or all at once.

    Invariant: bytes [0, filled) of every output hold the sum of the blocks so far, the others are uninitialised and
    stand for zeros. So the first block is written, not added to zeros.
    """

    cdef Coefficients matrix
    cdef tuple shape
    cdef object dtype
    cdef Py_ssize_t size, filled
    cdef list buffers
    cdef Views outputs

    def __cinit__(self, Coefficients matrix, tuple shape, dtype, list outputs=None):
        self.matrix = matrix
        self.shape = shape
        self.dtype = dtype
        self.size = dtype.itemsize
        for length in shape:
            self.size *= length
        self.buffers = [Buffer(self.size) for _ in range(matrix.rows)] if outputs is None else outputs
        if len(self.buffers) != matrix.rows or (outputs and any([output.nbytes != self.size for output in outputs])):
            raise ValueError(f"expected {matrix.rows} outputs of {self.size} bytes")
        self.outputs = Views(self.buffers, PyBUF_WRITABLE)

    def add(self, int column, block):
        cdef Views views = Views([block], PyBUF_SIMPLE)
        cdef Py_ssize_t length = views.shortest
        if self.outputs.count:
            if self.filled:
                self.matrix.combine_views(self.outputs, views, column, 0, min(length, self.filled), True)
            if length > self.filled:
                self.matrix.combine_views(self.outputs, views, column, self.filled, length, False)
                self.filled = length

    def add_all(self, list blocks):
        if self.filled or any([block.nbytes != self.size for block in blocks]):
            for column, block in enumerate(blocks):
                self.add(column, block)
        elif self.outputs.count:
            self.matrix.combine_views(self.outputs, Views(blocks, PyBUF_SIMPLE), 0, 0, self.size, False)
            self.filled = self.size

    def finish(self):
        for i in range(self.outputs.count):
            memset(self.outputs.addresses[i] + self.filled, 0, self.size - self.filled)
        self.filled = self.size
        return [np.ndarray(self.shape, self.dtype, buffer) for buffer in self.buffers]


cdef class RealMatrix(Coefficients):
    """Coefficients of float64."""

    cdef double *coef

    def __cinit__(self, coefficients):
        cdef const double[:, ::1] values = np.ascontiguousarray(coefficients, np.float64)
        cdef Py_ssize_t i, j
        self.rows, self.columns = values.shape[0], values.shape[1]
        self.coef = <double *> calloc(max(1, self.rows * self.columns), sizeof(double))
        if self.coef == NULL:
            raise MemoryError("no memory for a matrix")
        for j in range(self.rows):
            for i in range(self.columns):
                self.coef[j * self.columns + i] = values[j, i]

    def __dealloc__(self):
        free(self.coef)

    cdef void run(self, Views out, Views inputs, int column, size_t begin, size_t end, bint add) noexcept nogil:
        riprap_real_combine(<double **> out.addresses, out.count, <const double **> inputs.addresses, inputs.count,
                            self.coef + column, self.columns, begin // sizeof(double), end // sizeof(double), add)


cdef class ByteMatrix(Coefficients):
    """Coefficients of GF(2^8)."""

    cdef riprap_gf256_coef *coef

    def __cinit__(self, coefficients):
        cdef const uint8_t[:, ::1] values = np.ascontiguousarray(coefficients, np.uint8)
        cdef Py_ssize_t i, j
        self.rows, self.columns = values.shape[0], values.shape[1]
        self.coef = <riprap_gf256_coef *> calloc(max(1, self.rows * self.columns), sizeof(riprap_gf256_coef))
        if self.coef == NULL:
            raise MemoryError("no memory for a matrix")
        for j in range(self.rows):
            for i in range(self.columns):
                riprap_gf256_unfold(&self.coef[j * self.columns + i], values[j, i])

    def __dealloc__(self):
        free(self.coef)

    cdef void run(self, Views out, Views inputs, int column, size_t begin, size_t end, bint add) noexcept nogil:
        riprap_gf256_combine(out.addresses, out.count, <const uint8_t **> inputs.addresses, inputs.count,
                             self.coef + column, self.columns, begin, end, add)
