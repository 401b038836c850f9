/* Keys in the order in which they came, found by a hash table.
 *
 * The table has open addressing and a power of two of slots, at most half of them taken. A slot holds 32 bits of the hash
 * and the key's index + 1, 0 when it is empty; the upper bits of the 32 are also the slot where the search starts, so that
 * the table grows without a look at the keys. Batches are worked on in waves: the memory that the items of a wave need is
 * prefetched, so that a table beyond the caches waits for many lines at a time.
 */
#ifndef RIPRAP_KEYS_H
#define RIPRAP_KEYS_H

#include "entries.h"

#define WAVE 64
#define BEGINNING 16 /* bytes of a key that are compared as two words; the arena is that much longer than its room */

enum { DONE, EXCEEDED, NO_ROOM, MALFORMED };

/* Key i is integers[i], or when `packed` the bytes from offsets[i] to offsets[i + 1]. */
typedef struct {
    uint64_t *slots;
    int64_t *integers, *offsets;
    uint8_t *bytes;
    uint64_t seed;
    int64_t count, room, bytes_room; /* room: for how many keys, and bytes of keys */
    int64_t bytes_wanted;            /* room that the wave that found none would need */
    int bits, packed;
} Keys;

/* Keys handed in, laid out in the same way; `size` is the number of bytes there are. */
typedef struct {
    const int64_t *integers, *offsets;
    const uint8_t *bytes;
    int64_t size;
} Batch;

/* The items of a wave: hash and slot where the search stands. */
typedef struct {
    int64_t first, count;
    uint32_t tags[WAVE];
    uint64_t spots[WAVE];
} Wave;

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014, with Stafford's constants): every bit moves every other. */
INLINE uint64_t mix(uint64_t bits)
{
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

/* The first `length` bytes of a word, 0 to 8 of them; the others become 0. */
INLINE uint64_t low_bytes(uint64_t word, int64_t length)
{
    return length >= 8 ? word : length <= 0 ? 0 : word & ((UINT64_C(1) << (8 * length)) - 1);
}

/* The first 16 bytes of a key, filled up with zeros, without branches on its length: lengths of words are not foreseeable.
 * `available` bytes may be read. */
INLINE void beginning(const uint8_t *bytes, int64_t length, int64_t available, uint64_t words[2])
{
    if (available >= BEGINNING)
        memcpy(words, bytes, BEGINNING);
    else {
        words[0] = words[1] = 0;
        memcpy(words, bytes, (size_t)available);
    }
    words[0] = low_bytes(words[0], length);
    words[1] = low_bytes(words[1], length - 8);
}

INLINE uint64_t hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 32);
}

INLINE uint64_t hash_bytes(const uint8_t *bytes, int64_t length, int64_t available, uint64_t seed)
{
    uint64_t words[2], word;
    beginning(bytes, length, available, words);
    uint64_t hash = hash_word(hash_word(seed + (uint64_t)length, words[0]), words[1]);
    for (int64_t at = BEGINNING; at < length; at += 8) {
        word = 0;
        memcpy(&word, bytes + at, length - at < 8 ? (size_t)(length - at) : 8);
        hash = hash_word(hash, word);
    }
    return mix(hash);
}

INLINE uint64_t home(const Keys *keys, uint32_t tag) { return tag >> (32 - keys->bits); }
INLINE uint64_t next_spot(const Keys *keys, uint64_t spot) { return (spot + 1) & ((UINT64_C(1) << keys->bits) - 1); }
INLINE int64_t index_in(uint64_t slot) { return (int64_t)(uint32_t)slot - 1; }

INLINE int well_formed(const Batch *batch, int64_t i)
{
    return batch->offsets[i] >= 0 && batch->offsets[i] <= batch->offsets[i + 1] && batch->offsets[i + 1] <= batch->size;
}

INLINE int same_key(const Keys *keys, int64_t index, const Batch *batch, int64_t i, int packed)
{
    if (!packed)
        return keys->integers[index] == batch->integers[i];
    int64_t start = batch->offsets[i], length = batch->offsets[i + 1] - start;
    const uint8_t *ours = keys->bytes + keys->offsets[index], *theirs = batch->bytes + start;
    uint64_t a[2], b[2];
    if (keys->offsets[index + 1] - keys->offsets[index] != length)
        return 0;
    beginning(ours, length, BEGINNING, a);
    beginning(theirs, length, batch->size - start, b);
    return a[0] == b[0] && a[1] == b[1] &&
           (length <= BEGINNING || !memcmp(ours + BEGINNING, theirs + BEGINNING, (size_t)(length - BEGINNING)));
}

INLINE uint64_t hash_key(const Batch *batch, int64_t i, uint64_t seed, int packed)
{
    if (!packed)
        return mix((uint64_t)batch->integers[i] + seed);
    int64_t start = batch->offsets[i];
    return hash_bytes(batch->bytes + start, batch->offsets[i + 1] - start, batch->size - start, seed);
}

/* Hash up to WAVE items from `first` on; fewer where one is malformed. */
INLINE void wave_hash(Wave *wave, const Keys *keys, const Batch *batch, int64_t first, int64_t n, int packed)
{
    int64_t most = n - first < WAVE ? n - first : WAVE, i;
    for (i = 0; i < most; i++) {
        if (packed && !well_formed(batch, first + i))
            break;
        uint64_t hash = hash_key(batch, first + i, keys->seed, packed);
        wave->tags[i] = (uint32_t)(hash >> 32);
        wave->spots[i] = home(keys, wave->tags[i]);
        PREFETCH(&keys->slots[wave->spots[i]]);
    }
    wave->first = first;
    wave->count = i;
}

/* Go on to the first slot with the same hash or none, and fetch what its key will need. */
INLINE void wave_probe(Wave *wave, const Keys *keys, const Entries *entries, int packed)
{
    for (int64_t i = 0; i < wave->count; i++) {
        uint64_t spot = wave->spots[i];
        while (keys->slots[spot] && keys->slots[spot] >> 32 != wave->tags[i])
            spot = next_spot(keys, spot);
        wave->spots[i] = spot;
        int64_t index = index_in(keys->slots[spot]);
        if (index < 0)
            continue;
        PREFETCH(packed ? &keys->offsets[index] : &keys->integers[index]);
        if (entries)
            entries_prefetch(entries, index);
    }
    for (int64_t i = 0; packed && i < wave->count; i++)
        if (keys->slots[wave->spots[i]])
            PREFETCH(keys->bytes + keys->offsets[index_in(keys->slots[wave->spots[i]])]);
}

/* The index of the wave's item i, or -1: then its spot is the empty slot where it belongs. */
INLINE int64_t wave_find(Wave *wave, const Keys *keys, const Batch *batch, int64_t i, int packed)
{
    uint64_t spot = wave->spots[i], slot;
    while ((slot = keys->slots[spot])) {
        if (slot >> 32 == wave->tags[i] && same_key(keys, index_in(slot), batch, wave->first + i, packed))
            return index_in(slot);
        spot = next_spot(keys, spot);
    }
    wave->spots[i] = spot;
    return -1;
}

INLINE int64_t wave_insert(const Wave *wave, Keys *keys, const Batch *batch, int64_t i, int packed)
{
    int64_t index = keys->count++, item = wave->first + i;
    keys->slots[wave->spots[i]] = (uint64_t)wave->tags[i] << 32 | (uint32_t)keys->count;
    if (packed) {
        int64_t length = batch->offsets[item + 1] - batch->offsets[item];
        memcpy(keys->bytes + keys->offsets[index], batch->bytes + batch->offsets[item], (size_t)length);
        keys->offsets[index + 1] = keys->offsets[index] + length;
    } else
        keys->integers[index] = batch->integers[item];
    return index;
}

/* Whether all of a wave would find room, were they new. */
INLINE int has_room(const Wave *wave, Keys *keys, const Batch *batch, int packed)
{
    if (packed) {
        keys->bytes_wanted = keys->offsets[keys->count];
        for (int64_t i = wave->first; i < wave->first + wave->count; i++)
            keys->bytes_wanted += batch->offsets[i + 1] - batch->offsets[i];
        if (keys->bytes_wanted > keys->bytes_room)
            return 0;
    }
    return keys->count + wave->count <= keys->room;
}

/* Prepare the next wave: DONE when it may be worked on, else why not. */
INLINE int wave_next(Wave *wave, Keys *keys, const Entries *entries, const Batch *batch, int64_t first, int64_t n,
                     int packed)
{
    wave_hash(wave, keys, batch, first, n, packed);
    if (!wave->count)
        return MALFORMED;
    if (!has_room(wave, keys, batch, packed))
        return NO_ROOM;
    wave_probe(wave, keys, entries, packed);
    return DONE;
}

INLINE int map_loop(Keys *keys, Entries *all, const Batch *batch, const Cell *amounts, int64_t n, int64_t *done,
                    double theta, int assign, int integer, int kind, int packed)
{
    Entries entries = *all;
    Wave wave;
    int64_t i;
    int why = DONE;
    while (why == DONE && *done < n && (why = wave_next(&wave, keys, &entries, batch, *done, n, packed)) == DONE) {
        for (i = 0; i < wave.count && why == DONE; i++) {
            int64_t at = wave_find(&wave, keys, batch, i, packed);
            if (at < 0) {
                at = wave_insert(&wave, keys, batch, i, packed);
                entries.values[at].integer = entries.saved[at].integer = 0; /* which is 0.0 too */
                entries.changed[at] = 0;
                entries.count = keys->count;
            }
            entries_put(&entries, at, updated(entries.values[at], amounts[*done + i], assign, integer), kind, integer);
            if (entries_divergence(&entries, kind) > theta)
                why = EXCEEDED;
        }
        *done += i;
    }
    *all = entries;
    return why;
}

/* Update entries by their keys from item *done on; *done counts the items applied. */
static int map_update(Keys *keys, Entries *entries, const Batch *batch, const Cell *amounts, int64_t n, int64_t *done,
                      double theta, int assign, int integer, int kind)
{
#define LOOP(kind, packed) map_loop(keys, entries, batch, amounts, n, done, theta, assign, integer, kind, packed)
    switch (kind) {
    case MANHATTAN: return keys->packed ? LOOP(MANHATTAN, 1) : LOOP(MANHATTAN, 0);
    case EUCLIDEAN: return keys->packed ? LOOP(EUCLIDEAN, 1) : LOOP(EUCLIDEAN, 0);
    case MAXIMUM: return keys->packed ? LOOP(MAXIMUM, 1) : LOOP(MAXIMUM, 0);
    default: return keys->packed ? LOOP(CARDINALITY, 1) : LOOP(CARDINALITY, 0);
    }
#undef LOOP
}

INLINE int take_loop(Keys *keys, Entries *entries, const Batch *batch, const Cell *values, int64_t n, int64_t *done,
                     int packed)
{
    Wave wave;
    int why = DONE;
    while (*done < n && (why = wave_next(&wave, keys, entries, batch, *done, n, packed)) == DONE) {
        for (int64_t i = 0; i < wave.count; i++) {
            int64_t at = wave_find(&wave, keys, batch, i, packed);
            if (at < 0) {
                at = wave_insert(&wave, keys, batch, i, packed);
                entries->changed[at] = 0;
            }
            entries->values[at] = entries->saved[at] = values[*done + i];
        }
        entries->count = entries->counted = keys->count;
        *done += wave.count;
    }
    return why;
}

/* Set entries that nothing has changed since they were saved to what was saved later, from item *done on; *done counts the
 * items taken. */
static int map_take(Keys *keys, Entries *entries, const Batch *batch, const Cell *values, int64_t n, int64_t *done)
{
    return keys->packed ? take_loop(keys, entries, batch, values, n, done, 1)
                        : take_loop(keys, entries, batch, values, n, done, 0);
}

INLINE int add_loop(Keys *keys, const Batch *batch, int64_t n, int64_t *done, int64_t counted, double theta, int packed)
{
    Wave wave;
    int64_t i;
    int why = DONE;
    while (why == DONE && *done < n && (why = wave_next(&wave, keys, NULL, batch, *done, n, packed)) == DONE) {
        for (i = 0; i < wave.count && why == DONE; i++) {
            if (wave_find(&wave, keys, batch, i, packed) < 0)
                wave_insert(&wave, keys, batch, i, packed);
            if ((double)(keys->count - counted) > theta)
                why = EXCEEDED;
        }
        *done += i;
    }
    return why;
}

/* Add keys from item *done on, until there are more than theta beyond `counted`. */
static int keys_add(Keys *keys, const Batch *batch, int64_t n, int64_t *done, int64_t counted, double theta)
{
    return keys->packed ? add_loop(keys, batch, n, done, counted, theta, 1)
                        : add_loop(keys, batch, n, done, counted, theta, 0);
}

INLINE int find_loop(const Keys *keys, const Batch *batch, int64_t n, int64_t *indexes, int packed)
{
    Wave wave;
    for (int64_t done = 0; done < n; done += wave.count) {
        wave_hash(&wave, keys, batch, done, n, packed);
        if (!wave.count)
            return MALFORMED;
        wave_probe(&wave, keys, NULL, packed);
        for (int64_t i = 0; i < wave.count; i++)
            indexes[done + i] = wave_find(&wave, keys, batch, i, packed);
    }
    return DONE;
}

/* The index of each key, -1 where it is not there. */
static int keys_find(const Keys *keys, const Batch *batch, int64_t n, int64_t *indexes)
{
    return keys->packed ? find_loop(keys, batch, n, indexes, 1) : find_loop(keys, batch, n, indexes, 0);
}

/* The bytes of some keys one after the other, the i-th at offsets[i]. */
static void keys_gather(const Keys *keys, const int64_t *indexes, int64_t n, uint8_t *bytes, const int64_t *offsets)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(bytes + offsets[i], keys->bytes + keys->offsets[indexes[i]], (size_t)(offsets[i + 1] - offsets[i]));
}

/* Move the slots of `old` to the empty, larger ones of `keys`. */
static void keys_rehash(const Keys *keys, const uint64_t *old, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (!old[i])
            continue;
        uint64_t spot = home(keys, (uint32_t)(old[i] >> 32));
        while (keys->slots[spot])
            spot = next_spot(keys, spot);
        keys->slots[spot] = old[i];
    }
}

#endif
