/* Linear combinations of arrays of doubles: the one kernel that encodes and decodes the real-number codes. */
#ifndef RIPRAP_REAL_H
#define RIPRAP_REAL_H

#include <stddef.h>

/* out[j][x] = sum over i of coef[j * stride + i] * in[i][x] for begin <= x < end, or out[j][x] += that sum if `add` is set.
 *
 * Products are rounded, then added in the order of i, beginning with out[j][x] if `add` is set: so all levels give the
 * same bits, and combining in[0..a) then adding in[a..b) gives the same bits as combining in[0..b) at once.
 * No pointer needs an alignment. The outputs overlap neither each other nor an input. n_in >= 1.
 */
void riprap_real_combine(double *const *out, int n_out, const double *const *in, int n_in, const double *coef,
                         ptrdiff_t stride, size_t begin, size_t end, int add);

#endif
