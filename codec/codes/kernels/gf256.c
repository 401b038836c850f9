/* Compiles the GF(2^8) kernel for each level, and walks arrays in strips that stay in the first-level cache. */
#include "gf256.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "level.h"

/* Rows of coefficients per pass over a strip: 4 rows x 2 registers of sums fit the 16 registers of AVX2 beside the
 * input and the tables. */
#define ROWS 4
#define STRIP_BYTES (16 * 1024)
#define STRIP_BYTES_MIN 1024

/* Rows of one pass. `sum_first`: all coefficients of the first row are 1, so it needs no products. */
typedef void strip_kernel(uint8_t *const *out, int n_out, int sum_first, const uint8_t *const *in, int n_in,
                          const struct riprap_gf256_coef *coef, ptrdiff_t stride, size_t begin, size_t end, int add);

uint8_t riprap_gf256_product(uint8_t a, uint8_t b)
{
    unsigned product = 0;
    for (unsigned shifted = a; b; b >>= 1, shifted <<= 1) {
        if (shifted & 0x100)
            shifted ^= RIPRAP_GF256_POLYNOMIAL;
        if (b & 1)
            product ^= shifted;
    }
    return (uint8_t)product;
}

void riprap_gf256_unfold(struct riprap_gf256_coef *coef, uint8_t value)
{
    for (unsigned nibble = 0; nibble < 16; nibble++) {
        coef->low[nibble] = riprap_gf256_product(value, (uint8_t)nibble);
        coef->high[nibble] = riprap_gf256_product(value, (uint8_t)(nibble << 4));
    }
}

static void strip_baseline(uint8_t *const *out, int n_out, int sum_first, const uint8_t *const *in, int n_in,
                           const struct riprap_gf256_coef *coef, ptrdiff_t stride, size_t begin, size_t end, int add)
{
    for (int j = 0; j < n_out; j++) {
        if (!add)
            memset(out[j] + begin, 0, end - begin);
        for (int i = 0; i < n_in; i++) {
            const struct riprap_gf256_coef *c = coef + j * stride + i;
            const uint8_t *source = in[i];
            uint8_t *target = out[j];
            if (j == 0 && sum_first)
                for (size_t x = begin; x < end; x++)
                    target[x] ^= source[x];
            else
                for (size_t x = begin; x < end; x++)
                    target[x] ^= c->low[source[x] & 15] ^ c->high[source[x] >> 4];
        }
    }
}

#if defined(__x86_64__)
#define NAME(x) x##_ssse3
#define TARGET __attribute__((target("ssse3")))
#define VEC __m128i
#define LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define STORE(p, v) _mm_storeu_si128((__m128i *)(p), v)
#define TABLE(p) LOAD(p)
#define NIBBLE _mm_set1_epi8(15)
#define AND _mm_and_si128
#define XOR _mm_xor_si128
#define HIGH(v) _mm_srli_epi64(v, 4)
#define LOOKUP _mm_shuffle_epi8
#include "gf256_body.h"

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2")))
#define VEC __m256i
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define TABLE(p) _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(p)))
#define NIBBLE _mm256_set1_epi8(15)
#define AND _mm256_and_si256
#define XOR _mm256_xor_si256
#define HIGH(v) _mm256_srli_epi64(v, 4)
#define LOOKUP _mm256_shuffle_epi8
#include "gf256_body.h"

#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw")))
#define VEC __m512i
#define LOAD(p) _mm512_loadu_si512(p)
#define STORE(p, v) _mm512_storeu_si512(p, v)
#define TABLE(p) _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(p)))
#define NIBBLE _mm512_set1_epi8(15)
#define AND _mm512_and_si512
#define XOR _mm512_xor_si512
#define HIGH(v) _mm512_srli_epi64(v, 4)
#define LOOKUP _mm512_shuffle_epi8
#include "gf256_body.h"
#endif

static strip_kernel *choose(void)
{
    switch (riprap_level()) {
#if defined(__x86_64__)
    case RIPRAP_AVX512: return strip_avx512;
    case RIPRAP_AVX2: return strip_avx2;
    case RIPRAP_SSSE3: return strip_ssse3;
#endif
    default: return strip_baseline;
    }
}

static int all_ones(const struct riprap_gf256_coef *row, int n_in)
{
    for (int i = 0; i < n_in; i++)
        if (row[i].low[1] != 1)
            return 0;
    return 1;
}

/* How many rows from `row` on the next pass takes: of several, only the first may be all ones. */
static int pass_rows(const struct riprap_gf256_coef *row, int n_in, ptrdiff_t stride, int left)
{
    int rows = 1;
    while (rows < ROWS && rows < left && !all_ones(row + rows * stride, n_in))
        rows++;
    return rows;
}

void riprap_gf256_combine(uint8_t *const *out, int n_out, const uint8_t *const *in, int n_in,
                          const struct riprap_gf256_coef *coef, ptrdiff_t stride, size_t begin, size_t end, int add)
{
    strip_kernel *kernel = choose();
    size_t length = STRIP_BYTES / (size_t)n_in / 64 * 64;
    length = length < STRIP_BYTES_MIN ? STRIP_BYTES_MIN : length;
    if (n_out && pass_rows(coef, n_in, stride, n_out) == n_out)
        length = end - begin;
    for (size_t next; begin < end; begin = next) {
        next = end - begin < length ? end : begin + length;
        for (int j = 0, rows; j < n_out; j += rows) {
            const struct riprap_gf256_coef *row = coef + j * stride;
            rows = pass_rows(row, n_in, stride, n_out - j);
            kernel(out + j, rows, all_ones(row, n_in), in, n_in, row, stride, begin, next, add);
        }
    }
}
