/* Four doubles at a time, in an order of operations that is the same on every host.
 *
 * All arithmetic is written out in lanes: the compiler may use AVX2 or pairs of SSE2 registers for it, the bits are the
 * same (products and sums are never contracted, see setup.py). Loads make no demand on alignment: the payload of a
 * network message starts where it starts. A row of `columns` >= 4 doubles is read as groups of four; the last group
 * is shifted left so as to end with the row, and the lanes that it shares with the group before carry weight 0.
 */
#ifndef RIPRAP_LANES_H
#define RIPRAP_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../dispatch.h"

#define LANES 4
#define CHUNK 64 /* rows that are worked on together; they stay in the first-level cache up to 60 columns */

typedef double v4d __attribute__((vector_size(32)));
typedef int64_t v4i __attribute__((vector_size(32)));
typedef double v4d_anywhere __attribute__((vector_size(32), aligned(1), may_alias));

INLINE v4d load4(const char *from) { return (v4d)(*(const v4d_anywhere *)from); }

INLINE double load1(const char *from)
{
    double value;
    memcpy(&value, from, sizeof value);
    return value;
}

INLINE v4d all4(double value) { return (v4d){value, value, value, value}; }
INLINE v4d choose4(v4i mask, v4d yes, v4d no) { return (v4d)(((v4i)yes & mask) | ((v4i)no & ~mask)); }
INLINE v4d where4(v4i mask, v4d value) { return (v4d)((v4i)value & mask); }
INLINE double sum4(v4d v) { return (v[0] + v[1]) + (v[2] + v[3]); }

INLINE size_t groups_of(size_t columns) { return (columns + LANES - 1) / LANES; }

/* First column of a group. */
INLINE size_t group_start(size_t group, size_t columns)
{
    size_t start = group * LANES;
    return start + LANES <= columns ? start : columns - LANES;
}

/* First lane of a group that the group before does not hold already. */
INLINE size_t group_skip(size_t group, size_t columns) { return group * LANES - group_start(group, columns); }

/* Spread a row vector over groups, zeros in the shared lanes. */
INLINE void to_groups(const double *row, size_t columns, v4d *out)
{
    for (size_t g = 0; g < groups_of(columns); g++) {
        size_t start = group_start(g, columns), skip = group_skip(g, columns);
        for (size_t lane = 0; lane < LANES; lane++)
            out[g][lane] = lane < skip ? 0.0 : row[start + lane];
    }
}

/* The other way round; shared lanes are left out. */
INLINE void from_groups(const v4d *groups, size_t columns, double *row)
{
    for (size_t g = 0; g < groups_of(columns); g++)
        for (size_t lane = group_skip(g, columns); lane < LANES; lane++)
            row[group_start(g, columns) + lane] = groups[g][lane];
}

/* Dot products of up to CHUNK rows with grouped weights, plus a constant. out has room for CHUNK. */
INLINE void dot_rows(const char *items, size_t rows, size_t columns, const v4d *weights, double constant, double *out)
{
    size_t groups = groups_of(columns), stride = columns * sizeof(double), r = 0;
    size_t last = group_start(groups - 1, columns) * sizeof(double);
    for (; r + 4 <= rows; r += 4) {
        const char *a = items + r * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        v4d sa = {0}, sb = {0}, sc = {0}, sd = {0};
        for (size_t g = 0; g < groups; g++) {
            size_t at = g + 1 < groups ? g * sizeof(v4d) : last;
            v4d w = weights[g];
            sa += load4(a + at) * w;
            sb += load4(b + at) * w;
            sc += load4(c + at) * w;
            sd += load4(d + at) * w;
        }
        /* Transposed, this is sum4 of each. */
        v4d ab = __builtin_shuffle(sa, sb, (v4i){0, 4, 2, 6}) + __builtin_shuffle(sa, sb, (v4i){1, 5, 3, 7});
        v4d cd = __builtin_shuffle(sc, sd, (v4i){0, 4, 2, 6}) + __builtin_shuffle(sc, sd, (v4i){1, 5, 3, 7});
        v4d sums = __builtin_shuffle(ab, cd, (v4i){0, 1, 4, 5}) + __builtin_shuffle(ab, cd, (v4i){2, 3, 6, 7});
        *(v4d_anywhere *)(out + r) = (v4d_anywhere)(sums + all4(constant));
    }
    for (; r < rows; r++) {
        const char *a = items + r * stride;
        v4d sa = {0};
        for (size_t g = 0; g < groups; g++)
            sa += load4(a + (g + 1 < groups ? g * sizeof(v4d) : last)) * weights[g];
        out[r] = sum4(sa) + constant;
    }
}

/* e to the x for x <= 0, within 2 units of the last place; below -708 as at -708; NaN stays NaN.
 * x = n ln 2 + r with |r| <= (ln 2) / 2, a Taylor polynomial of degree 13 for e^r, and 2^n through the exponent bits. The
 * polynomial's odd and even powers are summed side by side: one chain of all would be waited for. */
INLINE v4d exp_nonpositive(v4d x)
{
    const v4d to_integer = all4(6755399441055744.0); /* 1.5 * 2^52: adding it rounds to an integer in the low bits */
    x = choose4(x < -708.0, all4(-708.0), x);
    v4d shifted = x * 1.4426950408889634 + to_integer;
    v4d n = shifted - to_integer;
    v4d r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33; /* ln 2 in two parts; the first times n is exact */
    static const double inverse_factorial[] = {
        1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
        1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0,
    };
    v4d square = r * r, odd = all4(inverse_factorial[0]), even = all4(inverse_factorial[1]);
    for (size_t i = 2; i < sizeof inverse_factorial / sizeof *inverse_factorial; i += 2) {
        odd = odd * square + inverse_factorial[i];
        even = even * square + inverse_factorial[i + 1];
    }
    v4d power = odd * r + even;
    return (v4d)((v4i)power + ((v4i)shifted << 52));
}

#endif
