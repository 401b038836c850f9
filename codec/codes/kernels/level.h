/* Which instruction set the kernels use: chosen once from the CPU, lowered by tests that compare the variants. */
#ifndef RIPRAP_LEVEL_H
#define RIPRAP_LEVEL_H

/* In rising order: a kernel without a variant of its own for a level uses the next lower one. */
enum riprap_level { RIPRAP_BASELINE, RIPRAP_SSSE3, RIPRAP_AVX2, RIPRAP_AVX512, RIPRAP_LEVELS };

/* The highest level that this CPU (and its operating system) supports. */
enum riprap_level riprap_highest_level(void);

/* The level that calls use from now on; the highest one until it is set. */
enum riprap_level riprap_level(void);

/* Use `level` in all threads. The caller has checked that the CPU supports it. */
void riprap_set_level(enum riprap_level level);

#endif
