"""A distributed stream engine whose streams keep flowing when workers die: all that users import, by one name.

    import riprap

    job = riprap.Job("words", input="shards", micro_batch=100_000, scheme=riprap.mini_batch())

The names below are imported when they are first used. In a checkout the subpackages (`riprap.engine`, ...) are the
folders at the top of the repository; in an installed copy they lie beside this file.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not (Path(__file__).parent / "codec").is_dir():
    __path__.append(str(Path(__file__).resolve().parent.parent))

if TYPE_CHECKING:
    from riprap.codec.codes import make_code
    from riprap.codec.errors import ConfigError, DataError, JobFailed, RiprapError
    from riprap.engine.api.compose import (
        Job,
        Stage,
        approximate,
        barrier,
        erasure,
        mini_batch,
        none,
        optimistic,
        partially_active,
        reactive,
        replication,
        resume,
        scheme,
        stop_the_world,
        upstream_backup,
    )
    from riprap.engine.api.progress import Progress
    from riprap.engine.api.run import Run
    from riprap.operators.base import Context, Processor, Sink, Source
    from riprap.operators.dataflow import DataflowOperator
    from riprap.operators.iteration.delta_iterate import DeltaIterate
    from riprap.operators.iteration.iterate import Iterate
    from riprap.operators.learning.estimators import from_estimator, load_model, predict, save_model, to_estimator
    from riprap.operators.learning.onnx_model import to_onnx
    from riprap.operators.options import Option
    from riprap.operators.outputs.transactional import TransactionalSink
    from riprap.operators.panes.panes import Panes
    from riprap.operators.panes.timed_lines import TimedLines
    from riprap.operators.per_item import ItemProcessor, ItemSource
    from riprap.operators.states import Backup, Decaying, HashMap, KeySet, Matrix, Number, State, Vector, Windowed
    from riprap.operators.tables import Table
    from riprap.sklearn import RiprapSGDClassifier, RiprapSGDRegressor
    from riprap.writing import write_shards

_PUBLIC = {
    "riprap.codec.codes": ("make_code",),
    "riprap.codec.errors": ("ConfigError", "DataError", "JobFailed", "RiprapError"),
    "riprap.engine.api.compose": (
        "Job", "Stage", "approximate", "barrier", "erasure", "mini_batch", "none", "optimistic",
        "partially_active", "reactive", "replication", "resume", "scheme", "stop_the_world", "upstream_backup",
    ),
    "riprap.engine.api.progress": ("Progress",),
    "riprap.engine.api.run": ("Run",),
    "riprap.operators.base": ("Context", "Processor", "Sink", "Source"),
    "riprap.operators.dataflow": ("DataflowOperator",),
    "riprap.operators.iteration.delta_iterate": ("DeltaIterate",),
    "riprap.operators.iteration.iterate": ("Iterate",),
    "riprap.operators.learning.estimators": ("from_estimator", "load_model", "predict", "save_model", "to_estimator"),
    "riprap.operators.learning.onnx_model": ("to_onnx",),
    "riprap.operators.options": ("Option",),
    "riprap.operators.outputs.transactional": ("TransactionalSink",),
    "riprap.operators.panes.panes": ("Panes",),
    "riprap.operators.panes.timed_lines": ("TimedLines",),
    "riprap.operators.per_item": ("ItemProcessor", "ItemSource"),
    "riprap.operators.states": (
        "Backup", "Decaying", "HashMap", "KeySet", "Matrix", "Number", "State", "Vector", "Windowed",
    ),
    "riprap.operators.tables": ("Table",),
    "riprap.sklearn": ("RiprapSGDClassifier", "RiprapSGDRegressor"),
    "riprap.writing": ("write_shards",),
}  # fmt: skip
"""By module, the names that users need."""

_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = [
    "Backup", "ConfigError", "Context", "DataError", "DataflowOperator", "Decaying", "DeltaIterate", "HashMap",
    "ItemProcessor", "ItemSource", "Iterate", "Job", "JobFailed", "KeySet", "Matrix", "Number", "Option", "Panes",
    "Processor", "Progress", "RiprapError", "RiprapSGDClassifier", "RiprapSGDRegressor", "Run", "Sink", "Source",
    "Stage", "State", "Table", "TimedLines", "TransactionalSink", "Vector", "Windowed", "approximate", "barrier",
    "erasure", "from_estimator", "load_model", "make_code", "mini_batch", "none", "optimistic",
    "partially_active",
    "predict", "reactive", "replication", "resume", "save_model", "scheme", "stop_the_world", "to_estimator", "to_onnx",
    "upstream_backup", "write_shards",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
