"""Hands items on as they are: the source of topologies whose states stand behind it, as AF-Stream's do."""

from __future__ import annotations

from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.inputs.records import packed


class Forward(DataflowOperator):
    """Source stage without a state: reads its part of the input and sends it on, block by block.

    Records go as their bytes (operators/inputs/records.py). A source's state needs no threshold, for its input can
    be read again. Behind this one Theta, L and Gamma act.
    """

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        out.send(packed(items.arrays), items.count)
        return items.count
