/* UTF-8: which characters belong to words, and words in lower case. Bytes that are not valid UTF-8 belong to none. */
#ifndef RIPRAP_UTF8_WORDS_H
#define RIPRAP_UTF8_WORDS_H

#include <stddef.h>
#include <string.h>

#include "word_characters.h"

enum { CODES = 0x110000, CASED = 0x20000, UTF8_BYTES_MAX = 4 };

#define LENGTH_OF(array) (sizeof(array) / sizeof *(array))

/* Filled once, when the module is imported, and only read from then on. */
static uint8_t word_bits[CODES / 8];
static int32_t lower_added[CASED]; /* what is added to a character for its lower case */

static void fill_word_characters(void) {
    for (size_t i = 0; i < LENGTH_OF(WORD_RANGES); i++)
        for (uint32_t code = WORD_RANGES[i][0]; code <= WORD_RANGES[i][1]; code++)
            word_bits[code / 8] |= (uint8_t)(1u << code % 8);
    for (size_t i = 0; i < LENGTH_OF(LOWER_RANGES); i++)
        for (int32_t code = LOWER_RANGES[i][0]; code <= LOWER_RANGES[i][1]; code += LOWER_RANGES[i][2])
            lower_added[code] = LOWER_RANGES[i][3];
}

static inline int is_of_word(uint32_t code) {
    return word_bits[code / 8] >> code % 8 & 1;
}

/* A character beyond ASCII from up to `available` bytes: its length, 0 where they are not valid UTF-8 (RFC 3629: none
 * longer than needed, no surrogates, nothing beyond U+10FFFF). */
static inline size_t utf8_read(const uint8_t *bytes, size_t available, uint32_t *code) {
    static const uint32_t LEAST[UTF8_BYTES_MAX + 1] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = bytes[0] < 0xC2 ? 0 : bytes[0] < 0xE0 ? 2 : bytes[0] < 0xF0 ? 3 : bytes[0] < 0xF5 ? 4 : 0;
    if (!length || length > available)
        return 0;
    uint32_t found = bytes[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xC0) != 0x80)
            return 0;
        found = found << 6 | (bytes[i] & 0x3F);
    }
    if (found < LEAST[length] || found >= CODES || (found & 0xFFFFF800) == 0xD800)
        return 0;
    *code = found;
    return length;
}

/* Returns how many bytes were written, up to four. */
static inline size_t utf8_write(uint8_t *to, uint32_t code) {
    if (code < 0x80) {
        to[0] = (uint8_t)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length; --i; code >>= 6)
        to[i] = (uint8_t)(0x80 | (code & 0x3F));
    to[0] = (uint8_t)(0xF0u << (4 - length) | code);
    return length;
}

/* The letter of ASCII in lower case; any other byte as it is. */
static inline uint8_t lower_byte(uint8_t byte) {
    return (uint8_t)(byte - 'A') < 26 ? byte | 0x20 : byte;
}

/* A word of valid UTF-8 in lower case, character by character; how many bytes it has then. They may be half as many
 * again: two bytes become three (U+023A). */
static inline size_t utf8_lower(const uint8_t *bytes, size_t length, uint8_t *to) {
    size_t written = 0;
    for (size_t i = 0; i < length;) {
        uint32_t code = 0;
        if (bytes[i] < 0x80) {
            to[written++] = lower_byte(bytes[i++]);
            continue;
        }
        i += utf8_read(bytes + i, length - i, &code);
        written += utf8_write(to + written, code < CASED ? code + (uint32_t)lower_added[code] : code);
    }
    return written;
}

#endif
