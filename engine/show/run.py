"""One run directory: its topology, the operators that end its streams, and the files that they have left."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from riprap.codec.errors import ConfigError, DataError, RiprapError
from riprap.codec.json_text import from_json
from riprap.configs.document import read_document
from riprap.configs.topology import Topology
from riprap.engine.run_directory.directory import SCHEMA, TOPOLOGY
from riprap.engine.worker.epochs_file import file_name
from riprap.operators.base import Operator, Sink
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.loading import load_operator
from riprap.operators.tables import Schema


class RunFiles:
    """A run directory that is read only. ConfigError when it is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / TOPOLOGY).is_file():
            raise ConfigError(f"{path} is not a run directory: it has no {TOPOLOGY}", "name one below runs/")
        try:
            self.topology = Topology.from_dict(read_document(path / TOPOLOGY).values)
        except (KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{path / TOPOLOGY} is not what a run leaves: {error!r}", "name another directory"
            ) from error
        self.notes: list[str] = []
        """The files that could not be read as their operator would have it."""

    @property
    def schema(self) -> Schema:
        """The columns of the input, as they were when the job was started."""
        try:
            said = from_json((self.path / SCHEMA).read_text())
            return Schema(tuple(said["columns"]), said["label"])
        except (OSError, ValueError, KeyError, TypeError):
            return Schema()

    def operator(self, stage: str) -> type[Operator]:
        """The class of a destination; where it cannot be imported, one that does not describe its results."""
        name = self.topology.stages[stage].operator
        try:
            return load_operator(name)
        except RiprapError as error:
            note = f"{name} cannot be imported from here, so its results are shown as arrays: {error.args[0]}"
            if note not in self.notes:
                self.notes.append(note)
            return DataflowOperator if list(self.window_files()) else Sink

    def numbered(self, stage: str, file: str) -> list[Path]:
        """A file of each task of a destination, of those that are there: `model.npz`, or `model.0.npz`, ..."""
        sinks = [worker for name in self.topology.sinks for worker in self.topology.tasks(name)]
        names = [file_name(file, number, len(sinks)) for number in range(len(sinks))]
        paths = [self.path / name for name, worker in zip(names, sinks, strict=True) if worker.stage == stage]
        return [path for path in paths if path.is_file()]

    def window_files(self) -> Iterator[tuple[str, int, int, Path]]:
        """(name, window, task, file) of the files written of windows, by name, window and task."""
        found = []
        for path in (self.path / "output").glob("*.npz"):
            name, *numbers = path.stem.rsplit(".", 2)
            if len(numbers) == 2 and all(map(str.isdecimal, numbers)):
                found.append((name, int(numbers[1]), int(numbers[0]), path))
        yield from sorted(found)


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file. DataError when it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read: {error}", "run the job anew") from error


def rows_in(path: Path) -> np.ndarray:
    """The rows of an .npy file, where they lie. DataError when it is damaged, or a sink is just beginning it anew."""
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}", "try again if the job goes on, else run it anew") from error
