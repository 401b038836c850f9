"""Opens Source, Processor and Sink as workers will, and asks the sources for columns, lengths and samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.configs.topology import Topology
from riprap.engine.run.job_schema import JobSchema, RowFacts
from riprap.operators import returns
from riprap.operators.base import Context, Operator, Processor, Sink, Source
from riprap.operators.learning.classes import CLASSES, Classes, Labels
from riprap.operators.learning.curvature import second_moments
from riprap.operators.learning.linearity import check_linear
from riprap.operators.loading import make_operator

SAMPLE_ITEMS = 256
"""The number of items on which a processor that splits its work is tried."""


def is_hybrid(topology: Topology) -> bool:
    """True when processors send linear parts of their work (LEC III-D)."""
    return topology.fault_tolerance.get("attachment") == "hybrid"


def open_roles(topology: Topology, verified: tuple[str, ...]) -> JobSchema:
    """Open all sources and one operator of each other stage, and try a processor that splits its work."""
    (source_stage,), (middle,), (last,) = topology.sources, topology.processors, topology.sinks
    tasks = range(topology.stages[source_stage].parallelism)
    sources = [_open_source(topology, source_stage, index, verified) for index in tasks]
    lengths = _lengths(topology, source_stage, sources)
    columns, label = returns.schema(sources[0])
    processor, sink = _make(topology, middle), _make(topology, last)
    assert isinstance(processor, Processor) and isinstance(sink, Sink)
    processor.open(_context(topology, middle, 0, columns, label))
    if is_hybrid(topology):
        count = SAMPLE_ITEMS if lengths is None else min(SAMPLE_ITEMS, lengths[0])
        check_linear(processor, returns.items(sources[0], 0, count, sources[0].read(0, count), len(columns)))
    classes = _classes(sources, columns, label) if processor.tells_classes and label else CLASSES
    sink.processor = processor
    sink.open(_context(topology, last, 0, columns, label))
    features = [index for index, name in enumerate(columns) if name != label]
    moments = second_moments(_samples(sources, len(columns)), features) if sink.wants_moments else None
    items = None if lengths is None else sum(lengths)
    windows = None if lengths is None else max(-(-length // topology.micro_batch) for length in lengths)
    return JobSchema(items, windows, verified, columns, label, RowFacts(classes, moments))


def _samples(sources: Sequence[Source], width: int) -> Iterator[np.ndarray]:
    for source in sources:
        yield from (returns.sampled(source, run, width)[1] for run in source.sample())


def _lengths(topology: Topology, stage: str, sources: Sequence[Source]) -> list[int] | None:
    """The items of each source task, None where they have no end; ConfigError where only some have one, or no item."""
    counts = [returns.stream_length(source) for source in sources]
    if all(count is None for count in counts):
        return None
    if None in counts:
        raise ConfigError(
            f"stages.{stage}: some tasks of {topology.stages[stage].operator} have no end"
            f" (their `items` is None), others have one",
            "let `open` set `items` in all of them, or in none",
        )
    if 0 in counts:
        raise ConfigError(
            f"{counts.count(0)} of {len(counts)} source tasks would have no items",
            "raise input.limit or input.repeat, or lower the source's parallelism",
        )
    return [count for count in counts if count is not None]


def _classes(sources: Sequence[Source], columns: Sequence[str], label: str) -> Classes:
    """The labels of the two classes in the sources' samples; DataError when they are not two."""
    labels, index = Labels(label), columns.index(label)
    for number, source in enumerate(sources):
        for run in source.sample():
            start, items = returns.sampled(source, run, len(columns))
            labels.look(items[:, index], start, f" of source {number}" if len(sources) > 1 else "")
    return labels.classes()


def _open_source(topology: Topology, stage: str, index: int, verified: tuple[str, ...]) -> Source:
    source = _make(topology, stage)
    assert isinstance(source, Source)
    context = _context(topology, stage, index)
    source.open(replace(context, input={**context.input, "verified": verified}))
    return source


def _make(topology: Topology, stage: str) -> Operator:
    return make_operator(topology.stages[stage].operator, topology.stages[stage].options)


def _context(
    topology: Topology, stage: str, index: int, columns: tuple[str, ...] = (), label: str | None = None
) -> Context:
    source_input: dict[str, Any] = asdict(topology.input)
    return Context(columns, label, topology.seed, index, topology.stages[stage].parallelism, source_input)
