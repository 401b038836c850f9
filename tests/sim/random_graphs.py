"""Random jobs for the simulation, each from a seed: graphs of stages, schemes, inputs and faults; and a plain model of
their results."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from dataflow_jobs import BUCKETS
from dataflow_simulator import DataflowCase, DataflowSimulation, Rows, run_or_replay
from random_operators import KEYS, MARKS

from riprap.codec.ids import WorkerId
from riprap.configs.loading import check_values
from riprap.configs.problems import Problem
from riprap.configs.topology import Topology
from riprap.configs.validation import TOPOLOGY, resolved
from riprap.controller.horizon import FIRST, Granting
from riprap.engine.flow.reader import Reader
from riprap.engine.flow.task import Task
from riprap.engine.run.operator_checks import operator_problems
from riprap.engine.run.savepoint_checks import savepoint_problems

CHECKPOINTS = {"interval_ms": 20, "min_pause_ms": 0, "timeout_ms": 500, "tolerated_failures": 3}
PASSIVE = {"scheme": "partially_active", "checkpoint_s": 0.02, "memory_bytes": 1 << 16}
APPROXIMATE = {
    "scheme": "approximate", "theta": 60.0, "l": 16.0, "gamma": 12.0, "beta": 1.0, "window": "none", "window_epochs": 1,
}  # fmt: skip
BARRIER = CHECKPOINTS | {"scheme": "barrier", "memory_bytes": 1 << 16}
JOBS: dict[str, dict[str, Any]] = {
    "mini_batch": {"scheme": "mini_batch"},
    "reactive": {"scheme": "reactive"},
    "upstream_backup": {"scheme": "upstream_backup", "memory_bytes": 1 << 16},
    "aligned": BARRIER | {"alignment": "aligned", "debloat_ms": 1},
    "local": BARRIER | {"recovery": "local"},
    "unaligned": BARRIER | {"alignment": "unaligned"},
    "timeout": BARRIER | {"alignment": "timeout", "alignment_timeout_ms": 4, "debloat_ms": 4},
    "stop_the_world": CHECKPOINTS | {"scheme": "stop_the_world"},
    "optimistic": CHECKPOINTS | {"scheme": "optimistic"},
    "partially_active": PASSIVE,
    "tentative": PASSIVE | {"tentative_after_ms": 5.0},
    "replay": PASSIVE | {"checkpoint_s": None, "replay_s": 1000.0},
    "none": {"scheme": "none"},
    "approximate": APPROXIMATE,
    "at_least_once": BARRIER | {"guarantee": "at_least_once"},
}
EXACT = tuple(name for name in JOBS if name not in ("none", "approximate", "at_least_once"))
LEADS_AWAY = "no data edge touches it"
"""The reason for which a graph that is drawn may be refused: its loop sends to another stage alone."""
OF_STAGES = ("mini_batch", "reactive", "upstream_backup")
"""Exact schemes that a stage may have of its own."""


class Drawn:
    """One job, as it is drawn."""

    def __init__(self, seed: int, schemes: tuple[str, ...] = tuple(JOBS)) -> None:
        self.seed = seed
        self.rng = rng = random.Random(f"graph {seed}")
        self.name = rng.choice(schemes)
        self.stages: dict[str, dict[str, Any]] = {}
        self.edges: list[dict[str, Any]] = []
        self.windows = rng.randint(1, 7)
        self._draw()

    def _draw(self) -> None:
        rng = self.rng
        wide = rng.choice([1, 2, 4])
        sources = [f"s{i}" for i in range(rng.choice([1, 1, 2, 3]))]
        middle = [f"m{i}" for i in range(max(self._needs_loop, rng.choice([0, 1, 1, 2, 3])))]
        ends = [f"t{i}" for i in range(rng.choice([1, 1, 1, 2]))]
        for name in (*sources, *middle, *ends):
            kind = "Pass" if name in sources else "Ended" if name in ends else self._kind(name)
            self.stages[name] = {"operator": kind, "parallelism": rng.randint(1, wide)}
        order = [*sources, *middle, *ends]
        joined: set[tuple[str, str]] = set()
        for name in (*middle, *ends):
            before = [one for one in order[: order.index(name)] if one not in ends]
            for one in rng.sample(before, rng.randint(1, min(len(before), 2))):
                joined.add((one, name))
        for name in (*sources, *middle):
            behind = [one for one in order[order.index(name) + 1 :] if one not in sources]
            if not any(one == name for one, _ in joined):
                joined.add((name, rng.choice(behind)))
        ordered = sorted(joined, key=lambda pair: (order.index(pair[0]), order.index(pair[1])))
        outs: dict[str, list[str]] = {}
        for one, to in ordered:
            if self.stages[one]["operator"] == "Circulate":
                if one in outs:
                    continue
                partitioning, mode = "full", "hash"
            else:
                partitioning, mode = self._partitioning(one, to)
            self.edges.append({"from": one, "to": to, "partitioning": partitioning, "mode": mode})
            outs.setdefault(one, []).append(f"{to}:{mode}:{self.stages[to]['parallelism']}")
        fed = self._loops(middle, ends)
        for name, stage in self.stages.items():
            options = {} if stage["operator"] == "Circulate" else {"outs": ",".join(outs.get(name, ()))}
            if stage["operator"] == "Ended":
                options = {"back": ",".join(fed.get(name, ()))}
            module = "dataflow_jobs" if stage["operator"] == "Circulate" else "random_operators"
            stage |= {"operator": f"{module}:{stage['operator']}", "options": options}
        if self.name in (*OF_STAGES, "approximate", "none") and rng.random() < 0.5:
            self._mix()
        if self.name in (*OF_STAGES, "approximate", "none") and rng.random() < 0.4:
            self._code()
        if self.name in ("partially_active", "tentative") and rng.random() < 0.7:
            self._replicate()

    @property
    def _needs_loop(self) -> bool:
        """True where a job without one is refused."""
        return self.name == "optimistic"

    def _kind(self, name: str) -> str:
        """An operator that the scheme can protect."""
        rng = self.rng
        if self._needs_loop and name == "m0":
            return "Circulate"
        kinds = ["Pass", "Summed", "Prepared", "Closed"]
        if self.name not in ("upstream_backup", "approximate", "none", "at_least_once"):
            kinds += ["Marked"]
        if self.name not in ("approximate", "none", "local", "tentative", "replay"):
            kinds += ["Circulate"]
        return rng.choice(kinds)

    def _partitioning(self, one: str, to: str) -> tuple[str, str]:
        tasks = self.stages[one]["parallelism"], self.stages[to]["parallelism"]
        kinds = [("full", "key"), ("full", "hash"), ("full", "all"), ("stripe", "deal")]
        if tasks[0] == tasks[1]:
            kinds.append(("one_to_one", "deal"))
        if tasks[0] >= tasks[1]:
            kinds.append(("merge", "deal"))
        if tasks[0] <= tasks[1]:
            kinds.append(("split", "deal"))
        return self.rng.choice(kinds)

    def _loops(self, middle: list[str], ends: list[str]) -> dict[str, list[str]]:
        rng = self.rng
        fed: dict[str, list[str]] = {}
        for name in middle:
            if self.stages[name]["operator"] == "Circulate":
                self.edges.append({"from": name, "to": name, "loop": True})
        for end in ends:
            if rng.random() < 0.3 and self.name not in ("local", "tentative", "replay"):
                above = self._above(end)
                if not above:
                    continue
                to = rng.choice(sorted(above))
                if self.stages[to]["operator"] == "Circulate":
                    continue
                kind = rng.choice(["bsp", "ssp", "asp"] if self.name != "partially_active" else ["bsp", "ssp"])
                edge = {"from": end, "to": to, "feedback": True, "consistency": kind}
                self.edges.append(edge | ({"staleness": rng.randint(0, 3)} if kind == "ssp" else {}))
                fed.setdefault(end, []).append(to)
        return fed

    def _above(self, name: str) -> set[str]:
        before = {edge["from"] for edge in self.edges if edge["to"] == name and "mode" in edge}
        return before.union(*(self._above(one) for one in before)) if before else before

    def _mix(self) -> None:
        """Stages with schemes of their own."""
        rng = self.rng
        loops = any(stage["operator"].endswith("Circulate") for stage in self.stages.values())  # wait for what is lost
        exact = loops or (self.name in OF_STAGES and rng.random() < 0.5)
        schemes = OF_STAGES if exact else (*OF_STAGES, "approximate", "none")
        for stage in self.stages.values():
            if rng.random() < 0.5:
                own = rng.choice(schemes)
                if own == "upstream_backup" and stage["operator"].endswith("Marked"):
                    continue
                stage["fault_tolerance"] = dict(JOBS[own])

    def _code(self) -> None:
        """A coded stage on one of the edges."""
        rng = self.rng
        edges = [
            edge
            for edge in self.edges
            if edge.get("mode") == "deal"
            and self.stages[edge["from"]]["parallelism"] == self.stages[edge["to"]]["parallelism"]
        ]
        if not edges:
            return
        edge = rng.choice(edges)
        one, to = edge["from"], edge["to"]
        if rng.random() < 0.5:
            tasks, own = rng.choice(
                [(3, {"k": 2, "r": 1}), (4, {"k": 2, "r": 2}), (2, {"k": 1, "r": 1}), (4, {"k": 1, "r": 2})]
            )
            own = {"scheme": "erasure", "hedge": "none", **own}
        else:
            tasks, own = rng.choice([(2, {"copies": 2}), (4, {"copies": 2}), (3, {"copies": 3})])
            own = {"scheme": "replication", **own}
        self.stages["f"] = {
            "operator": "random_operators:Turned",
            "parallelism": tasks,
            "options": {},
            "fault_tolerance": own,
        }
        outs = self.stages[one]["options"]["outs"].split(",")
        self.stages[one]["options"]["outs"] = ",".join(
            f"f:deal:{tasks}" if out.split(":")[0] == to else out for out in outs
        )
        self.edges.remove(edge)
        self.edges.append({"from": one, "to": "f", "partitioning": "stripe", "mode": "deal"})
        self.edges.append({"from": "f", "to": to, "partitioning": "stripe", "mode": "deal"})

    def _replicate(self) -> None:
        mortal = {name: stage for name, stage in self.stages.items() if not name.startswith("t")}
        tasks = [f"{name}.{i}" for name, stage in mortal.items() for i in range(stage["parallelism"])]
        self.replicate = self.rng.sample(tasks, self.rng.randint(0, len(tasks)))

    replicate: list[str] = []

    @property
    def values(self) -> dict[str, Any]:
        """As a user would write it."""
        scheme = dict(JOBS[self.name]) | ({"replicate": self.replicate} if self.replicate else {})
        return {
            "job": "job",
            "input": {"path": "none", "verify": False},
            "micro_batch": 10,
            "stages": self.stages,
            "edges": [{key: value for key, value in edge.items() if key != "mode"} for edge in self.edges],
            "fault_tolerance": scheme,
            "backup": {"servers": 1},
        }

    @property
    def is_exact(self) -> bool:
        """True where the result is that of the plain model, whoever dies."""
        own = [stage["fault_tolerance"]["scheme"] for stage in self.stages.values() if "fault_tolerance" in stage]
        return self.name in EXACT and not {"approximate", "none"} & {*own}

    def factors(self) -> dict[str, Any]:
        """How often each source's items come to each stage."""
        edges = [edge for edge in self.edges if "mode" in edge]
        reached = {edge["to"] for edge in edges}
        found: dict[str, dict[str, int]] = {name: {} if name in reached else {name: 1} for name in self.stages}
        left = [name for name in self.stages if name in reached]
        while left:
            for name in list(left):
                into = [edge for edge in edges if edge["to"] == name]
                if any(edge["from"] in left for edge in into):
                    continue
                left.remove(name)
                for edge in into:
                    times = self.stages[name]["parallelism"] if edge["mode"] == "all" else 1
                    for source, count in found[edge["from"]].items():
                        found[name][source] = found[name].get(source, 0) + count * times
        return found

    def case(self) -> DataflowCase:
        """The faults."""
        rng = self.rng
        return DataflowCase(
            {}, "full", items=0, windows=self.windows, heavy=self.name not in ("approximate", "none"),
            window=rng.choice([2, 3, 8, 24]), kills=rng.choice([1, 1, 3, 8]), kill_at_once=rng.choice([1, 1, 2, 3, 99]),
            hangs=rng.choice([0, 0, 1, 2]), cuts=rng.choice([0, 0, 2]), rollbacks=rng.choice([0, 0, 2]),
            leaders=rng.choice([0, 0, 0.01]), wire_s=rng.choice([0.0005, 0.002, 0.01]),
            restart_s=rng.choice([0.003, 0.03, 0.1]), disk_s=rng.choice([0.001, 0.004, 0.02]),
            kill_until_s=rng.choice([0.05, 0.2, 0.5]), threads=rng.choice([1, 1, 2, 3]),
        )  # fmt: skip


class Graph(DataflowSimulation):
    """Runs it."""

    def __init__(self, drawn: Drawn, topology: Topology, case: DataflowCase) -> None:
        self.drawn = drawn
        self.again = drawn.rng.choice([0.0, 0.3, 0.7])
        self._whole = topology
        if any(topology.scheme_of(stage)["scheme"] == "upstream_backup" for stage in topology.stages):
            case = replace(case, window=4096)
        super().__init__(case, drawn.seed)

    def shaped(self, topology: Topology) -> Topology:
        return self._whole

    @property
    def items(self) -> int:
        return sum(map(len, self.rows.values()))

    def _rows(self, number: int) -> np.ndarray:
        rng, numbers = random.Random(f"rows {self.seed} {number}"), np.random.default_rng([self.seed, number])
        items = rng.choice([0, 1, 7, 40, 160])
        keys = numbers.integers(0, KEYS, items)
        high = 1 << 24 if self.case.heavy else 4
        return np.column_stack([keys, numbers.integers(1, high, items)]).astype(float)

    again: float
    """The chance that somebody dies while somebody recovers."""
    deaths_left = 6

    def restart(self, worker: WorkerId, life: int) -> None:
        super().restart(worker, life)
        if self.deaths_left and self.truth[worker] == (life, True) and self.rng.random() < self.again:
            self.deaths_left -= 1
            victims = [worker] if self.rng.random() < 0.5 else self.rng.sample(list(self.nodes), 1)
            self.at(self.rng.expovariate(1 / 0.01), lambda: [self.kill(one) for one in victims])

    def on_lost(self, worker: WorkerId) -> None:
        super().on_lost(worker)
        if self.deaths_left and self.rng.random() < self.again:
            self.deaths_left -= 1
            victim = self.rng.choice(list(self.nodes))
            self.at(self.rng.expovariate(1 / 0.01), lambda: self.kill(victim))

    def sums(self) -> dict[str, np.ndarray]:
        """Of each destination stage, by window and key."""
        found: dict[str, np.ndarray] = {}
        for sink in self.sinks:
            state = self.nodes[sink].task.operator.state
            keys = np.arange(KEYS + 1)[None, :] * BUCKETS + np.arange(1, self.case.windows + 1)[:, None]
            found[sink.stage] = found.get(sink.stage, 0) + state.get(keys.ravel()).reshape(keys.shape)
        return found

    def read(self, source: WorkerId, window: int) -> np.ndarray:
        """The rows of a source's window, the first being 0."""
        rows, windows = self.rows[source], self.case.windows
        return rows[len(rows) * window // windows : len(rows) * (window + 1) // windows]

    def model(self) -> dict[str, np.ndarray]:
        """What they are to be."""
        windows, factors = self.case.windows, self.drawn.factors()
        read: dict[str, np.ndarray] = {}
        for worker in self.rows:
            whole = read.setdefault(worker.stage, np.zeros((windows, KEYS + 1)))
            for window in range(windows):
                part = self.read(worker, window)
                np.add.at(whole[window], part[:, 0].astype(int), part[:, 1])
        return {
            stage: sum(count * read[source] for source, count in factors[stage].items()) + np.zeros((windows, KEYS + 1))
            for stage in self.topology.sinks
        }


def drawn_topology(drawn: Drawn, start_from: Path | None = None) -> tuple[Topology | None, list[Problem]]:
    """The topology, or what is wrong with it."""
    values = drawn.values | ({"start_from": str(start_from)} if start_from else {})
    problems = check_values(values, [operator_problems, savepoint_problems], with_input=False)
    if problems:
        return None, problems
    topology = resolved(TOPOLOGY.validate_python(values))
    return replace(topology, links=replace(topology.links, block_bytes=drawn.rng.choice([16, 64]))), []


def is_as_the_model_says(kind: type[Graph], drawn: Drawn, file: str, scheme: str) -> bool:
    """Simulate a graph; AssertionError where it comes to something else. False for one that is refused, which may be
    for one reason alone."""
    topology, problems = drawn_topology(drawn)
    if topology is None:
        assert all(problem.wrong == LEADS_AWAY for problem in problems), f"seed {drawn.seed}: {problems}"
        return False
    simulation = kind(drawn, topology, drawn.case())
    run_or_replay(simulation, file, scheme)
    assert not (wrong := verdict(simulation)), f"seed {drawn.seed}: {wrong}"
    return True


def verdict(simulation: Graph) -> str:
    """Empty when all is well."""
    found, model = simulation.sums(), simulation.model()
    for stage in model:
        off = found[stage] - model[stage]
        marks = off[:, MARKS].sum()
        items = off[:, :KEYS]
        if simulation.drawn.is_exact or (
            not simulation.killed and not simulation.case.cuts and not simulation.case.rollbacks
        ):
            if items.any() or marks:
                return f"{stage}: off by {items.sum(axis=1)} marks {marks}"
        elif simulation.drawn.name == "at_least_once" and (items < 0).any():
            return f"{stage} lacks {items.sum(axis=1)}"
    for sink, announced in simulation.announced.items():
        if [window for window, _ in announced] != list(range(1, simulation.case.windows + 1)):
            return f"{sink} announced {announced}"
    if simulation.drawn.is_exact:
        told = sum(items for sink, ends in simulation.announced.items() if not sink.copy for _, items in ends)
        if told != simulation.items:
            return f"told of {told} items, not {simulation.items}"
    return ""


class Drained(DataflowSimulation):
    """Part of a simulation whose sources read a stream without end, which is drained at a random moment."""

    def begin_granting(self) -> None:
        """Before the workers are made."""
        self.horizon = self.decided = FIRST
        self.granting = Granting(0.0)

    def drain_in(self, seconds: float) -> None:
        """Let windows be read, until then."""
        self.at(0.01, self.look)
        self.at(seconds, self.drain)

    def drain(self) -> None:
        self.decided = self.decided._replace(drained=True)

    def look(self) -> None:
        reached = max(self.nodes[source].task.epoch for source in self.sources)
        decided = self.granting.after(self.decided, reached, self.now) if reached < 30 else self.decided
        if decided.drained and all(up for _, up in self.truth.values()):
            decided = decided._replace(final=True)
        self.decided = decided
        self.at(self.rng.expovariate(1 / 0.004), lambda: self.written(decided))

    def written(self, decided: Any) -> None:
        if decided != self.horizon:
            self.horizon = decided
            if decided.final:
                self.case.windows = decided.windows
            for node in self.nodes.values():
                self.tell(
                    node,
                    lambda node=node: isinstance(node.task, Task) and node.task.grant(decided.windows, decided.final),
                )
        if not decided.final:
            self.at(self.rng.expovariate(1 / 0.005), self.look)

    def tell_all(self, node: Any) -> None:
        super().tell_all(node)
        if isinstance(node.task, Task):
            node.task.grant(self.horizon.windows, self.horizon.final)


class EndlessGraph(Drained, Graph):
    """Sources read a stream without end."""

    def __init__(self, drawn: Drawn, topology: Topology, case: DataflowCase) -> None:
        self.size = drawn.rng.randint(1, 7)
        self.begin_granting()
        super().__init__(drawn, topology, replace(case, windows=1 << 40))
        self.drain_in(self.rng.uniform(0.01, 0.3))

    def _rows(self, number: int) -> np.ndarray:
        numbers = np.random.default_rng([self.seed, number])
        high = 1 << 24 if self.case.heavy else 4
        return np.column_stack([numbers.integers(0, KEYS, 20_000), numbers.integers(1, high, 20_000)]).astype(float)

    @property
    def items(self) -> int:
        return self.size * self.case.windows * len(self.sources) if self.case.windows < 1 << 40 else 1000

    def make_task(self, node: Any) -> Any:
        task = super().make_task(node)
        if isinstance(getattr(task, "reader", None), Reader):
            task.reader = Reader(Rows(self.rows[node.me.primary]), None, 64, self.size)
            task.grant(self.horizon.windows, self.horizon.final)
        return task

    def read(self, source: WorkerId, window: int) -> np.ndarray:
        return self.rows[source][self.size * window : self.size * (window + 1)]
