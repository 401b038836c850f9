"""The harness of the peers' programs: the command line they are given, and the one line of JSON they print.

    logistic: PROGRAM --data FOLDER --scratch FOLDER --items N --micro-batch N --learning-rate F --test FOLDER
    words:    PROGRAM --data FOLDER --scratch FOLDER --passes N
    flows:    PROGRAM --data FOLDER --scratch FOLDER --passes N --threshold BYTES

Runs in every peer's environment, so it needs nothing but the standard library and NumPy. `begin` is called when the
first record is about to be read (imports, clusters and files behind it), `report` after the last one is processed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_clock: dict[str, float] = {}


def arguments() -> argparse.Namespace:
    """The command line; every program is given all that its workload has."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True, help="a folder of .npy shards, or of .txt files")
    parser.add_argument("--items", type=int, default=0, help="logistic: how many, the shards again and again")
    parser.add_argument("--micro-batch", type=int, default=100_000)
    parser.add_argument("--learning-rate", type=float, default=1.0, help="logistic: divided by the root of the epoch")
    parser.add_argument("--test", type=Path, help="logistic: shards to predict at the end")
    parser.add_argument("--passes", type=int, default=1, help="words, flows: how often to stream the data")
    parser.add_argument("--threshold", type=float, default=0.0, help="flows: bytes of a window, which is one pass")
    parser.add_argument("--scratch", type=Path, help="an empty folder for what the program must write")
    return parser.parse_args()


def shards(folder: Path) -> list[np.ndarray]:
    """The arrays of a folder, memory-mapped: float64 matrices whose first column is the label, or packets."""
    return [np.load(file, mmap_mode="r") for file in sorted(folder.glob("part-*.npy"))]


def micro_batches(folder: Path, items: int, size: int) -> Iterator[np.ndarray]:
    """`items` rows in blocks of `size`, from the first again after the last: views, or copies across two shards."""
    parts, wanted = [], min(size, items)
    while items > 0:
        for shard in shards(folder):
            first = 0
            while first < len(shard) and items > 0:
                part = shard[first : first + wanted]
                parts.append(part)
                first += len(part)
                wanted -= len(part)
                if not wanted:
                    yield parts[0] if len(parts) == 1 else np.concatenate(parts)
                    items -= sum(map(len, parts))
                    parts, wanted = [], min(size, items)


def begin() -> None:
    """The first call starts the clock, later ones do nothing."""
    _clock.setdefault("begin", time.time())


def end() -> None:
    """Stops the clock; without it `report` does."""
    _clock["end"] = time.time()


def score(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Log loss in nats and accuracy of predicted probabilities of class 1."""
    p = np.clip(np.asarray(probabilities, float), 1e-12, 1 - 1e-12)
    loss = -np.where(labels > 0.5, np.log(p), np.log1p(-p)).mean()
    return {"log_loss": float(loss), "accuracy": float(((p > 0.5) == (labels > 0.5)).mean())}


def score_weights(weights: np.ndarray, intercept: float, test: Path) -> dict[str, float]:
    """The scores of a linear model, on shards that it was not trained on."""
    rows = np.concatenate(shards(test))
    return score(1 / (1 + np.exp(-(rows[:, 1:] @ np.asarray(weights, float) + intercept))), rows[:, 0])


def count_result(counts: Mapping[str, int], passes: int) -> dict[str, Any]:
    """The numbers of words and of different words, and a digest of the counts, all of one pass."""
    lines = sorted(f"{word} {count // passes}\n" for word, count in counts.items() if word)
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()[:16]
    total = sum(count for word, count in counts.items() if word)
    return {"words": total // passes, "distinct": len(lines), "digest": digest}


def report(items: int, result: Mapping[str, Any], version: str) -> None:
    """Print the line: items, seconds, startup_seconds, peak_rss_mb (of this and the largest ended child), result."""
    finished = _clock.get("end", time.time())
    peak_kb = _own_peak_kb() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    line = {
        "items": items,
        "seconds": finished - _clock["begin"],
        "startup_seconds": _clock["begin"] - _process_started(),
        "peak_rss_mb": peak_kb / 1024,
        "result": dict(result),
        "version": version,
    }
    print(json.dumps(line), flush=True)


def _own_peak_kb() -> int:
    """Since exec: getrusage would also count what the process had been before, a copy of the one that started it."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])


def _process_started() -> float:
    """The start of this process, on the clock of time.time(), to a hundredth of a second (proc(5), stat field 22)."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    ago = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / 100
    return time.time() - ago
