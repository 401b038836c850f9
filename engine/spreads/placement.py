"""The processor of each block: pure functions that the source and the sink both evaluate."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from riprap.codec.ids import Epoch, WorkerId

_MASK = 2**64 - 1


def rotate(workers: tuple[WorkerId, ...], active: int, epoch: Epoch, row: int, s_index: int) -> WorkerId | None:
    """Stripe placement: over the first `active` workers the s_index shifts by one processor from row to row, so that
    they share the parity work; the last parities fall to the slow ones behind them, for whom nobody waits. None when
    fewer than k + r take part: no two pieces of a row share a worker.
    """
    if s_index < active:
        return workers[(epoch + row + s_index) % active]
    return workers[s_index] if s_index < len(workers) else None


def alternate(turns: Sequence[WorkerId], block: int) -> WorkerId:
    """Round robin over those that take part, in the order of their ids, which is that of `turns`."""
    return turns[block % len(turns)]


def random_group(
    workers: tuple[WorkerId, ...], live: Collection[WorkerId], copies: int, epoch: Epoch, block: int
) -> tuple[WorkerId, ...]:
    """A group of `copies` processors, drawn per block among the groups with a live member (LEC V-A, replication).

    The draw is a hash of epoch and block (the finalizer of splitmix64, https://prng.di.unimi.it/splitmix64.c), so that
    both ends know it and a run can be repeated.
    """
    groups = [workers[i : i + copies] for i in range(0, len(workers), copies)]
    groups = [group for group in groups if any(worker in live for worker in group)] or groups
    x = (epoch * 0x9E3779B97F4A7C15 + block * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return groups[(x ^ (x >> 31)) % len(groups)]
