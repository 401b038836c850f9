/* Lines, their hashes and those that match, in blocks of lines: bytes without line ends, and n + 1 offsets. */
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
