"""The files that a task writes of each window: its arrays for the run directory, and rows where the topology asks."""

from __future__ import annotations

from collections.abc import Mapping
from glob import escape
from pathlib import Path

import numpy as np

from riprap.codec.array_files import write_arrays
from riprap.codec.files import replacing
from riprap.configs.sections import Output
from riprap.engine.flow.table_files import write_table
from riprap.operators.dataflow import DataflowOperator

FOLDER, TENTATIVE = "output", "tentative"


class WindowFiles:
    """The files of one task. Each is there whole or not at all, and what a former incarnation of the task wrote stays.

    So rows are written once: an incarnation that closes a window again makes them of the arrays that are there.
    """

    def __init__(
        self, run_dir: Path, task: int, operator: type[DataflowOperator], output: Output | None = None
    ) -> None:
        self._run_dir, self._folder, self._task = run_dir, run_dir / FOLDER, task
        self._operator, self._output = operator, output
        self._written: set[Path] = set()

    def tentative(self) -> WindowFiles:
        """Those of windows from which some tasks' items are missing: in a folder of their own, and no rows of them."""
        files = WindowFiles(self._run_dir, self._task, self._operator)
        files._folder = self._run_dir / TENTATIVE
        return files

    def path(self, name: str, window: int) -> Path:
        """The place of a window's arrays."""
        return self._folder / f"{name}.{self._task}.{window}.npz"

    def write(self, name: str, window: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a window's arrays under a name; once more in this incarnation takes the place of the former."""
        path = self.path(name, window)
        if kept := path not in self._written and path.exists():
            if self._output is not None:
                with np.load(path) as file:
                    arrays = dict(file)
        else:
            self._folder.mkdir(exist_ok=True)
            self._written.add(path)
            with replacing(path) as file:
                write_arrays(file, arrays)
        if self._output is not None:
            self._write_rows(self._output, name, window, arrays, kept)

    def _write_rows(self, output: Output, name: str, window: int, arrays: Mapping[str, np.ndarray], kept: bool) -> None:
        path = output.file(name, self._task, window)
        if kept and path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        for partial in path.parent.glob(f".{escape(path.name)}.*.part"):  # of one that was killed as it wrote
            partial.unlink(missing_ok=True)
        write_table(path, self._operator.window_columns(name, arrays), output.format)
