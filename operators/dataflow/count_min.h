/* The loop of the count-min sketch over packets, and the set of flows that crossed a limit. */
#ifndef RIPRAP_COUNT_MIN_H
#define RIPRAP_COUNT_MIN_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SKETCH_ROWS = 4 };

/* Both numbers of a counter share a cache line: what is counted, and what the last backup holds. */
typedef struct {
    int64_t total, saved;
} sketch_counter;

/* Pair-multiply-shift: the upper half of (a + high)(b + low) + c is pairwise independent over 64-bit keys. */
typedef struct {
    uint64_t a, b, c;
} row_hash;

/* Keys in the order in which they came; the table holds 1 + the position of a key, 0 where it is empty. */
typedef struct {
    uint64_t *keys;
    uint32_t *table;
    size_t count, capacity; /* capacity: slots of the table, a power of two, at least twice the keys */
} flow_set;

typedef struct {
    const char *flows, *sizes;
    size_t stride;
} packet_columns;

/* Invariant: `list` holds the numbers of the counters whose total - saved exceeds `line`, each once; it has room for all.
 * Without a line, 0, it is not kept: nearly all counters would be in it. */
typedef struct {
    sketch_counter *counters; /* SKETCH_ROWS rows of `width` */
    uint32_t *list;
    size_t listed;
    int64_t line;
    row_hash hashes[SKETCH_ROWS];
    size_t width;
    int64_t limit;      /* a flow whose estimate exceeds it is kept in `kept` */
    int64_t divergence; /* the largest total - saved, or an upper bound of it */
    flow_set kept;
} count_min;

/* Where a flow's counter stands in a row of `width`; the upper bits scaled, as a modulo would cost more. */
static inline size_t sketch_column(const row_hash *hash, uint64_t flow, size_t width) {
    uint64_t mixed = (hash->a + (flow >> 32)) * (hash->b + (uint32_t)flow) + hash->c;
    return ((mixed >> 32) * width) >> 32;
}

static inline size_t flow_slot(const flow_set *set, uint64_t key) {
    size_t mask = set->capacity - 1, slot = (key * 0x9e3779b97f4a7c15ull >> 20) & mask;
    while (set->table[slot] && set->keys[set->table[slot] - 1] != key)
        slot = (slot + 1) & mask;
    return slot;
}

/* Doubles the room; 0, or -1 when there is no memory (the set is as it was). */
static inline int flow_set_grow(flow_set *set) {
    size_t capacity = set->capacity ? 2 * set->capacity : 64;
    uint64_t *keys = realloc(set->keys, capacity / 2 * sizeof *keys);
    if (!keys)
        return -1;
    set->keys = keys;
    uint32_t *table = calloc(capacity, sizeof *table);
    if (!table)
        return -1;
    free(set->table);
    set->table = table;
    set->capacity = capacity;
    for (size_t i = 0; i < set->count; i++)
        table[flow_slot(set, keys[i])] = (uint32_t)i + 1;
    return 0;
}

static inline int flow_set_add(flow_set *set, uint64_t key) {
    if (2 * set->count >= set->capacity && flow_set_grow(set))
        return -1;
    size_t slot = flow_slot(set, key);
    if (!set->table[slot]) {
        set->keys[set->count++] = key;
        set->table[slot] = (uint32_t)set->count;
    }
    return 0;
}

static inline void flow_set_clear(flow_set *set) {
    if (set->table)
        memset(set->table, 0, set->capacity * sizeof *set->table);
    set->count = 0;
}

static inline __attribute__((always_inline)) ptrdiff_t sketch_loop(count_min *sketch, packet_columns packets,
                                                                   size_t first, size_t stop, int64_t theta,
                                                                   int listing) {
    const size_t width = sketch->width;
    const int64_t limit = sketch->limit, line = sketch->line;
    int64_t divergence = sketch->divergence;
    size_t i = first;
    while (i < stop) {
        uint64_t flow;
        uint32_t size;
        memcpy(&flow, packets.flows + i * packets.stride, sizeof flow);
        memcpy(&size, packets.sizes + i * packets.stride, sizeof size);
        i++;
        int64_t estimate = INT64_MAX;
        for (size_t row = 0; row < SKETCH_ROWS; row++) {
            size_t number = row * width + sketch_column(&sketch->hashes[row], flow, width);
            sketch_counter *at = sketch->counters + number;
            int64_t total = at->total + size, since = total - at->saved;
            at->total = total;
            if (listing && (uint64_t)(since - line - 1) < size) /* it has just crossed the line */
                sketch->list[sketch->listed++] = (uint32_t)number;
            estimate = total < estimate ? total : estimate;
            divergence = since > divergence ? since : divergence;
        }
        if (estimate > limit && flow_set_add(&sketch->kept, flow)) {
            sketch->divergence = divergence;
            return -1;
        }
        if (divergence > theta)
            break;
    }
    sketch->divergence = divergence;
    return (ptrdiff_t)i;
}

/* Count packets first, first + 1, ...; the number of the first that is left, -1 when there is no memory. Stops behind
 * the packet that makes the divergence exceed theta. */
static inline ptrdiff_t sketch_add(count_min *sketch, packet_columns packets, size_t first, size_t stop,
                                   int64_t theta) {
    return sketch->line ? sketch_loop(sketch, packets, first, stop, theta, 1)
                        : sketch_loop(sketch, packets, first, stop, theta, 0);
}

/* Draw another line, at least 0, and list what is beyond it. */
static inline void sketch_draw(count_min *sketch, int64_t line) {
    size_t counters = line ? SKETCH_ROWS * sketch->width : 0, count = 0;
    for (size_t i = 0; i < counters; i++)
        if (sketch->counters[i].total - sketch->counters[i].saved > line)
            sketch->list[count++] = (uint32_t)i;
    sketch->listed = count;
    sketch->line = line;
}

/* The listed counters, whose changes are counted anew from here; the others differ by up to the line. */
static inline void sketch_take_listed(count_min *sketch, uint32_t *indexes, int64_t *totals) {
    for (size_t i = 0; i < sketch->listed; i++) {
        sketch_counter *at = sketch->counters + sketch->list[i];
        indexes[i] = sketch->list[i];
        totals[i] = at->saved = at->total;
    }
    sketch->listed = 0;
    sketch->divergence = sketch->divergence < sketch->line ? sketch->divergence : sketch->line;
}

/* The counters that changed (`full`: that are not 0) are put into indexes and totals, which have room for all; how many
 * there are. From here on changes are counted anew. */
static inline size_t sketch_take_all(count_min *sketch, int full, uint32_t *indexes, int64_t *totals) {
    size_t count = 0, counters = SKETCH_ROWS * sketch->width;
    for (size_t i = 0; i < counters; i++) {
        sketch_counter *at = sketch->counters + i;
        indexes[count] = (uint32_t)i;
        totals[count] = at->total;
        count += at->total != (full ? 0 : at->saved); /* no branch, as half of them would be guessed wrong */
        at->saved = at->total;
    }
    sketch->listed = 0;
    sketch->divergence = 0;
    return count;
}

#endif
