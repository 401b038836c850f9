"""Each law of sources is broken by a mutant that keeps all others, and names its line."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from trial_parts import broken, check_place

from riprap.operators.base import Context, Source
from riprap.operators.trial import source
from riprap.operators.trial.law import try_laws
from riprap.operators.trial.subjects import opened_source


class Counting(Source):
    """What the others are mutants of."""

    items = 200

    def schema(self) -> tuple[tuple[str, ...], str | None]:
        return ("a", "b"), "b"

    def read(self, start: int, stop: int) -> np.ndarray:
        return np.column_stack([np.arange(start, stop), np.arange(start, stop) % 2]).astype(float)


class Empty(Counting):
    def open(self, context: Context) -> None:
        self.items = 0


class Endless(Counting):
    def open(self, context: Context) -> None:
        self.items = None


class Unnamed(Counting):
    def schema(self) -> Any:
        return None


class TooFew(Counting):
    def read(self, start: int, stop: int) -> np.ndarray:
        return super().read(start, stop - 1)


class Raising(Counting):
    def read(self, start: int, stop: int) -> np.ndarray:
        raise OSError("the disk is gone")


class Holes(Counting):
    def read(self, start: int, stop: int) -> np.ndarray:
        return np.where(super().read(start, stop) == 7, np.nan, super().read(start, stop))


class Random(Counting):
    def read(self, start: int, stop: int) -> np.ndarray:
        return super().read(start, stop) + np.random.default_rng().random()


class ByIncarnation(Counting):
    made = itertools.count()

    def open(self, context: Context) -> None:
        self.number = next(self.made)

    def read(self, start: int, stop: int) -> np.ndarray:
        return super().read(start, stop) + self.number


class ByPiece(Counting):
    def read(self, start: int, stop: int) -> np.ndarray:
        return super().read(start, stop) - super().read(start, stop).mean(axis=0)


class Reused(Counting):
    def open(self, context: Context) -> None:
        self.buffer = np.zeros((200, 2))

    def read(self, start: int, stop: int) -> np.ndarray:
        self.buffer[: stop - start] = super().read(start, stop)
        return self.buffer[: stop - start]


class NoEnd(Counting):
    items = 400

    def read(self, start: int, stop: int) -> np.ndarray:
        if stop > 300:
            raise EOFError("there is no more")
        return super().read(start, stop)


SOURCES = [
    (Empty, "open", "schema names the columns", "set `items` to 0"),
    (Unnamed, "schema", "schema names the columns", "Unnamed.schema returned None"),
    (TooFew, "read", "read returns float64 rows", "TooFew.read(0, 200) returned an array of float64 of shape (199, 2)"),
    (Raising, "read", "read returns float64 rows", "Raising.read raised OSError: the disk is gone"),
    (Holes, "read", "read returns finite numbers", "1 of 400 numbers of array 0 are NaN"),
    (Random, "read", "read returns the same bytes again", "Random.read returned other rows the second time"),
    (ByIncarnation, "read", "a second source reads the same bytes", "returned other rows from a second source"),
    (ByPiece, "read", "in pieces it reads the same bytes", "returned other rows in pieces"),
    (Reused, "read", "rows that were read stay as they are", "changed the rows that it had returned before"),
    (NoEnd, "read", "the last items can be read", "NoEnd.read raised EOFError: there is no more"),
]


@pytest.mark.parametrize(("mutant", "method", "law", "said"), SOURCES, ids=lambda value: getattr(value, "__name__", ""))
def test_each_law_of_sources(mutant: type[Source], method: str, law: str, said: str) -> None:
    case = source.SourceCase(partial(opened_source, mutant, Context()), 200)
    ((text, complaint),) = broken(list(try_laws("source", case, source.LAWS))).items()
    assert text.startswith(law) and said in complaint
    check_place(complaint, mutant, method)


def test_a_sound_source_breaks_no_law_and_may_keep_bad_rows() -> None:
    for kind, keeps in ((Counting, False), (Holes, True), (Endless, False)):
        case = source.SourceCase(partial(opened_source, kind, Context()), 200, keeps)
        assert all(outcome.ok for outcome in try_laws("source", case, source.LAWS))
