"""Online join of two packet streams by sampling, with a confidence interval (AF Table 3, Experiment 4, Appendix A.2).

Haas and Hellerstein, "Ripple joins for online aggregation" (1999), on Bernoulli samples of both streams.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Annotated, ClassVar

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.inputs.records import unpacked
from riprap.operators.options import Option, check
from riprap.operators.states import HashMap, Number
from riprap.operators.states.base import Backup, State
from riprap.operators.tables import Arrays, Schema, Table

Rate = Annotated[float, Option("The probability that a packet is sampled; the same in all stages", low=1e-9, high=1)]

NANOSECONDS = 1_000_000_000
LOST_MAX = 2.0**53
"""Packets that failures may have taken, where there is no bound; more than any sample has."""
_FULL = 2**64


def mixed(values: np.ndarray) -> np.ndarray:
    """64-bit integers, each mixed by Steele's splitmix64 finalizer; the argument is overwritten."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values ^= values >> np.uint64(shift)
        values *= np.uint64(factor)
    values ^= values >> np.uint64(31)
    return values


def sample(first: int, stop: int, rate: float, seed: int) -> np.ndarray:
    """A mask of the positions [first, stop) that are in the sample of this seed (bool); always the same ones."""
    positions = np.arange(first, stop, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    if rate >= 1:
        return np.ones(len(positions), bool)
    return mixed(positions + np.uint64(seed % _FULL)) < np.uint64(int(rate * _FULL))


def join_keys(records: np.ndarray) -> np.ndarray:
    """A 64-bit hash (uint64) of each packet's destination address and second."""
    address = np.ascontiguousarray(records["destination"]).view(np.uint64).reshape(-1, 2)
    seconds = (records["time_ns"] // NANOSECONDS).astype(np.uint64)
    keys = mixed(seconds * np.uint64(0x9E3779B97F4A7C15) ^ address[:, 0])
    return mixed(keys + address[:, 1])


class SamplePackets(DataflowOperator):
    """Source stage, or behind one, for each side: sends the keys of a sample to the tasks that their hash chooses.

    A packet's position in the task's stream decides whether it is sampled. State: the position; divergence: the
    difference of the number of packets.
    """

    def __init__(
        self,
        rate: Rate = 0.1,
        salt: Annotated[int, Option("Another one for each side, so that they sample independently", low=0)] = 0,
    ) -> None:
        check(self, rate=rate, salt=salt)
        self._rate, self._salt = float(rate), salt
        self.state: Number = Number("difference")

    def open(self, context: Context) -> None:
        words = np.random.SeedSequence([context.seed, self._salt, context.index]).generate_state(1, np.uint64)
        self._seed = int(words[0])

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Packets: records with `time_ns` (int64) and `destination` (16 bytes)."""
        position, stop = int(self.state.value), first + self._room(items.count - first)
        try:
            packets = unpacked(items.arrays)[["time_ns", "destination"]][first:stop]
            chosen = sample(position, position + stop - first, self._rate, self._seed)
            keys = join_keys(packets[chosen])
        except (IndexError, KeyError, ValueError) as error:
            raise DataError(f"the input has no packets: {error}", "Prepare it with riprap prep packets.") from error
        self.state.add(np.array([float(stop - first)]))
        out.send_by_key(keys.view(np.int64))
        return stop

    def _room(self, count: int) -> int:
        """The number of packets, out of `count`, that may be taken in: up to and with the one that exceeds theta."""
        room = self.state.theta - self.state.state_divergence()
        return count if room >= count else max(math.floor(room), 0) + 1


class JoinedSamples(State):
    """The samples of both sides, as packets per key. Divergence: sampled packets since the last backup (AF Table 3)."""

    def __init__(self) -> None:
        self.sides = (HashMap("int64", "manhattan", "int64"), HashMap("int64", "manhattan", "int64"))
        self.lost = 0
        self.joined = 0

    def add(self, side: int, keys: np.ndarray) -> int:
        """Add packets of a side, one key each; returns the number taken: up to and with the one that exceeds theta."""
        own, other = self.sides[side], self.sides[1 - side]
        own.theta = self.theta - other.state_divergence()
        taken = own.add(keys, np.ones(len(keys), np.int64))
        self.joined += int(other.get(keys[:taken]).sum())
        return taken

    def moments(self) -> tuple[int, int]:
        """Over all keys with A and B sampled packets: the sums of A * B and of A * B * (A + B)."""
        keys, counts = self.sides[0].items()
        others = self.sides[1].get(keys)
        pairs = counts * others
        return int(pairs.sum()), int((pairs * (counts + others)).sum())

    def packets(self) -> tuple[int, int]:
        """Number of packets of each side in the sample."""
        first, second = (int(side.items()[1].sum()) for side in self.sides)
        return first, second

    def state_divergence(self) -> float:
        return sum(side.state_divergence() for side in self.sides)

    def backup_state(self) -> Backup:
        return self._backup([side.backup_state() for side in self.sides])

    def backup_all(self) -> Backup:
        return self._backup([side.backup_all() for side in self.sides])

    def recover_state(self, backup: Backup) -> None:
        about, *arrays = backup.arrays
        if about.dtype != np.int64 or about.shape != (3,) or len(arrays) != 4:
            raise ValueError("a backup of samples of two sides does not consist of such arrays")
        for number_of, side in enumerate(self.sides):
            side.recover_state(Backup(bool(about[number_of]), tuple(arrays[2 * number_of : 2 * number_of + 2])))
        self.lost = int(about[2])
        self.joined = self.moments()[0]

    def _backup(self, parts: list[Backup]) -> Backup:
        about = np.array([*(part.full for part in parts), self.lost], np.int64)
        return Backup(all(part.full for part in parts), (about, *(array for part in parts for array in part.arrays)))


class RippleJoin(DataflowOperator):
    """Destination: counts the pairs of sampled packets, one of each stream, with the same destination and second.

    The estimate of all pairs is their number divided by rate^2. After failures its interval is wider, as fewer packets
    were sampled (Theorem 3).
    """

    combines: ClassVar[Mapping[str, str]] = {"joined": "sum", "estimate": "sum"}  # each key is joined by one task

    meanings: ClassVar[Mapping[str, str]] = {
        "joined": "pairs of sampled packets that share a key",
        "estimate": "pairs of all packets that share a key, estimated",
    }
    correlated_inputs = True

    def __init__(
        self,
        rate: Rate = 0.1,
        confidence: Annotated[
            float, Option("The probability that the interval holds the truth", low=0.01, high=0.9999)
        ] = 0.95,
    ) -> None:
        check(self, rate=rate, confidence=confidence)
        self._rate = float(rate)
        self._z = NormalDist().inv_cdf(0.5 + confidence / 2)
        self.state: JoinedSamples = JoinedSamples()

    def open(self, context: Context) -> None:
        self._streams = list(context.upstream or {})
        if len(self._streams) != 2:
            raise ConfigError(f"a join of {len(self._streams)} streams", "Lead edges of two stages into the join.")

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Keys (int64), one for each sampled packet."""
        return first + self.state.add(self._streams.index(items.stage), items.arrays[0][first:])

    def recovered(self, theta: float, items: float) -> None:
        self.state.lost = math.ceil(min(self.state.lost + theta + items, LOST_MAX))

    def results(self) -> dict[str, np.ndarray]:
        """This task's part of the `estimate`, the `variance` of it, and its `interval`; parts may be added up.

        Of the whole join, the estimate is the sum of the tasks' and so is the variance.
        """
        joined, weighted = self.state.moments()
        estimate, variance = joined / self._rate**2, self._variance(joined, weighted)
        reach = self._z * math.sqrt(variance)
        values = {
            "estimate": [estimate],
            "variance": [variance],
            "interval": [max(estimate - reach, 0), estimate + reach],
        }
        return {name: np.array(value) for name, value in values.items()}

    @classmethod
    def tables(cls, results: Sequence[Arrays], schema: Schema) -> dict[str, Table]:
        """`join`: one row for the whole join, with the interval that the tasks' parts add up to."""
        estimate, variance = (float(sum(one[name][0] for one in results)) for name in ("estimate", "variance"))
        widest = max(results, key=lambda one: float(one["variance"][0]))
        upper, spread = float(widest["interval"][1] - widest["estimate"][0]), float(widest["variance"][0])
        reach = upper / math.sqrt(spread) * math.sqrt(variance) if spread else 0.0  # in deviations, as of each task
        values = {"pairs": estimate, "low": max(estimate - reach, 0.0), "high": estimate + reach, "variance": variance}
        note = "pairs is the estimate; low and high hold the truth with the probability that the option confidence says"
        return {"join": Table({name: np.array([value]) for name, value in values.items()}, note)}

    def metrics(self) -> dict[str, float]:
        return {"joined": float(self.state.joined), "estimate": self.state.joined / self._rate**2}

    def _variance(self, joined: int, weighted: int) -> float:
        """An unbiased estimate of the estimate's variance under Bernoulli sampling, widened by what was lost.

        With A and B packets of a key in the samples it is the sum of A B (1 - rate) (A + B - 1 + rate) / rate^4.
        """
        sampled = sum(self.state.packets())
        widening = sampled / max(sampled - self.state.lost, 1) if self.state.lost else 1.0
        return (1 - self._rate) * (weighted - (1 - self._rate) * joined) / self._rate**4 * widening
