/* Words of a block of lines and how often each comes: found sixteen bytes at a time, counted in waves.
 *
 * Whether bytes are letters is a bit mask of 64 of them, with breaks where lines begin; words begin and end where it
 * changes. Words of up to 16 letters are compared as two numbers. The table's memory is prefetched for a wave of words.
 */
#ifndef RIPRAP_WORDS_H
#define RIPRAP_WORDS_H

#include "text.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { SEGMENT = 1024, MASK_BITS = 64, WAVE = 64, SHORT = 16 };

typedef struct {
    uint64_t letters[2]; /* the first 16, filled up with zeros */
    int64_t count;
    uint32_t at, length; /* where it stands in the arena */
} word_entry;

/* The words of a block in the order in which they came. A slot holds 32 bits of the hash and 1 + the number of an entry,
 * 0 where it is empty. */
typedef struct {
    word_entry *entries;
    uint32_t *hashes; /* of the entries; they also choose the task */
    uint64_t *slots;
    uint8_t *arena;
    size_t count, capacity; /* capacity: slots, a power of two, at least twice the entries */
    size_t used, room;      /* of the arena */
    uint64_t seed;
} word_table;

/* Words of a segment, as places in the bytes of the block. A word that goes on behind the segment has no end yet. */
typedef struct {
    uint32_t begins[SEGMENT + 1], ends[SEGMENT + 1];
    size_t begun, ended;
    uint64_t inside; /* 1 when the last byte was a letter */
} word_places;

typedef struct {
    uint64_t letters[WAVE][2];
    uint32_t hashes[WAVE];
} word_wave;

/* The letter in lower case; 0 for what is no letter. */
static inline uint8_t letter(uint8_t byte) {
    uint8_t lower = byte | 0x20;
    return (uint8_t)(lower - 'a') < 26 ? lower : 0;
}

/* Which of the next up to 64 bytes are letters of ASCII. */
static inline uint64_t letter_mask(const uint8_t *bytes, size_t count) {
    uint64_t mask = 0;
#if defined(__SSE2__)
    if (count == MASK_BITS) {
        for (size_t i = 0; i < MASK_BITS; i += 16) {
            __m128i lower = _mm_or_si128(_mm_loadu_si128((const __m128i *)(bytes + i)), _mm_set1_epi8(0x20));
            __m128i last_is_127 = _mm_add_epi8(lower, _mm_set1_epi8(127 - 'z')); /* what is above 'z' is below 0 */
            __m128i letters = _mm_cmpgt_epi8(last_is_127, _mm_set1_epi8(127 - 26));
            mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(letters) << i;
        }
        return mask;
    }
#endif
    for (size_t i = 0; i < count; i++)
        mask |= (uint64_t)(letter(bytes[i]) != 0) << i;
    return mask;
}

static inline void places_append(uint32_t *places, size_t *count, uint64_t mask, size_t base) {
    for (; mask; mask &= mask - 1)
        places[(*count)++] = (uint32_t)(base + (size_t)__builtin_ctzll(mask));
}

/* Find where words begin and end in bytes [from, to), which are at most a segment. `line`: the first that begins there. */
static inline void find_words(word_places *places, text_lines lines, size_t from, size_t to, size_t *line) {
    uint64_t breaks[SEGMENT / MASK_BITS] = {0};
    for (; *line <= lines.count && (size_t)lines.offsets[*line] < to; ++*line) {
        size_t at = (size_t)lines.offsets[*line] - from;
        breaks[at / MASK_BITS] |= UINT64_C(1) << at % MASK_BITS;
    }
    for (size_t base = from; base < to; base += MASK_BITS) {
        size_t count = to - base < MASK_BITS ? to - base : MASK_BITS;
        uint64_t letters = letter_mask(lines.bytes + base, count), cut = breaks[(base - from) / MASK_BITS];
        uint64_t before = letters << 1 | places->inside;
        places_append(places->begins, &places->begun, letters & (~before | cut), base);
        places_append(places->ends, &places->ended, before & (~letters | cut), base);
        places->inside = letters >> (MASK_BITS - 1); /* of fewer bytes the end is noted already */
    }
}

/* The lowest `count` bytes of a number, 0 to 8 of them; the others become 0. */
static inline uint64_t low_bytes(uint64_t number, size_t count) {
    return count >= 8 ? number : number & ((UINT64_C(1) << 8 * count) - 1);
}

/* The first letters of a word in lower case. `available` bytes may be read. */
static inline void word_letters(const uint8_t *bytes, size_t length, size_t available, uint64_t letters[2]) {
    uint64_t both[2] = {0, 0};
    if (available >= SHORT)
        memcpy(both, bytes, SHORT);
    else
        memcpy(both, bytes, available);
    letters[0] = low_bytes(both[0] | UINT64_C(0x2020202020202020), length);
    letters[1] = low_bytes(both[1] | UINT64_C(0x2020202020202020), length > 8 ? length - 8 : 0);
}

static inline uint64_t hash_letters(uint64_t hash, uint64_t letters) {
    hash = (hash ^ letters) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 32;
}

/* Of the letters in lower case; the finalizer's multiplication moves all bits into the upper half. */
static inline uint32_t hash_word(const uint8_t *bytes, size_t length, const uint64_t letters[2], uint64_t seed) {
    uint64_t hash = hash_letters(hash_letters(seed + length, letters[0]), letters[1]);
    for (size_t i = SHORT; i < length; i++)
        hash = hash_letters(hash, letter(bytes[i]));
    return (uint32_t)((hash * 0xbf58476d1ce4e5b9ull) >> 32);
}

/* Twice the room for words; -1 when there is no memory. */
static inline int words_grow(word_table *table) {
    size_t capacity = table->capacity ? 2 * table->capacity : 4096;
    word_entry *entries = realloc(table->entries, capacity / 2 * sizeof *entries);
    if (entries)
        table->entries = entries;
    uint32_t *hashes = realloc(table->hashes, capacity / 2 * sizeof *hashes);
    if (hashes)
        table->hashes = hashes;
    uint64_t *slots = calloc(capacity, sizeof *slots);
    if (!entries || !hashes || !slots) {
        free(slots);
        return -1;
    }
    free(table->slots);
    table->slots = slots;
    table->capacity = capacity;
    for (size_t i = 0; i < table->count; i++) {
        size_t slot = hashes[i] & (capacity - 1);
        while (slots[slot])
            slot = (slot + 1) & (capacity - 1);
        slots[slot] = (uint64_t)hashes[i] << 32 | (i + 1);
    }
    return 0;
}

static inline void word_insert(word_table *table, size_t slot, const uint8_t *bytes, size_t length,
                               const uint64_t letters[2], uint32_t hash) {
    uint8_t *to = table->arena + table->used;
    for (size_t i = 0; i < length; i++)
        to[i] = letter(bytes[i]);
    size_t number = table->count++;
    table->entries[number] = (word_entry){{letters[0], letters[1]}, 1, (uint32_t)table->used, (uint32_t)length};
    table->hashes[number] = hash;
    table->slots[slot] = (uint64_t)hash << 32 | table->count;
    table->used += length;
}

/* Whether the rest of a word is that of an entry of the same length and beginning. */
static inline int same_rest(const word_table *table, const word_entry *entry, const uint8_t *bytes) {
    for (size_t i = SHORT; i < entry->length; i++)
        if (table->arena[entry->at + i] != letter(bytes[i]))
            return 0;
    return 1;
}

/* Count a word; there is room for it. */
static inline void word_count(word_table *table, const uint8_t *bytes, size_t length, const uint64_t letters[2],
                              uint32_t hash) {
    size_t mask = table->capacity - 1, slot = hash & mask;
    for (uint64_t found; (found = table->slots[slot]); slot = (slot + 1) & mask) {
        word_entry *entry = table->entries + (uint32_t)found - 1;
        if (found >> 32 == hash && entry->letters[0] == letters[0] && entry->letters[1] == letters[1] &&
            entry->length == length && (length <= SHORT || same_rest(table, entry, bytes))) {
            entry->count++;
            return;
        }
    }
    word_insert(table, slot, bytes, length, letters, hash);
}

/* Count up to a wave of words that begin and end at these places; -1 when there is no memory. */
static inline int count_wave(word_table *table, text_lines lines, const uint32_t *begins, const uint32_t *ends, size_t n) {
    word_wave wave;
    while (2 * (table->count + WAVE) > table->capacity)
        if (words_grow(table))
            return -1;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *word = lines.bytes + begins[i];
        word_letters(word, ends[i] - begins[i], lines.size - begins[i], wave.letters[i]);
        wave.hashes[i] = hash_word(word, ends[i] - begins[i], wave.letters[i], table->seed);
        __builtin_prefetch(table->slots + (wave.hashes[i] & (table->capacity - 1)));
    }
    for (size_t i = 0; i < n; i++)
        word_count(table, lines.bytes + begins[i], ends[i] - begins[i], wave.letters[i], wave.hashes[i]);
    return 0;
}

/* Count the words that have ended, and leave the one that has not. */
static inline int count_places(word_table *table, text_lines lines, word_places *places) {
    for (size_t i = 0; i < places->ended; i += WAVE) {
        size_t n = places->ended - i < WAVE ? places->ended - i : WAVE;
        if (count_wave(table, lines, places->begins + i, places->ends + i, n))
            return -1;
    }
    places->begins[0] = places->begins[places->ended]; /* if there is one */
    places->begun -= places->ended;
    places->ended = 0;
    return 0;
}

/* Room for all letters of a block; -1 when there is no memory. */
static inline int words_reserve(word_table *table, size_t bytes) {
    if (table->room >= bytes)
        return 0;
    free(table->arena);
    table->arena = malloc(bytes);
    table->room = table->arena ? bytes : 0;
    return table->arena ? 0 : -1;
}

/* Count the words of lines [first, count): runs of letters of ASCII, in lower case. -1 when there is no memory. */
static inline int count_words(word_table *table, text_lines lines, size_t first) {
    size_t line = first < lines.count ? first : lines.count;
    size_t at = (size_t)lines.offsets[line], end = (size_t)lines.offsets[lines.count];
    word_places places = {.begun = 0};
    if (words_reserve(table, end - at))
        return -1;
    for (; at < end; at += SEGMENT) {
        find_words(&places, lines, at, end - at < SEGMENT ? end : at + SEGMENT, &line);
        if (count_places(table, lines, &places))
            return -1;
    }
    if (places.inside) {
        places.ends[places.ended++] = (uint32_t)end;
        return count_places(table, lines, &places);
    }
    return 0;
}

static inline void words_clear(word_table *table) {
    if (table->slots)
        memset(table->slots, 0, table->capacity * sizeof *table->slots);
    table->count = table->used = 0;
}

/* Which of `tasks` gets a word. */
static inline size_t word_task(const word_table *table, size_t number, size_t tasks) {
    return (table->hashes[number] * (uint64_t)tasks) >> 32;
}

/* How many of the words go to a task, and how many bytes they have. */
static inline void words_measure(const word_table *table, size_t task, size_t tasks, size_t *words, size_t *bytes) {
    for (size_t i = 0; i < table->count; i++)
        if (word_task(table, i, tasks) == task) {
            ++*words;
            *bytes += table->entries[i].length;
        }
}

/* These words: their bytes, the bounds of each, and their counts. */
static inline void words_take(const word_table *table, size_t task, size_t tasks, uint8_t *bytes, int64_t *offsets,
                              int64_t *counts) {
    int64_t length = *offsets = 0;
    for (size_t i = 0; i < table->count; i++) {
        const word_entry *entry = table->entries + i;
        if (word_task(table, i, tasks) != task)
            continue;
        memcpy(bytes + length, table->arena + entry->at, entry->length);
        *++offsets = length += entry->length;
        *counts++ = entry->count;
    }
}

#endif
