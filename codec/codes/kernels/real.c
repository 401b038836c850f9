/* Compiles the real-number kernel for each level, and walks arrays in strips that stay in the first-level cache. */
#include "real.h"

#include <string.h>

#include "level.h"

/* Rows of coefficients per pass over a strip: 4 rows x 64 bytes of sums fit the 16 registers of AVX2 beside the input. */
#define ROWS 4
#define STRIP_BYTES (16 * 1024)
#define STRIP_DOUBLES_MIN 128

typedef void strip_kernel(double *const *out, int n_out, const double *const *in, int n_in, const double *coef,
                          ptrdiff_t stride, size_t begin, size_t end, int add);

#define NAME(x) x##_baseline
#define TARGET
#define LANES 2
#define VECTORS 2
#include "real_body.h"

#if defined(__x86_64__)
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2")))
#define LANES 4
#define VECTORS 2
#include "real_body.h"

#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f")))
#define LANES 8
#define VECTORS 2
#include "real_body.h"
#endif

static strip_kernel *choose(void)
{
#if defined(__x86_64__)
    if (riprap_level() >= RIPRAP_AVX512)
        return strip_avx512;
    if (riprap_level() >= RIPRAP_AVX2)
        return strip_avx2;
#endif
    return strip_baseline;
}

void riprap_real_combine(double *const *out, int n_out, const double *const *in, int n_in, const double *coef,
                         ptrdiff_t stride, size_t begin, size_t end, int add)
{
    strip_kernel *kernel = choose();
    size_t length = STRIP_BYTES / sizeof(double) / (size_t)n_in;
    length = n_out <= ROWS ? end - begin : length < STRIP_DOUBLES_MIN ? STRIP_DOUBLES_MIN : length / 16 * 16;
    for (size_t next; begin < end; begin = next) {
        next = end - begin < length ? end : begin + length;
        for (int j = 0; j < n_out; j += ROWS) {
            int rows = n_out - j < ROWS ? n_out - j : ROWS;
            kernel(out + j, rows, in, n_in, coef + j * stride, stride, begin, next, add);
        }
    }
}
