"""What runs on the compute thread of a worker: one task object, which owns its operator's state.

Tasks and schemes have no sockets and no clocks; they act through a Port. `build.make_task` picks the class by
the worker's place in the layout.
"""

from __future__ import annotations

from riprap.engine.tasks.processor import ProcessorTask
from riprap.engine.tasks.sink import SinkTask
from riprap.engine.tasks.source import SourceTask
from riprap.engine.tasks.task import Task

__all__ = ["ProcessorTask", "SinkTask", "SourceTask", "Task"]
