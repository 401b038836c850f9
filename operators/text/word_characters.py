"""Writes word_characters.h, the table of the characters of words, from the Unicode database of the Python that runs it.

python -m riprap.operators.text.word_characters > operators/text/word_characters.h

The table is kept, not made while building, so that all hosts split text alike, whatever Python they run.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import groupby

HEADING = """\
/* Which characters words consist of (Unicode {version}: letters, marks, numbers), and their lower case.
 *
 * Written by word_characters.py.
 */
#ifndef RIPRAP_WORD_CHARACTERS_H
#define RIPRAP_WORD_CHARACTERS_H

#include <stdint.h>
"""


def is_of_word(code: int) -> bool:
    """True when words consist of this character: a letter, a mark or a number."""
    return unicodedata.category(chr(code))[0] in "LMN"


def lower(code: int) -> int:
    """The character in lower case, one for one: Unicode's simple mapping."""
    return ord(chr(code).lower()[0])


def word_ranges() -> Iterator[tuple[int, int]]:
    """First and last of the characters of words beyond ASCII, in runs."""
    words = (code for code in range(0x80, sys.maxunicode + 1) if is_of_word(code))
    for _, run in groupby(enumerate(words), lambda pair: pair[1] - pair[0]):
        codes = [code for _, code in run]
        yield codes[0], codes[-1]


def lower_ranges() -> Iterator[tuple[int, int, int, int]]:
    """Runs of characters that have a lower case: first, last, their distance, and what is added to each."""
    run: list[int] = []
    for code in (code for code in range(0x80, sys.maxunicode + 1) if lower(code) != code):
        step = code - run[-1] if run else 0
        same = bool(run) and lower(code) - code == lower(run[0]) - run[0] and step <= 2
        if same and (len(run) == 1 or step == run[1] - run[0]):
            run.append(code)
            continue
        if run:
            yield _run_of(run)
        run = [code]
    yield _run_of(run)


def _run_of(codes: list[int]) -> tuple[int, int, int, int]:
    return codes[0], codes[-1], codes[1] - codes[0] if len(codes) > 1 else 1, lower(codes[0]) - codes[0]


def header() -> str:
    """The text of the header."""
    return "\n".join(
        [
            HEADING.format(version=unicodedata.unidata_version),
            "static const uint32_t WORD_RANGES[][2] = { /* first, last */",
            *_rows(word_ranges()),
            "};\n",
            "static const int32_t LOWER_RANGES[][4] = { /* first, last, step, what is added */",
            *_rows(lower_ranges()),
            "};\n",
            "#endif\n",
        ]
    )


def _rows(ranges: Iterable[tuple[int, ...]]) -> Iterator[str]:
    """Lines of several entries each."""
    entries = ["{" + ", ".join(map(str, one)) + "}" for one in ranges]
    for first in range(0, len(entries), 6):
        yield "    " + ", ".join(entries[first : first + 6]) + ","


if __name__ == "__main__":
    sys.stdout.write(header())
