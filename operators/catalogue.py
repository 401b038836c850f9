"""The catalogue of operators: their names, and their options, metrics and results as their code describes them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from riprap.operators.base import Operator, Processor, Sink, Source
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.loading import load_operator
from riprap.operators.names import short_name
from riprap.operators.options import Parameter, options_of, spelled
from riprap.operators.shipped import SHIPPED

KINDS: dict[type[Operator], str] = {
    Source: "source", Processor: "processor", Sink: "sink", DataflowOperator: "dataflow",
}  # fmt: skip
"""An operator's kind by its base class. A DataflowOperator, `dataflow`, stands wherever the edges put them."""


@dataclass(frozen=True)
class Metric:
    """A number of `metrics()`: its meaning, and the way in which those of several tasks become the job's."""

    name: str
    says: str
    combines: str


@dataclass(frozen=True)
class Description:
    """An operator as its code describes it; `results` is empty where it leaves nothing behind."""

    name: str
    kind: str
    summary: str
    more: str
    options: tuple[Parameter, ...]
    metrics: tuple[Metric, ...]
    results: str
    splits: bool
    """True when a processor splits its work, as the attachment `hybrid` needs it."""
    prepares: bool
    """True when a stage of it may have several compute threads."""
    needs_order: bool
    """True when a scheme must give it blocks in the same order again."""

    @property
    def example(self) -> str:
        """A stage of it in YAML."""
        given = {option.name: option.option.example for option in self.options if option.option}
        options = ", ".join(f"{name}: {value}" for name, value in given.items() if value)
        stage = self.kind if self.kind != "dataflow" else self.name.partition(":")[2].lower()
        return f'{stage}: {{operator: "{self.name}"' + (f", options: {{{options}}}}}" if options else "}")


def describe(path: str) -> Description:
    """The operator that `module:Class` names, shipped or the user's own; ConfigError when it cannot be loaded."""
    operator = load_operator(path)
    summary, more = _sentences(operator)
    kind = next(name for base, name in KINDS.items() if issubclass(operator, base))
    return Description(
        name=short_name(f"{operator.__module__}:{operator.__name__}"),
        kind=kind,
        summary=summary,
        more=more,
        options=tuple(options_of(operator).values()),
        metrics=tuple(_metrics(operator)),
        results=_results(operator),
        splits=issubclass(operator, Processor) and operator.process_linear is not Processor.process_linear,
        prepares=issubclass(operator, DataflowOperator) and operator.prepare is not DataflowOperator.prepare,
        needs_order=issubclass(operator, DataflowOperator) and operator.needs_order,
    )


def named(text: str) -> list[str]:
    """The import paths that are meant by `module:Class`, or by the name of a shipped module: all of its operators."""
    known = [name for names in SHIPPED.values() for name in names]
    return [name for name in known if name.partition(":")[0] == text] or [text]


def option_row(option: Parameter) -> Mapping[str, str]:
    """A table's row of an option, all as text."""
    meaning = option.option
    null = " or null" if option.nullable else ""
    return {
        "option": option.name,
        "type": option.type + null,
        "default": "required" if option.is_required else spelled(option.default),
        "range": meaning.range if meaning else "",
        "unit": meaning.unit if meaning else "",
        "meaning": meaning.says if meaning else "",
    }


def _sentences(operator: type[Operator]) -> tuple[str, str]:
    """The first sentence of the docstring, and the rest of it, each as one line a paragraph."""
    text = inspect.getdoc(operator) if operator.__doc__ else ""
    paragraphs = [" ".join(part.split()) for part in (text or "").split("\n\n")]
    first, _, rest = paragraphs[0].partition(". ")
    return first.rstrip("."), "\n".join(part for part in (rest, *paragraphs[1:]) if part)


def _metrics(operator: type[Operator]) -> Iterator[Metric]:
    if issubclass(operator, Sink | DataflowOperator):
        for name, says in operator.meanings.items():
            yield Metric(name, says, operator.combines.get(name, "one for each task"))


def _results(operator: type[Operator]) -> str:
    """The docstring of the method that hands the results over, where the class or a parent of it has one."""
    method = operator.model if issubclass(operator, Sink) else getattr(operator, "results", None)
    if method is None or method in (Sink.model, DataflowOperator.results):
        return ""
    return re.sub(r"\s+", " ", inspect.getdoc(method) or "")
