"""Declares doorbell.h for Cython."""

from posix.time cimport timespec

cdef extern from "doorbell.h" nogil:
    ctypedef struct Doorbell "riprap_doorbell":
        pass
    # The one sleeper announces itself, looks once more for work, and sleeps; in the end it is awake.
    void doorbell_announce "riprap_doorbell_announce"(Doorbell* bell)
    void doorbell_sleep "riprap_doorbell_sleep"(Doorbell* bell, const timespec* timeout)
    void doorbell_awake "riprap_doorbell_awake"(Doorbell* bell)
    # Anyone, after publishing work.
    void doorbell_ring "riprap_doorbell_ring"(Doorbell* bell)
