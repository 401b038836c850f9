"""Text keys of panes, as the numbers by which panes are sorted and summed up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riprap.operators.states.base import Backup
from riprap.operators.states.checks import Keys, PackedKeys, is_pair, keys_at
from riprap.operators.states.key_set import KeySet

SPARE = 1024
"""The excess of names over those needed at which names that nothing needs are dropped."""


class KeyNames:
    """Numbers the texts in the order in which they come; output and backups are in the order of the texts."""

    def __init__(self) -> None:
        self._known = KeySet("bytes")

    def __len__(self) -> int:
        return len(self._known)

    def numbers(self, texts: PackedKeys) -> np.ndarray:
        """The numbers of texts (bytes and offsets), new ones too. ValueError when they are malformed."""
        self._known.add(texts)
        return self._known.places(texts)

    def texts(self, numbers: np.ndarray) -> PackedKeys:
        """The texts of these numbers."""
        return _pair(keys_at(self._known.items(), numbers))

    def ranks(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers that stand in the order of the texts."""
        some, which = np.unique(numbers, return_inverse=True)
        data, offsets = self.texts(some)
        text, ends = data.tobytes(), offsets.tolist()
        order = sorted(range(len(some)), key=lambda i: text[ends[i] : ends[i + 1]])
        ranks = np.empty(len(some), np.int64)
        ranks[order] = np.arange(len(some))
        return ranks[which]

    def is_wasteful(self, needed: int) -> bool:
        """True when most names are of keys that nothing is kept of."""
        return len(self) > 2 * needed + SPARE

    def keep(self, needed: np.ndarray) -> None:
        """Forget all but these numbers, which ascend: they become 0, 1, ..."""
        texts = self.texts(needed)
        self._known.clear()
        self._known.add(texts)

    def backup(self, full: bool) -> tuple[np.ndarray, ...]:
        """All names; or those that came since the last backup, where there was one."""
        return (self._known.backup_all() if full else self._known.backup_state()).arrays

    def recover(self, full: bool, arrays: Sequence[np.ndarray]) -> None:
        """Take in a backup. ValueError when it is none."""
        self._known.recover_state(Backup(full, tuple(arrays)))


def _pair(keys: Keys) -> PackedKeys:
    assert is_pair(keys)
    return keys
