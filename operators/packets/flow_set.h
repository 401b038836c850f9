/* A set of flows, in the order in which they came, each with the number of the packet that brought it. */
#ifndef RIPRAP_FLOW_SET_H
#define RIPRAP_FLOW_SET_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The table holds 1 + the position of a key, 0 where it is empty. */
typedef struct {
    uint64_t *keys;
    size_t *packets; /* numbers of packets in the block that they came with */
    uint32_t *table;
    size_t count, capacity; /* capacity: slots of the table, a power of two, at least twice the keys */
} flow_set;

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
    size_t *packets = realloc(set->packets, capacity / 2 * sizeof *packets);
    if (!packets)
        return -1;
    set->packets = packets;
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

static inline int flow_set_add(flow_set *set, uint64_t key, size_t packet) {
    if (2 * set->count >= set->capacity && flow_set_grow(set))
        return -1;
    size_t slot = flow_slot(set, key);
    if (!set->table[slot]) {
        set->packets[set->count] = packet;
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

#endif
