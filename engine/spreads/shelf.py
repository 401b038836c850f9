"""Keeps the blocks of each epoch until its commit, to hand it out when the sink asks (lazy attachment)."""

from __future__ import annotations

from collections.abc import Iterable

from riprap.codec.blocks import Block, Key
from riprap.codec.ids import Epoch


class Shelf:
    """The data and parity blocks that were dealt to this processor, by epoch and key, and what was asked for in vain.

    A block may be asked for before it has come: its link replays what a broken connection lost.
    """

    def __init__(self) -> None:
        self._blocks: dict[Epoch, dict[Key, Block]] = {}
        self._wanted: set[tuple[Epoch, Key]] = set()

    def put(self, block: Block) -> bool:
        """Keep a block; whether the sink has asked for it already."""
        self._blocks.setdefault(block.epoch, {})[block.key] = block
        wanted = (block.epoch, block.key) in self._wanted
        self._wanted.discard((block.epoch, block.key))
        return wanted

    def take(self, epoch: Epoch, keys: Iterable[Key]) -> list[Block]:
        """Those of the blocks that are here; the others are noted as wanted."""
        shelf = self._blocks.get(epoch, {})
        here = []
        for key in keys:
            if key in shelf:
                here.append(shelf[key])
            else:
                self._wanted.add((epoch, key))
        return here

    def forget_asked(self, pair: int) -> None:
        """The sink of this pair died with its questions."""
        self._wanted = {entry for entry in self._wanted if entry[1].sink != pair}

    def clear(self, pair: int, epoch: Epoch) -> None:
        """The pair's sink has committed the epoch: no earlier block is asked for any more."""
        for old in [old for old in self._blocks if old <= epoch]:
            left = {key: block for key, block in self._blocks[old].items() if key.sink != pair}
            if left:
                self._blocks[old] = left
            else:
                del self._blocks[old]
        self._wanted = {e for e in self._wanted if e[1].sink != pair or e[0] > epoch}
