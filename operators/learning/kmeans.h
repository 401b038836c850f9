/* Nearest centres over a block of items: sums and counts per centre, and the inertia, in one pass over memory. */
#ifndef RIPRAP_KMEANS_H
#define RIPRAP_KMEANS_H

#include "lanes.h"

/* Index of the nearest centre for up to CHUNK rows; the lowest index wins a tie.
 * |x - c|^2 = |x|^2 - 2 (x.c - |c|^2 / 2): the nearest centre has the largest bracket, whose constant is in `offsets`. */
INLINE void nearest(const char *items, size_t rows, size_t columns, size_t k, const v4d *centres, const double *offsets,
                    int64_t *index)
{
    double score[CHUNK], best[CHUNK];
    size_t groups = groups_of(columns);
    dot_rows(items, rows, columns, centres, offsets[0], best);
    memset(index, 0, rows * sizeof *index);
    for (size_t c = 1; c < k; c++) {
        dot_rows(items, rows, columns, centres + c * groups, offsets[c], score);
        for (size_t r = 0; r < rows; r++) {
            int closer = score[r] > best[r];
            best[r] = closer ? score[r] : best[r];
            index[r] = closer ? (int64_t)c : index[r];
        }
    }
}

/* Squared distance of a row from a centre over the lanes in `mask` (1.0 or 0.0), the row added to `sums`. */
INLINE double add_to_centre(const char *row, size_t columns, const v4d *centre, const v4d *mask, v4d *sums)
{
    v4d distance = {0};
    for (size_t g = 0; g < groups_of(columns); g++) {
        v4d x = load4(row + group_start(g, columns) * sizeof(double));
        v4d apart = (x - centre[g]) * mask[g];
        sums[g] += x;
        distance += apart * apart;
    }
    return sum4(distance);
}

/* centres, sums: k runs of groups_of(columns) vectors; sums and counts[k] are added to. Returns the inertia. */
DISPATCH static double kmeans_assign(const char *items, size_t rows, size_t columns, size_t k, const v4d *centres,
                                     const double *offsets, const v4d *mask, v4d *sums, double *counts)
{
    size_t groups = groups_of(columns), stride = columns * sizeof(double);
    int64_t index[CHUNK];
    double inertia = 0.0;
    for (size_t start = 0; start < rows; start += CHUNK) {
        size_t n = rows - start < CHUNK ? rows - start : CHUNK;
        const char *chunk = items + start * stride;
        double part = 0.0;
        nearest(chunk, n, columns, k, centres, offsets, index);
        for (size_t r = 0; r < n; r++) {
            size_t c = (size_t)index[r];
            part += add_to_centre(chunk + r * stride, columns, centres + c * groups, mask, sums + c * groups);
            counts[c] += 1.0;
        }
        inertia += part;
    }
    return inertia;
}

#endif
