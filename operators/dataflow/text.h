/* Words, their counts and matching lines in blocks of lines: bytes without line ends, and n + 1 offsets. */
#ifndef RIPRAP_TEXT_H
#define RIPRAP_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *memmem(const void *haystack, size_t haystack_bytes, const void *needle, size_t needle_bytes);

typedef struct {
    const uint8_t *bytes;
    const int64_t *offsets;
    size_t size, count; /* bytes and lines */
} text_lines;

typedef struct {
    uint64_t hash;
    uint32_t at, length; /* where it stands in the arena */
    int64_t count;
} word_entry;

/* The words of a block in the order in which they came; a slot holds 1 + the number of an entry, 0 where it is empty. */
typedef struct {
    word_entry *entries;
    uint32_t *slots;
    uint8_t *arena;
    size_t count, capacity; /* capacity: slots, a power of two, at least twice the entries */
    size_t used, room;      /* of the arena */
    uint64_t seed;
} word_table;

static inline int lines_are_sound(text_lines lines) {
    int wrong = lines.offsets[0] < 0 || (uint64_t)lines.offsets[lines.count] > lines.size;
    for (size_t i = 0; i < lines.count; i++)
        wrong |= lines.offsets[i] > lines.offsets[i + 1];
    return !wrong;
}

/* Eight bytes a step; the last step sees zeros behind the end. Reads nothing behind the end. */
static inline uint64_t hash_bytes(const uint8_t *bytes, size_t length, uint64_t seed) {
    uint64_t hash = seed ^ (length * 0x9e3779b97f4a7c15ull), word;
    size_t i = 0;
    for (; i + 8 <= length; i += 8) {
        memcpy(&word, bytes + i, 8);
        hash = (hash ^ word) * 0xbf58476d1ce4e5b9ull;
        hash ^= hash >> 32;
    }
    word = 0;
    for (size_t shift = 0; i < length; i++, shift += 8)
        word |= (uint64_t)bytes[i] << shift;
    hash = (hash ^ word) * 0x94d049bb133111ebull;
    hash ^= hash >> 29;
    hash *= 0xbf58476d1ce4e5b9ull;
    return hash ^ hash >> 32;
}

/* Doubles the room for words; -1 when there is no memory. */
static inline int words_grow(word_table *table) {
    size_t capacity = table->capacity ? 2 * table->capacity : 4096;
    word_entry *entries = realloc(table->entries, capacity / 2 * sizeof *entries);
    if (!entries)
        return -1;
    table->entries = entries;
    uint32_t *slots = calloc(capacity, sizeof *slots);
    if (!slots)
        return -1;
    free(table->slots);
    table->slots = slots;
    table->capacity = capacity;
    for (size_t i = 0; i < table->count; i++) {
        size_t slot = entries[i].hash & (capacity - 1);
        while (slots[slot])
            slot = (slot + 1) & (capacity - 1);
        slots[slot] = (uint32_t)i + 1;
    }
    return 0;
}

/* Count the word that stands at the arena's end. */
static inline int word_count(word_table *table, size_t length) {
    if (2 * table->count >= table->capacity && words_grow(table))
        return -1;
    const uint8_t *word = table->arena + table->used;
    uint64_t hash = hash_bytes(word, length, table->seed);
    size_t mask = table->capacity - 1, slot = hash & mask;
    for (uint32_t found; (found = table->slots[slot]); slot = (slot + 1) & mask) {
        word_entry *entry = table->entries + found - 1;
        if (entry->hash == hash && entry->length == length && !memcmp(table->arena + entry->at, word, length)) {
            entry->count++;
            return 0;
        }
    }
    table->entries[table->count++] = (word_entry){hash, (uint32_t)table->used, (uint32_t)length, 1};
    table->slots[slot] = (uint32_t)table->count;
    table->used += length;
    return 0;
}

/* The letter in lower case; 0 for what is no letter. */
static inline uint8_t letter(uint8_t byte) {
    uint8_t lower = byte | 0x20;
    return (uint8_t)(lower - 'a') < 26 ? lower : 0;
}

/* Count the words of lines [first, count): runs of letters of ASCII, in lower case. -1 when there is no memory. */
static inline int count_words(word_table *table, text_lines lines, size_t first) {
    size_t bytes = first < lines.count ? (size_t)(lines.offsets[lines.count] - lines.offsets[first]) : 0;
    if (table->room < bytes) {
        free(table->arena);
        table->room = 0;
        table->arena = malloc(bytes);
        if (!table->arena)
            return -1;
        table->room = bytes;
    }
    for (size_t line = first; line < lines.count; line++) {
        const uint8_t *at = lines.bytes + lines.offsets[line], *end = lines.bytes + lines.offsets[line + 1];
        while (at < end) {
            uint8_t *word = table->arena + table->used, lower;
            size_t length = 0;
            while (at < end && (lower = letter(*at++)))
                word[length++] = lower;
            if (length && word_count(table, length))
                return -1;
        }
    }
    return 0;
}

static inline void words_clear(word_table *table) {
    if (table->slots)
        memset(table->slots, 0, table->capacity * sizeof *table->slots);
    table->count = table->used = 0;
}

/* Which of `tasks` gets a word. */
static inline size_t word_task(const word_entry *entry, size_t tasks) {
    return ((entry->hash >> 32) * tasks) >> 32;
}

/* How many of the words go to a task, and how many bytes they have. */
static inline void words_measure(const word_table *table, size_t task, size_t tasks, size_t *words, size_t *bytes) {
    for (size_t i = 0; i < table->count; i++)
        if (word_task(table->entries + i, tasks) == task) {
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
        if (word_task(entry, tasks) != task)
            continue;
        memcpy(bytes + length, table->arena + entry->at, entry->length);
        *++offsets = length += entry->length;
        *counts++ = entry->count;
    }
}

/* The bounds of the chosen lines when they stand one after the other; the place of the first that is none, else `count`. */
static inline size_t measure_lines(text_lines lines, const int64_t *numbers, size_t count, int64_t *ends) {
    ends[0] = 0;
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] < 0 || (uint64_t)numbers[i] >= lines.count)
            return i;
        ends[i + 1] = ends[i] + lines.offsets[numbers[i] + 1] - lines.offsets[numbers[i]];
    }
    return count;
}

static inline void copy_lines(text_lines lines, const int64_t *numbers, size_t count, const int64_t *ends, uint8_t *to) {
    for (size_t i = 0; i < count; i++)
        memcpy(to + ends[i], lines.bytes + lines.offsets[numbers[i]], (size_t)(ends[i + 1] - ends[i]));
}

/* Numbers of the lines from `first` on that contain the needle, into `found` (room for all); how many. */
static inline size_t find_lines(text_lines lines, size_t first, const uint8_t *needle, size_t length, int64_t *found) {
    const uint8_t *from = lines.bytes + lines.offsets[first], *end = lines.bytes + lines.offsets[lines.count], *hit;
    size_t count = 0, line = first;
    while (line < lines.count && (hit = memmem(from, (size_t)(end - from), needle, length))) {
        while (lines.bytes + lines.offsets[line + 1] <= hit)
            line++;
        const uint8_t *stop = lines.bytes + lines.offsets[line + 1];
        if (hit + length <= stop) {
            found[count++] = (int64_t)line++;
            from = stop;
        } else { /* it begins in this line and ends in another */
            from = hit + 1;
        }
    }
    return count;
}

#endif
