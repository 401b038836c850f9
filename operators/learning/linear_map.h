/* Items times a matrix of weights: the linear part of predictions, many models in one pass over the items.
 *
 * Each entry is summed over the columns from first to last, whatever the number of rows and models: its bits depend on
 * the item and the model alone. Tiles of rows and groups of models are held in registers.
 */
#ifndef RIPRAP_LINEAR_MAP_H
#define RIPRAP_LINEAR_MAP_H

#include "lanes.h"

#define TILE_ROWS 4
#define TILE_GROUPS 3 /* times TILE_ROWS, and a row of weights beside: the sixteen registers of AVX2 */

/* Writes a group of models to a row of `models` doubles, as far as the row goes. */
INLINE void store_group(char *row, size_t group, size_t models, v4d values)
{
    size_t first = group * LANES;
    if (first + LANES <= models)
        *(v4d_anywhere *)(row + first * sizeof(double)) = (v4d_anywhere)values;
    else
        for (size_t lane = 0; first + lane < models; lane++)
            memcpy(row + (first + lane) * sizeof(double), (char *)&values + lane * sizeof(double), sizeof(double));
}

/* out[rows, groups first .. first + n) for n <= TILE_GROUPS groups and rows <= TILE_ROWS; both constants where called. */
INLINE void map_tile(const char *items, size_t rows, size_t columns, const v4d *weights, size_t groups, size_t first,
                     size_t n, size_t models, char *out)
{
    v4d sums[TILE_ROWS][TILE_GROUPS] = {{{0}}};
    for (size_t c = 0; c < columns; c++)
        for (size_t r = 0; r < rows; r++) {
            v4d value = all4(load1(items + (r * columns + c) * sizeof(double)));
            for (size_t g = 0; g < n; g++)
                sums[r][g] += value * weights[c * groups + first + g];
        }
    for (size_t r = 0; r < rows; r++)
        for (size_t g = 0; g < n; g++)
            store_group(out + r * models * sizeof(double), first + g, models, sums[r][g]);
}

INLINE void map_rows(const char *items, size_t rows, size_t columns, const v4d *weights, size_t groups, size_t models,
                     char *out)
{
    size_t g = 0;
    for (; g + TILE_GROUPS <= groups; g += TILE_GROUPS)
        map_tile(items, rows, columns, weights, groups, g, TILE_GROUPS, models, out);
    if (groups - g == 2)
        map_tile(items, rows, columns, weights, groups, g, 2, models, out);
    else if (groups - g == 1)
        map_tile(items, rows, columns, weights, groups, g, 1, models, out);
}

/* out (rows, models), at any address. weights: per column its weights in all models, groups of four, padded with zeros. */
DISPATCH static void linear_map_rows(const char *items, size_t rows, size_t columns, const v4d *weights, size_t models,
                                     char *out)
{
    size_t groups = groups_of(models), stride = columns * sizeof(double), r = 0;
    for (; r + TILE_ROWS <= rows; r += TILE_ROWS)
        map_rows(items + r * stride, TILE_ROWS, columns, weights, groups, models, out + r * models * sizeof(double));
    for (; r < rows; r++)
        map_rows(items + r * stride, 1, columns, weights, groups, models, out + r * models * sizeof(double));
}

#endif
