/* Asks the CPU what it can do, and keeps the answer. */
#include "level.h"

#include <stdatomic.h>

#define UNKNOWN RIPRAP_LEVELS

static _Atomic int current = UNKNOWN;

enum riprap_level riprap_highest_level(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
        return RIPRAP_AVX512;
    if (__builtin_cpu_supports("avx2"))
        return RIPRAP_AVX2;
    if (__builtin_cpu_supports("ssse3"))
        return RIPRAP_SSSE3;
#endif
    return RIPRAP_BASELINE;
}

enum riprap_level riprap_level(void)
{
    int level = atomic_load_explicit(&current, memory_order_relaxed);
    if (level == UNKNOWN) {
        level = riprap_highest_level();
        atomic_store_explicit(&current, level, memory_order_relaxed);
    }
    return level;
}

void riprap_set_level(enum riprap_level level)
{
    atomic_store_explicit(&current, level, memory_order_relaxed);
}
