"""Words of any script against plain Python: random text, damaged UTF-8, and the table of characters."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError
from riprap.operators.text import word_characters
from riprap.operators.text.text import WordTable
from riprap.operators.text.word_count import SplitWords
from tests.unit.operators.plain_words import ascii_words_in, words_in

Split = Callable[[bytes], list[bytes]]
SPLIT: dict[bool, Split] = {False: words_in, True: ascii_words_in}
SCRIPTS = (
    "aZ09_'- \u00df\u00e9\u00c9\u0301\u0130\u03a3\u03c2\u0416\u0436\u05d0\u0939\u093f\u4e2d\u023a"
    "\u212a\u1e9e\u00b2\u00bd\u2019\u200d\U0001f600\U00010400\U00010428\U0001d504"
)
"""Letters of one to four bytes, marks, numbers; some that grow or shrink in lower case; some that are none of it."""


def words_of(lines: list[bytes], ascii: bool = False, seed: int = 0) -> list[tuple[bytes, int]]:
    """The words and their counts."""
    ends = np.cumsum([0, *map(len, lines)], dtype=np.int64)
    data, offsets, counts = WordTable(seed, ascii).split(np.frombuffer(b"".join(lines), np.uint8), ends, 0)
    text = data.tobytes()
    words = [text[a:b] for a, b in zip(offsets.tolist(), offsets[1:].tolist())]
    return list(zip(words, counts.tolist(), strict=True))


def expected(lines: list[bytes], split: Split) -> list[tuple[bytes, int]]:
    """In the order of their first occurrence."""
    return list(Counter(word for line in lines for word in split(line)).items())


TEXT = st.lists(st.text(max_size=40) | st.text(SCRIPTS, max_size=40), max_size=12).map(
    lambda lines: [line.encode(errors="replace") for line in lines]
)


@settings(max_examples=300, deadline=None)
@given(TEXT, st.booleans())
@example([b"caf\xc3\xa9 CAF\xc3\x89 cafe\xcc\x81"], False)
def test_words_are_those_of_plain_python(lines: list[bytes], ascii: bool) -> None:
    assert words_of(lines, ascii) == expected(lines, SPLIT[ascii])


@settings(max_examples=300, deadline=None)
@given(TEXT, st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=8), st.integers(0, 2**32))
def test_bytes_that_are_no_utf8_separate_words(lines: list[bytes], damage: list[tuple[int, int]], seed: int) -> None:
    """Anywhere: bytes are changed, and lines end where they will, within characters too."""
    data = bytearray(b" ".join(lines))
    for place, byte in damage:
        if data:
            data[place % len(data)] = byte
    cuts = np.sort(np.random.default_rng(seed).integers(0, len(data) + 1, 4)).tolist()
    parts = [bytes(data[a:b]) for a, b in zip([0, *cuts], [*cuts, len(data)])]
    assert words_of(parts) == expected(parts, words_in)


@pytest.mark.parametrize(
    "lines",
    [
        [b"x\xc1\xa1y"], [b"x\xe0\x83\xa9y"], [b"x\xf0\x80\x83\xa9y"],  # longer than needed
        [b"x\xed\xa0\x80y"], [b"x\xf4\x90\x80\x80y"], [b"x\xf5\x80\x80\x80y"],  # no characters
        [b"x\xc3"], [b"x\xe4\xb8y"], [b"x\xa9y"], [b"x\xc3\xc3\xa9y"], [b"x\xe4\xc3\xa9y"],  # not whole
        [b"x\xc3", b"\xa9y"], [b"x\xe4", b"", b"\xb8\xady"],  # a line's end within a character
    ],
)  # fmt: skip
def test_what_is_no_character_separates(lines: list[bytes]) -> None:
    assert words_of(lines) == expected(lines, words_in)
    padded = [b" " * place + lines[0] for place in (61, 62, 63, 1021, 1022, 1023)]
    assert words_of(padded) == expected(padded, words_in)


@pytest.mark.parametrize("seed", range(8))
def test_long_text_is_split_alike_wherever_it_is_cut(seed: int) -> None:
    """Longer than what is looked at together, which ends within characters and words."""
    rng = np.random.default_rng(seed)
    text = "".join(rng.choice(list(SCRIPTS), 6000)).encode()
    cuts = np.sort(rng.integers(0, len(text), seed * 20)).tolist()
    lines = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]
    assert words_of(lines) == expected(lines, words_in)


def test_a_table_is_used_again_and_words_may_grow() -> None:
    """In lower case every letter takes three bytes in place of two; the words of a block are all different."""
    table = WordTable()
    for count in (3, 2000, 500):
        lines = [("Ⱥ" * (1 + number)).encode() for number in range(count // 10)] + [b"\xc8\xba" * count]
        ends = np.cumsum([0, *map(len, lines)], dtype=np.int64)
        data, offsets, counts = table.split(np.frombuffer(b"".join(lines), np.uint8), ends, 0)
        words = [data[a:b].tobytes() for a, b in zip(offsets.tolist(), offsets[1:].tolist())]
        assert dict(zip(words, counts.tolist(), strict=True)) == dict(expected(lines, words_in))


def test_a_word_is_one_however_it_is_written() -> None:
    lines = ["Ünïcode ünïcode ÜNÏCODE Straße ЖЕНА жена".encode(), b"plain PLAIN Plain"]
    for seed in range(20):
        found = words_of(lines, seed=seed)
        assert found == expected(lines, words_in) and len(found) == 4


def test_the_words_of_prose() -> None:
    lines = ["Das Café — „schön“, 2. Stock; naïve l'été".encode()]
    found = words_of(lines)
    assert [word.decode() for word, _ in found] == ["das", "café", "schön", "2", "stock", "naïve", "l", "été"]
    found = words_of(lines, ascii=True)
    assert [word.decode() for word, _ in found][:3] == ["das", "caf", "sch"]


TABLE = Path(word_characters.__file__).with_suffix(".h").read_text()
VERSION = TABLE.partition("Unicode ")[2].partition(":")[0]
same_unicode = pytest.mark.skipif(
    unicodedata.unidata_version != VERSION, reason=f"the table is of Unicode {VERSION}, this Python knows another"
)


@same_unicode
def test_the_table_of_characters_is_that_of_its_unicode_version() -> None:
    assert word_characters.header() == TABLE


@same_unicode
def test_every_character_is_told_apart() -> None:
    """All of Unicode, each between two letters."""
    codes = [code for code in range(0x80, 0x110000) if not 0xD800 <= code < 0xE000]
    for first in range(0, len(codes), 100_000):
        lines = [f"x{chr(code)}y".encode() for code in codes[first : first + 100_000]]
        assert {word for word, _ in words_of(lines)} == {word for line in lines for word in words_in(line)}


def test_the_option_is_checked() -> None:
    with pytest.raises(ConfigError, match="ascii"):
        SplitWords(ascii="yes")  # type: ignore[arg-type]
