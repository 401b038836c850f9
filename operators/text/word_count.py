"""Word count over lines of text (AF Table 3): blocks are counted at the source, totals kept downstream."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar

import numpy as np

from riprap.codec.errors import DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.options import Option, check
from riprap.operators.states import Decaying, HashMap, Windowed
from riprap.operators.states.decaying import FACTOR_MIN
from riprap.operators.tables import Arrays, Schema, Table, joined, lines_of, ordered
from riprap.operators.text.text import WordTable

RELATIVE = 0.01
Relative = Annotated[
    float,
    Option(
        "The part of a word's count that failures may take under approximate; .inf: as much as Theta",
        low=0,
        infinite=True,
    ),
]


class Tables(threading.local):
    """A table of words for each thread that counts."""

    def __init__(self, seed: int, ascii: bool) -> None:
        self.own = WordTable(seed, ascii)


class SplitWords(DataflowOperator):
    """Source stage: sends each word of a block once, with its count, by key.

    Text is split and counted in `prepare`, by as many threads as the stage has.
    Words are the longest runs of letters, marks and numbers of Unicode within a line of UTF-8, in lower case, character
    by character; bytes that are not valid UTF-8 separate words. With `ascii` they are the longest runs of A-Z and a-z:
    what `tr -cs A-Za-z '\\n' | tr A-Z a-z` makes.
    """

    def __init__(
        self, ascii: Annotated[bool, Option("Words of A to Z alone, which is faster; else those of Unicode")] = False
    ) -> None:
        check(self, ascii=ascii)
        self._ascii = ascii

    def open(self, context: Context) -> None:
        self._tables = Tables(context.seed, self._ascii)

    def prepare(self, items: Items) -> Items:
        """Lines: bytes (uint8) without line ends, and count + 1 offsets (int64); to words, bounds and counts."""
        try:
            data, offsets = items.arrays
            words = self._tables.own.split(data, offsets, 0)
        except (ValueError, TypeError) as error:
            raise DataError(f"the input has no lines: {error}", "Prepare it with riprap prep text.") from error
        return items._replace(arrays=words)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """The words prepared of a whole block: there is no state to include a part of it."""
        words, bounds, counts = items.arrays
        out.send_by_key((words, bounds), (counts,))
        return items.count


class CountWords(DataflowOperator):
    """Destination: the totals of its words. State: a hash map; divergence: the maximum difference of a count.

    Under `approximate` no word is lost whole, unless `relative` is infinite.
    """

    combines: ClassVar[Mapping[str, str]] = {"distinct_words": "sum"}  # each word is counted by one task
    meanings: ClassVar[Mapping[str, str]] = {"distinct_words": "words that differ"}

    def __init__(self, relative: Relative = RELATIVE) -> None:
        check(self, relative=relative)
        self.state: HashMap = HashMap("bytes", "maximum", "int64", float(relative))

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Words as (bytes, offsets), and their counts (int64)."""
        data, offsets, counts = items.arrays
        return first + self.state.add((data, offsets[first:]), counts[first:])

    def results(self) -> dict[str, np.ndarray]:
        """The words in the order of their bytes, as `words` (bytes) and `offsets`, with their `counts`."""
        return sorted_words(self.state)

    @classmethod
    def tables(cls, results: Sequence[Arrays], schema: Schema) -> dict[str, Table]:
        """`words`: each word and its count, the most frequent first."""
        return words_tables(results)

    def metrics(self) -> dict[str, float]:
        return {"distinct_words": float(len(self.state))}


class CountRecentWords(DataflowOperator):
    """Destination: the counts of the words of the last windows.

    A hopping window is also written when it ends, as `words`. State: a map as that of CountWords, of such a window.
    """

    meanings: ClassVar[Mapping[str, str]] = {"distinct_words": "words that differ, in the window that ended last"}

    def __init__(
        self,
        window: Annotated[
            str,
            Option(
                "By which older counts are forgotten", choices=("hopping", "sliding", "decaying"), example="hopping"
            ),
        ],
        window_epochs: Annotated[
            int, Option("The length of a hopping or sliding window", unit="micro-batches", low=1)
        ] = 1,
        factor: Annotated[
            float,
            Option("What each micro-batch leaves of older counts, if decaying", low=FACTOR_MIN, high=1, below=True),
        ] = 0.5,
        relative: Relative = RELATIVE,
    ) -> None:
        check(self, window=window, window_epochs=window_epochs, factor=factor, relative=relative)
        part = float(relative)
        values = "float64" if window == "decaying" else "int64"
        self.state: Windowed | Decaying

        def make() -> HashMap:
            return HashMap("bytes", "maximum", values, part)

        self.state = Decaying(make, factor) if window == "decaying" else Windowed(make, window, window_epochs)
        self.writes = ("words",) if self.state.window == "hopping" else ()
        self._distinct: int | None = None
        """The words that `metrics` has counted since a window was closed; None before it is asked."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Words as (bytes, offsets), and their counts (int64)."""
        data, offsets, counts = items.arrays
        return first + self.state.add(items.epoch, (data, offsets[first:]), counts[first:])

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        self.state.close(epoch)
        self._distinct = None
        if self.state.window == "hopping" and epoch % self.state.window_epochs == 0:
            out.write("words", self.results())

    def results(self) -> dict[str, np.ndarray]:
        """As those of CountWords, of the window that ends last."""
        return sorted_words(self.state.content())

    @classmethod
    def tables(cls, results: Sequence[Arrays], schema: Schema) -> dict[str, Table]:
        """`recent_words`: as `words` of CountWords, of the window that ends last."""
        return {"recent_words": words_tables(results)["words"]}

    @classmethod
    def window_columns(cls, name: str, arrays: Arrays) -> dict[str, np.ndarray]:
        """Each word and its count, by word."""
        return words_columns(arrays)

    def metrics(self) -> dict[str, float]:
        if self._distinct is None:
            self._distinct = len(self.state.content())
        return {"distinct_words": float(self._distinct)}


def words_columns(arrays: Arrays) -> dict[str, np.ndarray]:
    """Words as text, and their counts."""
    return {"word": lines_of(arrays["words"], arrays["offsets"]), "count": arrays["counts"]}


def words_tables(results: Sequence[Arrays]) -> dict[str, Table]:
    """`words`: those of all tasks, of which each has its own; the most frequent first, by word where they are equal."""
    columns = joined([words_columns(one) for one in results])
    ranks = list(zip((-columns["count"]).tolist(), columns["word"], strict=True))
    return {"words": Table(ordered(columns, np.array(sorted(range(len(ranks)), key=ranks.__getitem__), np.int64)))}


def sorted_words(state: HashMap) -> dict[str, np.ndarray]:
    """The words of a map in the order of their bytes, and their counts."""
    (data, offsets), counts = state.items()
    text, ends = data.tobytes(), offsets.tolist()
    words = [text[begin:end] for begin, end in pairwise(ends)]
    order = sorted(range(len(words)), key=words.__getitem__)
    lengths = [len(words[i]) for i in order]
    return {
        "words": np.frombuffer(b"".join(words[i] for i in order), np.uint8),
        "offsets": np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
        "counts": counts[order],
    }
