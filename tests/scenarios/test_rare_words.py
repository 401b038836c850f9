"""The shipped word count with eight kills: rare words, of which most texts consist, are all there.

Thresholds on the greatest difference of a count alone would lose them by thousands: none comes near a theta.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from cli_harness import REPO
from shared_cluster import SharedCluster

LINES, WORDS_OF_A_LINE, WORDS = 120_000, 10, 100_000
RELATIVE, THETA = 0.01, 10_000
VICTIMS = ("count.0", "count.1", "split.0", "count.0", "count.1", "split.1", "count.0", "count.1")
SETS = ("input.path=text.txt", "input.rate=60000", "micro_batch=2000", "links.block_bytes=65536")
"""At a rate, or on a busy machine all is read before the first kill."""


def word(number: int) -> str:
    """Four letters for each number."""
    return "".join(chr(97 + number // 26**place % 26) for place in range(4))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("rare")
    draw = np.random.default_rng(5)
    numbers = np.minimum(draw.zipf(1.2, (LINES, WORDS_OF_A_LINE)) - 1, WORDS - 1)
    (directory / "text.txt").write_text("".join(" ".join(map(word, row)) + "\n" for row in numbers.tolist()))
    shutil.copy(REPO / "configs" / "word_count.yaml", directory)
    return directory


def counted(out: Path) -> Counter[str]:
    """What both destinations found."""
    found: Counter[str] = Counter()
    for path in out.glob("model.*.npz"):
        with np.load(path) as model:
            text, ends = model["words"].tobytes().decode(), model["offsets"].tolist()
            found.update({text[a:b]: count for a, b, count in zip(ends, ends[1:], model["counts"].tolist())})
    return found


def test_no_word_is_lost_and_none_lacks_more_than_a_hundredth(cluster: SharedCluster, directory: Path) -> None:
    truth = Counter((directory / "text.txt").read_text().split())
    rare = sum(count < 10 for count in truth.values())
    assert rare > 10_000 and rare > len(truth) / 2, "most words are rare, as in any text"
    faults = [f"kill:{victim}@epoch={3 * number}" for number, victim in enumerate(VICTIMS, 1)]
    words = [part for value in SETS for part in ("--set", value)] + [p for fault in faults for p in ("--fault", fault)]
    summary = cluster.job(directory / "word_count.yaml", directory / "run", *words)
    assert Counter(failure["worker"] for failure in summary["failures"]) == Counter(VICTIMS)
    found = counted(directory / "run")
    assert found.keys() <= truth.keys()
    gone = truth.keys() - found.keys()
    assert not gone, f"{len(gone)} of {len(truth)} words are gone"
    for name, count in truth.items():
        assert 0 <= count - found[name] <= min(RELATIVE * count, THETA), (name, found[name], count)
