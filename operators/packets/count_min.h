/* The loop of the count-min sketch over packets, and how far the counters are from those of the last backup.
 *
 * Packets are worked on in batches: their columns first, eight at a time where the CPU has AVX2, then the counters, packet
 * by packet, while the packets of the batch after the next are fetched.
 */
#ifndef RIPRAP_COUNT_MIN_H
#define RIPRAP_COUNT_MIN_H

#include "../dispatch.h"
#include "flow_set.h"

enum { SKETCH_ROWS = 4, BATCH = 64 };

/* Pair-multiply-shift: the upper half of (a + high)(b + low) + c is pairwise independent over 64-bit keys. */
typedef struct {
    uint64_t a, b, c;
} row_hash;

typedef struct {
    const char *flows, *sizes;
    size_t stride;
} packet_columns;

typedef struct {
    uint64_t flows[BATCH];
    uint32_t sizes[BATCH], numbers[SKETCH_ROWS][BATCH]; /* numbers: of the packets' counters */
    size_t count;
} packet_batch;

/* Invariant, unless `behind`: `list` holds the numbers of the counters whose total - saved exceeds `line`, each once; it
 * has room for all. Without a line, 0, it is not kept: nearly all counters would be in it. */
typedef struct {
    int64_t *totals, *saved; /* SKETCH_ROWS rows of `width`: what is counted, and what the last backup holds */
    uint32_t *list;
    size_t listed;
    int64_t line;
    row_hash hashes[SKETCH_ROWS];
    size_t width;
    int64_t limit;      /* a flow whose estimate exceeds it is kept in `kept` */
    int64_t divergence; /* the largest total - saved, or an upper bound of it; not so while `behind` */
    int behind;         /* packets were counted without a threshold: list and divergence have to be looked up */
    flow_set kept;
} count_min;

/* Where a flow's counter stands in a row of `width`; the upper bits scaled, as a modulo would cost more. */
INLINE size_t sketch_column(const row_hash *hash, uint64_t flow, size_t width) {
    uint64_t mixed = (hash->a + (flow >> 32)) * (hash->b + (uint32_t)flow) + hash->c;
    return ((mixed >> 32) * width) >> 32;
}

/* Read the next packets up to `stop`; where their counters are. Hashes of a whole batch, as its length is known then. */
INLINE void batch_read(packet_batch *batch, const count_min *sketch, packet_columns packets, size_t first, size_t stop) {
    const size_t width = sketch->width;
    batch->count = stop - first < BATCH ? stop - first : BATCH;
    for (size_t i = 0; i < batch->count; i++) {
        memcpy(&batch->flows[i], packets.flows + (first + i) * packets.stride, sizeof *batch->flows);
        memcpy(&batch->sizes[i], packets.sizes + (first + i) * packets.stride, sizeof *batch->sizes);
    }
    for (size_t row = 0; row < SKETCH_ROWS; row++) {
        const row_hash hash = sketch->hashes[row];
        for (size_t i = 0; i < BATCH; i++)
            batch->numbers[row][i] = (uint32_t)(row * width + sketch_column(&hash, batch->flows[i], width));
    }
}

/* Add to a counter; `tracked`: note how far it is from the last backup. Returns the new total. */
INLINE int64_t sketch_count(count_min *sketch, uint32_t number, uint32_t size, int64_t *divergence, int tracked,
                            int listing) {
    int64_t total = sketch->totals[number] += size;
    if (tracked) {
        int64_t since = total - sketch->saved[number];
        if (listing && (uint64_t)(since - sketch->line - 1) < size) /* it has just crossed the line */
            sketch->list[sketch->listed++] = number;
        *divergence = since > *divergence ? since : *divergence;
    }
    return total;
}

/* Count the packets of a batch, the first of which is packet `first`; how many were counted, -1 when there is no memory. `ahead` is fetched meanwhile. */
INLINE ptrdiff_t batch_count(count_min *sketch, const packet_batch *batch, size_t first, int64_t theta,
                             const char *ahead, size_t stride, int tracked, int listing) {
    const int64_t limit = sketch->limit;
    int64_t divergence = sketch->divergence;
    size_t i = 0;
    while (i < batch->count) {
        int64_t estimate = INT64_MAX;
        __builtin_prefetch(ahead + i * stride);
        for (size_t row = 0; row < SKETCH_ROWS; row++) {
            uint32_t number = batch->numbers[row][i];
            int64_t total = sketch_count(sketch, number, batch->sizes[i], &divergence, tracked, listing);
            estimate = total < estimate ? total : estimate;
        }
        if (estimate > limit && flow_set_add(&sketch->kept, batch->flows[i], first + i))
            return -1;
        i++;
        if (tracked && divergence > theta)
            break;
    }
    sketch->divergence = divergence;
    return (ptrdiff_t)i;
}

INLINE ptrdiff_t sketch_loop(count_min *sketch, packet_columns packets, size_t first, size_t stop, int64_t theta,
                             int tracked, int listing) {
    packet_batch batch = {0};
    while (first < stop) {
        batch_read(&batch, sketch, packets, first, stop);
        const char *ahead = packets.flows + (first + 2 * BATCH) * packets.stride; /* beyond the end it is ignored */
        ptrdiff_t counted = batch_count(sketch, &batch, first, theta, ahead, packets.stride, tracked, listing);
        if (counted < 0)
            return -1;
        first += (size_t)counted;
        if (tracked && sketch->divergence > theta)
            break;
    }
    return (ptrdiff_t)first;
}

/* List what is beyond the line, and find the divergence, by a look at all counters. */
static inline void sketch_look(count_min *sketch) {
    int64_t divergence = 0;
    sketch->listed = 0;
    for (size_t i = 0; i < SKETCH_ROWS * sketch->width; i++) {
        int64_t since = sketch->totals[i] - sketch->saved[i];
        divergence = since > divergence ? since : divergence;
        if (sketch->line && since > sketch->line)
            sketch->list[sketch->listed++] = (uint32_t)i;
    }
    sketch->divergence = divergence;
    sketch->behind = 0;
}

/* Count packets first, first + 1, ...; the number of the first that is left, -1 when there is no memory. Stops behind
 * the packet that makes the divergence exceed theta; nothing exceeds INT64_MAX, and nothing is noted then. */
DISPATCH static ptrdiff_t sketch_add(count_min *sketch, packet_columns packets, size_t first, size_t stop,
                                     int64_t theta) {
    if (theta == INT64_MAX) {
        sketch->behind = 1;
        return sketch_loop(sketch, packets, first, stop, theta, 0, 0);
    }
    if (sketch->behind)
        sketch_look(sketch);
    return sketch->line ? sketch_loop(sketch, packets, first, stop, theta, 1, 1)
                        : sketch_loop(sketch, packets, first, stop, theta, 1, 0);
}

/* Draw another line, at least 0. */
static inline void sketch_draw(count_min *sketch, int64_t line) {
    sketch->line = line;
    sketch_look(sketch);
}

/* The listed counters, whose changes are counted anew from here; the others differ by up to the line. */
static inline void sketch_take_listed(count_min *sketch, uint32_t *indexes, int64_t *totals) {
    for (size_t i = 0; i < sketch->listed; i++) {
        uint32_t number = indexes[i] = sketch->list[i];
        totals[i] = sketch->saved[number] = sketch->totals[number];
    }
    sketch->listed = 0;
    sketch->divergence = sketch->divergence < sketch->line ? sketch->divergence : sketch->line;
}

/* The counters that changed (`full`: that are not 0) are put into indexes and totals, which have room for all; how many
 * there are. From here on changes are counted anew. */
static inline size_t sketch_take_all(count_min *sketch, int full, uint32_t *indexes, int64_t *totals) {
    size_t count = 0;
    for (size_t i = 0; i < SKETCH_ROWS * sketch->width; i++) {
        indexes[count] = (uint32_t)i;
        totals[count] = sketch->totals[i];
        count += sketch->totals[i] != (full ? 0 : sketch->saved[i]); /* no branch: half would be guessed wrong */
        sketch->saved[i] = sketch->totals[i];
    }
    sketch->listed = 0;
    sketch->divergence = 0;
    sketch->behind = 0;
    return count;
}

#endif
