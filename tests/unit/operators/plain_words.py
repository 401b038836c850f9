"""Splits text into words in plain Python, character by character."""

from __future__ import annotations

import re
import unicodedata


def words_in(line: bytes) -> list[bytes]:
    """The longest runs of letters, marks and numbers, in lower case; what is no UTF-8 separates."""
    text = line.decode(errors="replace")  # U+FFFD is a symbol
    spaced = "".join(one.lower()[0] if unicodedata.category(one)[0] in "LMN" else " " for one in text)
    return [word.encode() for word in spaced.split(" ") if word]


def ascii_words_in(line: bytes) -> list[bytes]:
    """The longest runs of A-Z and a-z, in lower case."""
    return [word.lower() for word in re.findall(rb"[A-Za-z]+", line)]
