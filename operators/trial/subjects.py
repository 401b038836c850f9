"""Makes fresh operators for a test: from a class, or from an operator that was made and not opened yet."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import TypeVar

from riprap.operators.base import Context, Processor, Sink, Source

T = TypeVar("T")


def maker(operator: type[T] | T) -> Callable[[], T]:
    """A function that makes one more of the kind."""
    return operator if isinstance(operator, type) else partial(deepcopy, operator)


def opened_source(make: Callable[[], Source], context: Context) -> Source:
    """A fresh source, opened."""
    source = make()
    source.open(context)
    return source


def opened_processor(make: Callable[[], Processor], context: Context) -> Processor:
    """A fresh processor, opened."""
    processor = make()
    processor.open(context)
    return processor


def opened_sink(make_sink: Callable[[], Sink], make_processor: Callable[[], Processor], context: Context) -> Sink:
    """A fresh sink, opened, with a processor of its own, as workers have it."""
    sink = make_sink()
    sink.processor = opened_processor(make_processor, context)
    sink.open(context)
    return sink
