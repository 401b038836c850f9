"""Random jobs of Source, Processor and Sink for the simulation, each from a seed, and what their sinks come to."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from random_graphs import JOBS as GRAPHS
from random_graphs import Drained
from staged_jobs import Case, Fold, StagedSimulation, Weigh, WeighLinearly

from riprap.codec.ids import WorkerId
from riprap.configs.schemes import read_options
from riprap.engine.flow.epoch_reader import cut
from riprap.engine.worker.build import block_unit
from riprap.operators.adapters.stages import SinkStage

CODES = ("gf256", "xor", "vandermonde", "stable", "random_training:Summed")
OTHERS = {name: GRAPHS[name] for name in GRAPHS if name not in ("local", "optimistic", "replay", "tentative")}
"""The schemes that spread no blocks, and that a job which trains may have."""
SPREADING = ("erasure", "replication", "none")


class Summed:
    """A user's own code, of one parity: exact for these whole numbers, and linear."""

    exact = linear = True

    def __init__(self, k: int, r: int) -> None:
        self.k = k
        assert r <= 1

    def encode(self, data: list[np.ndarray]) -> list[np.ndarray]:
        return [sum(data[1:], data[0])]

    def decode(self, blocks: dict[int, np.ndarray]) -> list[np.ndarray]:
        (lost,) = set(range(self.k)) - blocks.keys() or {None}
        if lost is None:
            return [blocks[i] for i in range(self.k)]
        rest = blocks[self.k] - sum(blocks[i] for i in range(self.k) if i != lost)
        return [blocks.get(i, rest) for i in range(self.k)]


class Rounding(Weigh):
    """Takes away what a code over the real numbers is off by."""

    def process_data(self, items: np.ndarray) -> list[np.ndarray]:
        return super().process_data(np.rint(items))


class Dated(Rounding):
    """Says which model it has, and no more of it: for models that come when they come."""

    def process_data(self, items: np.ndarray) -> list[np.ndarray]:
        return [np.array([float(np.rint(items).sum()), float(len(items)), float(self.state)])]

    def process_feedback(self, feedback: Any) -> None:
        self.state = 1 + int(feedback[0][1])


class Bounded(Fold):
    """Folds results of models that are not older than the consistency allows, nor newer than there are."""

    def __init__(self, processor: Weigh, stale: float = 0.0) -> None:
        super().__init__(processor)
        self.commits, self.stale = 0, stale

    def aggregate(self, result: Any) -> None:
        super().aggregate(result)
        model = int(result[0][2]) - 1
        assert self.commits - self.stale <= model <= self.commits, f"model {model} in window {self.commits + 1}"

    def commit(self, epoch: int) -> list[np.ndarray]:
        self.commits += 1
        return [np.array([float(self.state), float(self.commits)])]

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"all": np.array([self.state, self.items]), "commits": np.array([self.commits])}

    def restore(self, snapshot: Any) -> None:
        super().restore(snapshot)
        self.commits = int(snapshot["commits"][0])


@dataclass
class RandomCase(Case):
    """Its sources' items, and the edge that models take back."""

    sizes: tuple[int, ...] = ()
    back: dict[str, Any] | None = None
    """None for a job that predicts."""
    epochs_ahead: int = 2
    slow: float = 0.0
    """The chance of a worker to be slow for a while."""
    again: float = 0.0
    """The chance that somebody dies while somebody recovers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.items = sum(self.sizes)
        self.windows = max(-(-size // self.micro_batch) for size in self.sizes)
        self.shape["edges"] = [edge for edge in self.shape["edges"] if not edge["feedback"]]
        if self.back is not None:
            self.shape["edges"].append({"from": "sink", "to": "processor", "feedback": True, "partitioning": "full"})
            self.shape["edges"][-1] |= self.back
        self.shape |= {"links": {"block_bytes": self.block_bytes, "window_epochs": self.epochs_ahead}}


def fault_tolerance_of(rng: random.Random, family: str) -> tuple[dict[str, Any], int]:
    """A scheme of a family, and how many processors it has."""
    if family == "replication":
        copies = rng.choice([2, 2, 3, 4])
        return {"scheme": "replication", "copies": copies}, copies * rng.randint(1, 3)
    if family != "erasure":
        return read_options(OTHERS.get(family, {"scheme": "none"})).model_dump(), rng.randint(1, 5)
    code = rng.choice(CODES)
    k, r = rng.randint(1, 6), rng.choice([0, 1, 1, 2, 2, 3, 4])
    if code in ("xor", "random_training:Summed"):
        r = min(r, 1)
    kinds = ["lazy", "lazy", "eager"] + ["hybrid"] * (code not in ("gf256", "xor"))
    scheme = {
        "scheme": "erasure", "code": code, "k": k, "r": r, "attachment": rng.choice(kinds),
        "incremental": rng.random() < 0.7, "rows": rng.choice([1, 1, 1, 2, 5]),
        "hedge": rng.choice(["none", "cost", "cost", 1, 20, 100]),
    }  # fmt: skip
    return scheme, k + r + rng.choice([0, 0, 0, 1, 3])


def drawn_case(seed: int, family: str) -> RandomCase:
    """A job of this family of schemes, with its faults."""
    rng = random.Random(f"training {seed} {family}")
    scheme, processors = fault_tolerance_of(rng, family)
    pairs, micro_batch = rng.choice([1, 1, 2, 3]), rng.choice([1, 3, 10, 50, 50, 100])
    most = micro_batch * rng.choice([1, 3, 3, 6])
    sizes = tuple(rng.choice([0, 1, most, most, most - 1, rng.randint(0, most)]) for _ in range(pairs))
    if not any(sizes):
        sizes = (most,) * pairs
    stale = {"consistency": "ssp", "staleness": rng.randint(0, 3)}
    back = rng.choice([{}, {}, {}, None, {"consistency": "asp"}, stale])
    if family == "partially_active" and back and back["consistency"] == "asp":
        back = {}
    faulty = rng.choice([("processor",), ("processor",), ("source", "sink", "processor"), ("source",), ("sink",)])
    weigh: type[Weigh] = rng.choice([Weigh, WeighLinearly]) if scheme.get("attachment") == "hybrid" else Rounding
    if back:
        weigh = Dated
        if scheme.get("attachment") == "hybrid":
            scheme["attachment"] = "eager"
    calm = rng.random() < 0.1
    return RandomCase(
        scheme, processors=processors, pairs=pairs, sizes=sizes, micro_batch=micro_batch, back=back, weigh=weigh,
        block_bytes=rng.choice([16, 64, 64, 1000, 1 << 20]), epochs_ahead=rng.choice([1, 2, 2, 3, 8]),
        rows=rng.choice([1, 1, 2, 4]), faulty=faulty, again=rng.choice([0.0, 0.3, 0.7]) * (not calm),
        kills=0 if calm else rng.choice([0, 1, 1, 3, 8]), kill_at_once=rng.choice([1, 1, 2, 3, 99]),
        hangs=0 if calm else rng.choice([0, 0, 1, 3]), cuts=0 if calm else rng.choice([0, 0, 2, 6]),
        rollbacks=0 if calm else rng.choice([0, 0, 0, 2]), slow=rng.choice([0.0, 0.0, 0.2]),
        wire_s=rng.choice([0.0005, 0.002, 0.01]), restart_s=rng.choice([0.003, 0.03, 0.1]),
        disk_s=rng.choice([0.001, 0.004, 0.02]), kill_until_s=rng.choice([0.05, 0.2, 0.5]),
    )  # fmt: skip


class RandomTraining(StagedSimulation):
    """Runs it."""

    case: RandomCase
    deaths_left = 6

    def __init__(self, case: RandomCase, seed: int) -> None:
        super().__init__(case, seed)
        for worker in self.nodes:
            if self.rng.random() < case.slow:
                self.at(0.01, lambda worker=worker: self._slow_down(worker, 40))

    @property
    def items(self) -> int:
        return self.case.items

    def _rows(self, number: int) -> np.ndarray:
        return rows_of(self.case, number)

    def hosted(self, stage: str, index: int) -> Any:
        hosted = super().hosted(stage, index)
        if stage != "sink":
            return hosted
        sink: Fold = Fold(self.case.weigh())
        if self.case.weigh is Dated:
            (back,) = [edge for edge in self.topology.edges if edge.feedback]
            sink = Bounded(Dated(), back.stale_windows)
        return hosted._replace(operator=SinkStage(sink, self.case.back is not None, False))

    def _slow_down(self, worker: WorkerId, times: int) -> None:
        self._hang(worker, self.rng.uniform(0.005, 0.02))
        if times:
            self.at(self.rng.uniform(0.01, 0.03), lambda: self._slow_down(worker, times - 1))

    def restart(self, worker: WorkerId, life: int) -> None:
        super().restart(worker, life)
        if self.truth[worker] == (life, True):
            self._perhaps(worker)

    def on_lost(self, worker: WorkerId) -> None:
        super().on_lost(worker)
        self._perhaps(worker)

    def _perhaps(self, worker: WorkerId) -> None:
        """Somebody else dies, or the same one once more, while somebody recovers."""
        if self.deaths_left and self.rng.random() < self.case.again:
            self.deaths_left -= 1
            mortal = [one for one in self.nodes if one.stage in self.case.faulty]
            victim = worker if self.rng.random() < 0.3 else self.rng.choice(mortal)
            self.at(self.rng.expovariate(1 / 0.01), lambda: self.kill(victim))


class EndlessTraining(Drained, RandomTraining):
    """The same of streams without end, of equally many items of each source."""

    windows_read = None

    def __init__(self, case: RandomCase, seed: int) -> None:
        self.begin_granting()
        super().__init__(replace(case, sizes=(200 * case.micro_batch,) * case.pairs), seed)
        self.case.windows = 1 << 40
        self.drain_in(self.rng.uniform(0.01, 0.3))

    def make_task(self, node: Any) -> Any:
        task = super().make_task(node)
        task.grant(self.horizon.windows, self.horizon.final)
        return task

    def written(self, decided: Any) -> None:
        super().written(decided)
        if decided.final:
            self.case.sizes = (decided.windows * self.case.micro_batch,) * self.case.pairs
            self.case.items = sum(self.case.sizes)


def rows_of(case: RandomCase, number: int) -> np.ndarray:
    """The items of one source."""
    return np.random.default_rng([7, number]).integers(1, 1000, (case.sizes[number], 1)).astype(float)


def plain(case: RandomCase, unit: int) -> list[tuple[int, int]]:
    """What each sink folds, block by block, without an engine."""
    found = []
    for number, size in enumerate(case.sizes):
        rows, weigh = rows_of(case, number), case.weigh()
        fold = (Bounded if case.weigh is Dated else Fold)(weigh)
        for start in range(0, size, case.micro_batch):
            window = rows[start : start + case.micro_batch]
            step = cut(len(window), 8, case.block_bytes, unit)
            for first in range(0, len(window), step):
                items = window[first : first + step]
                if case.fault_tolerance.get("attachment") == "hybrid":
                    fold.aggregate(weigh.process_nonlinear(weigh.process_linear(items), items))
                else:
                    fold.aggregate(weigh.process_data(items))
            if case.back is not None:
                weigh.process_feedback(fold.commit(0))
        found.append((fold.state, fold.items))
    return found


def verdict(simulation: RandomTraining) -> str:
    """Empty when all is well."""
    case, states = simulation.case, simulation.states()
    for sink, announced in simulation.announced.items():
        if [window for window, _ in announced] != list(range(1, case.windows + 1)):
            return f"{sink} announced {announced}"
    scheme = case.fault_tolerance["scheme"]
    told = sum(items for announced in simulation.announced.values() for _, items in announced)
    if scheme == "none":
        lost = [simulation.nodes[sink].task.lost for sink in simulation.sinks]
        counted = [items + gone for (_, items), gone in zip(states, lost)]
        if counted != list(case.sizes):
            return f"folded {states}, lost {lost}, of {case.sizes}"
        if not simulation.killed and not case.rollbacks and any(lost):
            return f"lost {lost}, and nobody died"
        return ""
    repeats = case.fault_tolerance.get("guarantee") == "at_least_once"
    if not repeats and any(items > size for (_, items), size in zip(states, case.sizes)):
        return f"folded {states} of {case.sizes}"
    is_exact = scheme != "approximate" and not repeats
    if is_exact or not (simulation.killed or case.rollbacks or case.cuts):
        if told != case.items:
            return f"told of {told}, not {case.items}"
        unit = block_unit(simulation.topology)
        expected = plain(case, unit)
        if states != expected:
            return f"folded {states}, not {expected}"
    return ""
