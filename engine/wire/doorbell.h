/* A bell that other threads and other processes ring: a futex (futex(2)) that lies in memory they share.

   No wake-up is lost: the sleeper announces itself, looks once more for work, and sleeps only while the word still says
   so; whoever brings work publishes it, then looks at the word and takes the announcement back. */
#ifndef RIPRAP_DOORBELL_H
#define RIPRAP_DOORBELL_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    _Atomic uint32_t asleep;
} riprap_doorbell;

static inline void riprap_doorbell_announce(riprap_doorbell *bell) {
    atomic_store_explicit(&bell->asleep, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

/* Until it is rung, the time is over, or a signal came. */
static inline void riprap_doorbell_sleep(riprap_doorbell *bell, const struct timespec *timeout) {
    syscall(SYS_futex, &bell->asleep, FUTEX_WAIT, 1, timeout, NULL, 0);
}

static inline void riprap_doorbell_awake(riprap_doorbell *bell) {
    atomic_store_explicit(&bell->asleep, 0, memory_order_relaxed);
}

static inline void riprap_doorbell_ring(riprap_doorbell *bell) {
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&bell->asleep, memory_order_relaxed) && atomic_exchange(&bell->asleep, 0))
        syscall(SYS_futex, &bell->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
}

#endif
