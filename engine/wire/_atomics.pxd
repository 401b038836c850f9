"""Declares atomics.h for Cython."""

cdef extern from "atomics.h" nogil:
    ctypedef size_t Word "riprap_word"
    ctypedef void* Pointer "riprap_pointer"
    size_t load_relaxed "riprap_load_relaxed"(Word* word)
    size_t load_acquire "riprap_load_acquire"(Word* word)
    void store_relaxed "riprap_store_relaxed"(Word* word, size_t value)
    void store_release "riprap_store_release"(Word* word, size_t value)
    size_t exchange "riprap_exchange"(Word* word, size_t value)
    size_t add "riprap_add"(Word* word, size_t value)
    bint claim "riprap_claim"(Word* word, size_t* expected, size_t wanted)
    void* load_pointer "riprap_load_pointer"(Pointer* place)
    void store_pointer "riprap_store_pointer"(Pointer* place, void* value)
    void* exchange_pointer "riprap_exchange_pointer"(Pointer* place, void* value)
    bint swap_pointer "riprap_swap_pointer"(Pointer* place, void** expected, void* wanted)
    void fence "riprap_fence"()
