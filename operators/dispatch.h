/* How kernels are compiled: inlined into their loops, and the loops once for each instruction set that pays. */
#ifndef RIPRAP_DISPATCH_H
#define RIPRAP_DISPATCH_H

#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__gnu_linux__)
#define DISPATCH __attribute__((target_clones("avx2", "default")))
#else
#define DISPATCH
#endif

#endif
