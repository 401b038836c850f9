"""Draws lines of words whose frequencies follow Zipf's law, about 50 bytes a line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

WORDS = 50_000
SKEW = 1.0
WORDS_MIN, WORDS_MAX = 6, 16
SYLLABLES = tuple(consonant + vowel for vowel in "aeiou" for consonant in "tnsrhldcmfpgwybvk")


def vocabulary() -> list[str]:
    """All words, the most frequent first; frequent ones are short, as in any language."""
    words = []
    for number in range(1, WORDS + 1):
        word = ""
        while number:
            number, syllable = divmod(number, len(SYLLABLES))
            word += SYLLABLES[syllable]
        words.append(word)
    return words


def generator(rng: np.random.Generator) -> Callable[[int], np.ndarray]:
    """A function that draws the given number of lines, as text padded with zero bytes."""
    words = vocabulary()
    inner, last = np.array([f"{word} ".encode() for word in words]), np.array([f"{word}\n".encode() for word in words])
    weights = np.cumsum(1 / np.arange(1, WORDS + 1) ** SKEW)
    weights /= weights[-1]

    def chunk(lines: int) -> np.ndarray:
        counts = rng.integers(WORDS_MIN, WORDS_MAX, lines, endpoint=True)
        drawn = np.searchsorted(weights, rng.random((lines, WORDS_MAX)))
        text = inner[drawn]
        rows = np.arange(lines)
        text[rows, counts - 1] = last[drawn[rows, counts - 1]]
        text[np.arange(WORDS_MAX) >= counts[:, None]] = b""
        return text

    return chunk
