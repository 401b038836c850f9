"""A sparse logistic model as a fault-tolerant state that trains itself item by item (AF Table 3, Experiment 5)."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

import numpy as np

from riprap.operators.states.base import Backup, State

cdef extern from "sgd.h" nogil:
    ctypedef struct sgd_parameter:
        double value, saved, reported
        uint64_t marks
    ctypedef struct sgd_model:
        sgd_parameter *parameters
        uint32_t *unsaved
        uint32_t *unreported
        size_t count, unsaved_count, unreported_count
        double distance
        int64_t trained, tested, correct
    ctypedef struct sparse_columns:
        const char *labels
        const char *indexes
        const char *values
        size_t stride, features
    double sgd_divergence(const sgd_model *model)
    ptrdiff_t sgd_train(sgd_model *model, sparse_columns rows, size_t first, size_t stop, double eta, int64_t holdout,
                        double theta)
    void sgd_merge(sgd_model *model, const uint32_t *indexes, const double *values, size_t count)
    void sgd_report(sgd_model *model, uint32_t *indexes, double *values)
    void sgd_unreported(const sgd_model *model, uint32_t *indexes, double *reported)
    void sgd_unreport(sgd_model *model, const uint32_t *indexes, const double *reported, size_t count)
    void sgd_save(sgd_model *model, uint32_t *indexes, double *values)
    void sgd_load(sgd_model *model, const uint32_t *indexes, const double *values, size_t count)

PARAMETERS_MAX = 1 << 28


cdef class _Model:
    """The parameters, in C. Indexes that come in were checked."""

    cdef sgd_model own

    def __cinit__(self, size_t count):
        self.own.parameters = <sgd_parameter *>calloc(count, sizeof(sgd_parameter))
        self.own.unsaved = <uint32_t *>malloc(count * sizeof(uint32_t))
        self.own.unreported = <uint32_t *>malloc(count * sizeof(uint32_t))
        self.own.count = count
        if not (self.own.parameters and self.own.unsaved and self.own.unreported):
            raise MemoryError

    def __dealloc__(self):
        free(self.own.parameters)
        free(self.own.unsaved)
        free(self.own.unreported)

    def train(self, const unsigned char[::1] raw, size_t stride, size_t label, size_t indexes, size_t values,
              size_t features, size_t first, size_t stop, double eta, int64_t holdout, double theta):
        cdef sparse_columns rows
        cdef ptrdiff_t left
        if first >= stop:
            return stop
        rows.labels = <const char *>&raw[label]
        rows.indexes = <const char *>&raw[indexes]
        rows.values = <const char *>&raw[values]
        rows.stride, rows.features = stride, features
        with nogil:
            left = sgd_train(&self.own, rows, first, stop, eta, holdout, theta)
        return left

    def merge(self, const uint32_t[::1] indexes, const double[::1] values):
        if indexes.shape[0]:
            sgd_merge(&self.own, &indexes[0], &values[0], indexes.shape[0])

    def load(self, const uint32_t[::1] indexes, const double[::1] values):
        if indexes.shape[0]:
            sgd_load(&self.own, &indexes[0], &values[0], indexes.shape[0])

    def report(self):
        indexes, values = np.empty(self.own.unreported_count, np.uint32), np.empty(self.own.unreported_count)
        cdef uint32_t[::1] to_indexes = indexes
        cdef double[::1] to_values = values
        if self.own.unreported_count:
            sgd_report(&self.own, &to_indexes[0], &to_values[0])
        return indexes, values

    def unreported(self):
        indexes, reported = np.empty(self.own.unreported_count, np.uint32), np.empty(self.own.unreported_count)
        cdef uint32_t[::1] to_indexes = indexes
        cdef double[::1] to_reported = reported
        if self.own.unreported_count:
            sgd_unreported(&self.own, &to_indexes[0], &to_reported[0])
        return indexes, reported

    def unreport(self, const uint32_t[::1] indexes, const double[::1] reported):
        cdef size_t count = indexes.shape[0]
        sgd_unreport(&self.own, &indexes[0] if count else NULL, &reported[0] if count else NULL, count)

    def save(self):
        indexes, values = np.empty(self.own.unsaved_count, np.uint32), np.empty(self.own.unsaved_count)
        cdef uint32_t[::1] to_indexes = indexes
        cdef double[::1] to_values = values
        if self.own.unsaved_count:
            sgd_save(&self.own, &to_indexes[0], &to_values[0])
        self.own.distance = 0
        return indexes, values

    def values(self):
        cdef size_t i
        out = np.empty(self.own.count)
        cdef double[::1] to = out
        for i in range(self.own.count):
            to[i] = self.own.parameters[i].value
        return out

    def clear(self):
        memset(self.own.parameters, 0, self.own.count * sizeof(sgd_parameter))
        self.own.unsaved_count = self.own.unreported_count = 0
        self.own.distance = 0

    @property
    def tallies(self):
        return self.own.trained, self.own.tested, self.own.correct

    @tallies.setter
    def tallies(self, values):
        self.own.trained, self.own.tested, self.own.correct = values

    @property
    def divergence(self):
        return sgd_divergence(&self.own)


class SparseModel(State):
    """`parameters` float64 numbers, zeros at first. Divergence: the Euclidean distance from the last backup.

    Item t moves the parameters of its features by eta / sqrt(t) along the gradient of its logistic loss. A backup holds
    indexes and values of parameters, and indexes of those that were trained since the last report, with what was
    reported.
    """

    def __init__(self, parameters, eta=0.5, holdout=0):
        if not 0 < parameters <= PARAMETERS_MAX:
            raise ValueError(f"{parameters} parameters; 1 to {PARAMETERS_MAX} are possible")
        self._model = _Model(parameters)
        self._eta, self._holdout = eta, holdout
        self._fresh = True
        self.parameters = parameters

    def train(self, records, first, stop):
        """Train on items first to stop of a structured array; the number of the first that is left.

        Fields: `label` float32 (0 or 1), `indexes` uint32 (n,) and `values` float32 (n,). Each `holdout`-th item is
        predicted before. Stops behind the item that makes the divergence exceed theta. ValueError when the fields are
        others, or an index is not below the number of parameters.
        """
        fields = records.dtype.fields or {}
        types = {name: (kind.base, kind.shape) for name, (kind, *_) in fields.items()}
        shape = types.get("indexes", (None, (0,)))[1]
        expected = {"label": (np.float32, ()), "indexes": (np.uint32, shape), "values": (np.float32, shape)}
        if any(types.get(name) != kind for name, kind in expected.items()) or len(shape) != 1 or records.ndim != 1:
            raise ValueError(f"no sparse items in {records.dtype}")
        if not 0 <= first <= stop <= len(records):
            raise ValueError(f"no items {first} to {stop} among {len(records)}")
        raw = np.ascontiguousarray(records).view(np.uint8)
        offsets = [fields[name][1] for name in expected]
        how = (self._eta, self._holdout, self.theta)
        left = self._model.train(raw, records.itemsize, *offsets, shape[0], first, stop, *how)
        if left < 0:
            raise ValueError(f"item {-1 - left} has a feature beyond the {self.parameters} parameters")
        return left

    @property
    def values(self):
        """All parameters; a copy."""
        return self._model.values()

    @property
    def trained(self):
        """Number of items trained on."""
        return self._model.tallies[0]

    @property
    def tested(self):
        """Number of items predicted before they were trained on, and the number of them predicted correctly."""
        return self._model.tallies[1:]

    def report(self):
        """(indexes uint32, values) of the parameters that were trained since the last report."""
        return self._model.report()

    def merge(self, indexes, values):
        """Replace parameters by the values that the models agreed on, and keep the changes since the last report."""
        self._model.merge(*self._checked(indexes, values))

    def state_divergence(self):
        return self._model.divergence

    def backup_state(self):
        if self._fresh:
            return self.backup_all()
        return Backup(False, (self._about(), *self._model.save(), *self._model.unreported()))

    def backup_all(self):
        self._model.save()
        self._fresh = False
        values = self.values
        indexes = np.flatnonzero(values)
        return Backup(True, (self._about(), indexes.astype(np.uint32), values[indexes], *self._model.unreported()))

    def recover_state(self, backup):
        if len(backup.arrays) not in (3, 5):
            raise ValueError("a backup of a sparse model has five arrays, or three, those of earlier versions")
        about, *entries = backup.arrays
        if about.dtype != np.int64 or about.shape != (4,) or about[0] != self.parameters or (about < 0).any():
            raise ValueError(f"a backup of another model than one of {self.parameters} parameters")
        saved, *unreported = [self._checked(*entries[i:i + 2]) for i in range(0, len(entries), 2)]
        if backup.full:
            self._model.clear()
        self._model.load(*saved)
        for entry in unreported:
            self._model.unreport(*entry)
        self._model.tallies = about[1:].tolist()
        self._fresh = False

    def _about(self):
        return np.array([self.parameters, *self._model.tallies], np.int64)

    def _checked(self, indexes, values):
        if indexes.dtype != np.uint32 or values.dtype != np.float64 or indexes.ndim != 1 or indexes.shape != values.shape:
            raise ValueError("parameters are given as uint32 indexes and as many float64 values")
        if (indexes >= self.parameters).any():
            raise ValueError(f"an index beyond the {self.parameters} parameters")
        return indexes, values
