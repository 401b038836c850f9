/* Words of a block of lines and how often each comes: found sixteen bytes at a time, counted in waves.
 *
 * Which bytes are of words is a bit mask of 64 of them, with breaks where lines begin; words begin and end where it
 * changes. Bytes beyond ASCII are decoded one character after the other. Words of up to 16 bytes are compared as two
 * numbers. The table's memory is prefetched for a wave of words.
 */
#ifndef RIPRAP_WORDS_H
#define RIPRAP_WORDS_H

#include "../dispatch.h"
#include "text.h"
#include "utf8_words.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { SEGMENT = 1024, MASK_BITS = 64, WAVE = 64, SHORT = 16 };

typedef struct {
    uint64_t letters[2]; /* the first 16 bytes, filled up with zeros */
    int64_t count;
    uint32_t at, length; /* where it stands in the arena */
} word_entry;

/* The words of a block in the order in which they came. A slot holds 32 bits of the hash and 1 + the number of an entry,
 * 0 where it is empty. */
typedef struct {
    word_entry *entries;
    uint32_t *hashes; /* of the entries */
    uint64_t *slots;
    uint8_t *arena, *lowered; /* the words; those of a wave that are beyond ASCII, in lower case */
    size_t count, capacity;   /* capacity: slots, a power of two, at least twice the entries */
    size_t used, room;        /* of the arena; `lowered` has as much room */
    uint64_t seed;
    int ascii; /* words are of letters of ASCII only, not of letters, marks and numbers of Unicode */
} word_table;

/* Words of a segment, as places in the bytes of the block. A word that goes on behind the segment has no end yet. */
typedef struct {
    uint32_t begins[SEGMENT + 1], ends[SEGMENT + 1];
    size_t begun, ended;
    uint64_t inside; /* 1 when the last byte was of a word */
    size_t decoded;  /* up to here the last character beyond ASCII goes, */
    int of_word;     /* and whether it is of a word */
    size_t next;     /* a line: the first that begins behind that character, or before */
} word_places;

/* Words as they are compared: in lower case, those of ASCII where they stand in the block. */
typedef struct {
    const uint8_t *bytes[WAVE];
    uint32_t lengths[WAVE];
    uint64_t letters[WAVE][2];
    uint32_t hashes[WAVE];
} word_wave;

/* Which of the next up to 64 bytes are letters (`ascii`) or letters and digits of ASCII, and which are beyond it. */
INLINE uint64_t ascii_mask(const uint8_t *bytes, size_t count, int ascii, uint64_t *beyond) {
    uint64_t mask = 0;
    *beyond = 0;
#if defined(__SSE2__)
    if (count == MASK_BITS) {
        for (size_t i = 0; i < MASK_BITS; i += 16) {
            __m128i some = _mm_loadu_si128((const __m128i *)(bytes + i)), lower = _mm_or_si128(some, _mm_set1_epi8(0x20));
            __m128i last_is_127 = _mm_add_epi8(lower, _mm_set1_epi8(127 - 'z')); /* what is above 'z' is below 0 */
            __m128i found = _mm_cmpgt_epi8(last_is_127, _mm_set1_epi8(127 - 26));
            if (!ascii) {
                __m128i nine_is_127 = _mm_add_epi8(some, _mm_set1_epi8(127 - '9'));
                found = _mm_or_si128(found, _mm_cmpgt_epi8(nine_is_127, _mm_set1_epi8(127 - 10)));
                *beyond |= (uint64_t)(uint32_t)_mm_movemask_epi8(some) << i;
            }
            mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(found) << i;
        }
        return mask;
    }
#endif
    for (size_t i = 0; i < count; i++) {
        int letter = (uint8_t)((bytes[i] | 0x20) - 'a') < 26, digit = (uint8_t)(bytes[i] - '0') < 10;
        mask |= (uint64_t)(letter || (digit && !ascii)) << i;
        *beyond |= (uint64_t)(bytes[i] >= 0x80 && !ascii) << i;
    }
    return mask;
}

/* Which of the bytes from `base` on that are beyond ASCII are of words. No character goes beyond its line. */
static inline uint64_t beyond_mask(word_places *places, text_lines lines, size_t base, uint64_t beyond) {
    uint64_t mask = 0;
    for (; beyond; beyond &= beyond - 1) {
        size_t at = base + (size_t)__builtin_ctzll(beyond);
        if (at >= places->decoded) {
            uint32_t code = 0;
            while ((size_t)lines.offsets[places->next] <= at)
                places->next++;
            size_t length = utf8_read(lines.bytes + at, (size_t)lines.offsets[places->next] - at, &code);
            places->of_word = length && is_of_word(code);
            places->decoded = at + (length ? length : 1);
        }
        mask |= places->of_word ? beyond & -beyond : 0;
    }
    return mask;
}

static inline void places_append(uint32_t *places, size_t *count, uint64_t mask, size_t base) {
    for (; mask; mask &= mask - 1)
        places[(*count)++] = (uint32_t)(base + (size_t)__builtin_ctzll(mask));
}

/* Find where words begin and end in bytes [from, to), which are at most a segment. `line`: the first that begins there. */
INLINE void find_words(word_places *places, text_lines lines, size_t from, size_t to, size_t *line, int ascii) {
    uint64_t breaks[SEGMENT / MASK_BITS] = {0};
    for (; *line <= lines.count && (size_t)lines.offsets[*line] < to; ++*line) {
        size_t at = (size_t)lines.offsets[*line] - from;
        breaks[at / MASK_BITS] |= UINT64_C(1) << at % MASK_BITS;
    }
    for (size_t base = from; base < to; base += MASK_BITS) {
        size_t count = to - base < MASK_BITS ? to - base : MASK_BITS;
        uint64_t beyond, letters = ascii_mask(lines.bytes + base, count, ascii, &beyond);
        uint64_t cut = breaks[(base - from) / MASK_BITS];
        if (beyond)
            letters |= beyond_mask(places, lines, base, beyond);
        uint64_t before = letters << 1 | places->inside;
        places_append(places->begins, &places->begun, letters & (~before | cut), base);
        places_append(places->ends, &places->ended, before & (~letters | cut), base);
        places->inside = letters >> (MASK_BITS - 1); /* of fewer bytes the end is noted already */
    }
}

/* The lowest `count` bytes of a number, 0 to 8 of them. */
static inline uint64_t low_bytes(size_t count) {
    return count >= 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * count) - 1;
}

/* The first bytes of a word, of which `available` may be read; which of them are the word's is in `masks`. */
static inline void word_letters(const uint8_t *bytes, size_t length, size_t available, uint64_t letters[2],
                                uint64_t masks[2]) {
    uint64_t both[2] = {0, 0};
    if (available >= SHORT)
        memcpy(both, bytes, SHORT);
    else
        memcpy(both, bytes, available);
    masks[0] = low_bytes(length);
    masks[1] = low_bytes(length > 8 ? length - 8 : 0);
    letters[0] = both[0] & masks[0];
    letters[1] = both[1] & masks[1];
}

/* Whether a word of these first letters is of ASCII. */
static inline int is_ascii(const uint8_t *bytes, size_t length, const uint64_t letters[2]) {
    uint64_t all = letters[0] | letters[1];
    for (size_t i = SHORT; i < length; i++)
        all |= bytes[i];
    return !(all & UINT64_C(0x8080808080808080));
}

static inline uint64_t hash_letters(uint64_t hash, uint64_t letters) {
    hash = (hash ^ letters) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 32;
}

/* Of a word in lower case; the finalizer's multiplication moves all bits into the upper half. */
static inline uint32_t hash_word(const uint8_t *bytes, size_t length, const uint64_t letters[2], uint64_t seed) {
    uint64_t hash = hash_letters(hash_letters(seed + length, letters[0]), letters[1]);
    for (size_t i = SHORT; i < length; i++)
        hash = hash_letters(hash, lower_byte(bytes[i]));
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
        to[i] = lower_byte(bytes[i]);
    size_t number = table->count++;
    table->entries[number] = (word_entry){{letters[0], letters[1]}, 1, (uint32_t)table->used, (uint32_t)length};
    table->hashes[number] = hash;
    table->slots[slot] = (uint64_t)hash << 32 | table->count;
    table->used += length;
}

/* Whether the rest of a word is that of an entry of the same length and beginning. */
static inline int same_rest(const word_table *table, const word_entry *entry, const uint8_t *bytes) {
    for (size_t i = SHORT; i < entry->length; i++)
        if (table->arena[entry->at + i] != lower_byte(bytes[i]))
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

/* A word of a wave that is beyond ASCII, in lower case; how many bytes of `lowered` are taken then. */
static __attribute__((noinline)) size_t wave_lower(word_table *table, word_wave *wave, size_t i, size_t lowered) {
    uint64_t masks[2];
    uint8_t *to = table->lowered + lowered;
    size_t length = utf8_lower(wave->bytes[i], wave->lengths[i], to);
    word_letters(to, length, length, wave->letters[i], masks);
    wave->bytes[i] = to;
    wave->lengths[i] = (uint32_t)length;
    return lowered + length;
}

/* One word of a wave. Bytes of ASCII are put into lower case where they are compared: a digit has that bit too. */
static inline size_t wave_take(word_table *table, word_wave *wave, size_t i, text_lines lines, uint32_t begin,
                               uint32_t end, size_t lowered) {
    uint64_t masks[2], *letters = wave->letters[i];
    wave->bytes[i] = lines.bytes + begin;
    wave->lengths[i] = end - begin;
    word_letters(wave->bytes[i], end - begin, lines.size - begin, letters, masks);
    if (__builtin_expect(is_ascii(wave->bytes[i], end - begin, letters), 1)) {
        letters[0] |= masks[0] & UINT64_C(0x2020202020202020);
        letters[1] |= masks[1] & UINT64_C(0x2020202020202020);
    } else {
        lowered = wave_lower(table, wave, i, lowered);
    }
    wave->hashes[i] = hash_word(wave->bytes[i], wave->lengths[i], letters, table->seed);
    return lowered;
}

/* Count up to a wave of words that begin and end at these places; -1 when there is no memory. */
static inline int count_wave(word_table *table, text_lines lines, const uint32_t *begins, const uint32_t *ends, size_t n) {
    word_wave wave;
    size_t lowered = 0;
    while (2 * (table->count + WAVE) > table->capacity)
        if (words_grow(table))
            return -1;
    for (size_t i = 0; i < n; i++) {
        lowered = wave_take(table, &wave, i, lines, begins[i], ends[i], lowered);
        __builtin_prefetch(table->slots + (wave.hashes[i] & (table->capacity - 1)));
    }
    for (size_t i = 0; i < n; i++)
        word_count(table, wave.bytes[i], wave.lengths[i], wave.letters[i], wave.hashes[i]);
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

/* Room for all words of a block; -1 when there is no memory. */
static inline int words_reserve(word_table *table, size_t bytes) {
    size_t room = bytes + bytes / 2 + 1; /* in lower case they may be half as long again */
    if (table->room >= room)
        return 0;
    free(table->arena);
    free(table->lowered);
    table->arena = malloc(room);
    table->lowered = malloc(room);
    table->room = table->arena && table->lowered ? room : 0;
    return table->room ? 0 : -1;
}

/* Count the words of lines [first, count), in lower case. -1 when there is no memory. */
static inline int count_words(word_table *table, text_lines lines, size_t first) {
    size_t line = first < lines.count ? first : lines.count;
    size_t at = (size_t)lines.offsets[line], end = (size_t)lines.offsets[lines.count];
    word_places places = {.begun = 0, .next = line};
    if (words_reserve(table, end - at))
        return -1;
    for (; at < end; at += SEGMENT) {
        size_t to = end - at < SEGMENT ? end : at + SEGMENT;
        if (table->ascii)
            find_words(&places, lines, at, to, &line, 1);
        else
            find_words(&places, lines, at, to, &line, 0);
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

/* The bytes of all words. */
static inline size_t words_bytes(const word_table *table) {
    size_t bytes = 0;
    for (size_t i = 0; i < table->count; i++)
        bytes += table->entries[i].length;
    return bytes;
}

/* All words: their bytes, the bounds of each, and their counts. */
static inline void words_take(const word_table *table, uint8_t *bytes, int64_t *offsets, int64_t *counts) {
    int64_t length = *offsets = 0;
    for (size_t i = 0; i < table->count; i++) {
        const word_entry *entry = table->entries + i;
        memcpy(bytes + length, table->arena + entry->at, entry->length);
        *++offsets = length += entry->length;
        *counts++ = entry->count;
    }
}

#endif
