"""A destination so slow that the stream flows at a tenth of its speed, and blocks queue up before it."""

from __future__ import annotations

import time

from riprap.operators.dataflow import Emitter, Items
from riprap.operators.text.word_count import CountWords

SLOWER = 50


class SlowCount(CountWords):
    """Counts words, and rests 49 times as long as that took."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        began = time.perf_counter()
        left = super().process_data(items, first, out)
        time.sleep((SLOWER - 1) * (time.perf_counter() - began))
        return left
