"""Fills the template of a page, all of whose parts are in the one file that comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

STYLE = Path(__file__).with_name("style.html")
"""The colours and the frame that all pages share."""


def fill(template: Path, parts: Mapping[str, str]) -> str:
    """The text of a template with the shared style at `@style@`, and each part, by name, at the first `@name@`."""
    text = template.read_text(encoding="utf-8")
    for name, part in {"style": STYLE.read_text(encoding="utf-8").rstrip(), **parts}.items():
        text = text.replace(f"@{name}@", part, 1)
    return text
