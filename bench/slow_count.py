"""A destination that works at a tenth of its speed, before which blocks queue up."""

from __future__ import annotations

import time

from riprap.operators.dataflow import Emitter, Items
from riprap.operators.text.word_count import CountWords

SLOWER = 10


class SlowCount(CountWords):
    """Counts words, and rests nine times as long as that took."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        began = time.perf_counter()
        left = super().process_data(items, first, out)
        time.sleep((SLOWER - 1) * (time.perf_counter() - began))
        return left
