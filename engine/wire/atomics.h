/* C11 atomics under names that Cython can declare. Orders other than these three pairs are not needed here. */
#ifndef RIPRAP_ATOMICS_H
#define RIPRAP_ATOMICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef _Atomic size_t riprap_word;
typedef _Atomic(void *) riprap_pointer;

static inline size_t riprap_load_relaxed(riprap_word *word) {
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline size_t riprap_load_acquire(riprap_word *word) {
    return atomic_load_explicit(word, memory_order_acquire);
}

static inline void riprap_store_relaxed(riprap_word *word, size_t value) {
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static inline void riprap_store_release(riprap_word *word, size_t value) {
    atomic_store_explicit(word, value, memory_order_release);
}

static inline size_t riprap_exchange(riprap_word *word, size_t value) {
    return atomic_exchange(word, value);
}

static inline size_t riprap_add(riprap_word *word, size_t value) {
    return atomic_fetch_add_explicit(word, value, memory_order_relaxed);
}

static inline bool riprap_claim(riprap_word *word, size_t *expected, size_t wanted) {
    return atomic_compare_exchange_weak_explicit(word, expected, wanted, memory_order_relaxed, memory_order_relaxed);
}

static inline void *riprap_load_pointer(riprap_pointer *place) {
    return atomic_load_explicit(place, memory_order_acquire);
}

static inline void riprap_store_pointer(riprap_pointer *place, void *value) {
    atomic_store_explicit(place, value, memory_order_release);
}

static inline void *riprap_exchange_pointer(riprap_pointer *place, void *value) {
    return atomic_exchange_explicit(place, value, memory_order_acquire);
}

static inline bool riprap_swap_pointer(riprap_pointer *place, void **expected, void *wanted) {
    return atomic_compare_exchange_weak_explicit(place, expected, wanted, memory_order_release, memory_order_relaxed);
}

static inline void riprap_fence(void) {
    atomic_thread_fence(memory_order_seq_cst);
}

#endif
