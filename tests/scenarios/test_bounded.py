"""What a job keeps does not grow with its stream: the backup server's directory, saved bytes per item, peak memory.

Each job runs over a short stream and over one ten times as long: the same items again and again, in as many windows.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_harness import WORD_COUNT, Cli
from kazoo.client import KazooClient

from riprap.backupserver.segments import SEGMENT_BYTES
from riprap.controller.zookeeper import EmbeddedZooKeeper
from riprap.engine.schemes.approximate import Approximate

LINES, WORDS_OF_A_LINE, WORDS = 10_000, 12, 20_000
PACKETS, FLOWS = 200_000, 5_000
LONGER = 10
LOOK_S, LOOKS_MIN = 0.01, 10  # from one look at the announced windows to the next; how many there are at least
MB = 1e6
RUN_MAX_S = 60.0
HEAVY_HITTERS = """\
job: heavy
input: {path: packets, repeat: 1, limit: null}
micro_batch: 250000
stages:
  sketch:
    operator: "heavy_hitters:LocalSketch"
    parallelism: 2
    options: {threshold: 1.0e+6, width: 1000}
  merge:
    operator: "heavy_hitters:GlobalSketch"
    parallelism: 1
    options: {threshold: 1.0e+6, width: 1000}
edges:
  - {from: sketch, to: merge, partitioning: merge}
fault_tolerance: {scheme: none}
"""


@dataclass(frozen=True)
class Case:
    """A job, and how it may differ over the long stream.

    `segments` are those that the backup server's directory may hold at any time: one that is written, some that are
    kept until what supersedes them has been synced, one of which a little lives; `grows_mb` is by how much the peak
    memory of a worker, and that of the backup server, may exceed the peak of the short stream: schemes that save every
    item may have 64 MiB under way to the backup server (BackupClient), at most half of what they save in all.

    `save_mb` is what one save of a state may take: a task's whole state (0.2 MB of words, 0.04 of a sketch), and what
    it has put out that has not arrived: a block or, to a starved receiver, more; under `mini_batch` a window's. `saves`
    are a window, and a second: of the four tasks each pauses 50 ms between two saves (`PAUSE_S`), exact schemes do not
    look at the clock.
    """

    topology: str
    scheme: str
    repeat: int
    block_bytes: int
    segments: float
    grows_mb: tuple[float, float]
    save_mb: float
    saves: tuple[float, float]
    exact: bool = True


WINDOW_MB = Approximate.window.nbytes / 2**20
"""What a link may hold back; a task that splits lines has two."""
CASES = {
    "words-approximate": Case(
        "words",
        "{scheme: approximate, theta: 2, l: 10, gamma: 10}",
        *(20, 16384, 2, (24 + 2 * WINDOW_MB, 32), 0.4, (8, 80), False),
    ),
    "words-mini-batch": Case("words", "{scheme: mini_batch}", 20, 65536, 4, (64, 32), 2.5, (4, 0)),
    "words-upstream": Case("words", "{scheme: upstream_backup}", 5, 32768, 4, (64, 256), 1, (40, 0)),
    "heavy-approximate": Case(
        "heavy",
        "{scheme: approximate, theta: 2000, l: 100, gamma: 100, window: hopping}",
        *(5, 2048, 2, (16, 32), 0.6, (8, 80), False),
    ),
}
"""A client of the backup server has 64 MB on the way to it at most; `upstream_backup` saves what it keeps with every
state, so the server's memory holds some of that at a time."""


LONG = {"words-approximate", "words-mini-batch", "words-upstream"}


@dataclass
class Seen:
    """What was seen of a run."""

    summary: dict[str, Any] = field(default_factory=dict)
    directory_bytes: int = 0
    server_rss_mb: float = 0.0
    looks: int = 0

    def look(self, out: Path, cli: Cli) -> None:
        """Measure the backup server: the bytes in its directory, and the peak of its resident memory."""
        self.looks += 1
        self.directory_bytes = max(self.directory_bytes, _bytes_under(out / "backup"))
        for pid in cli.processes():
            if _is_backup_server(pid):
                self.server_rss_mb = max(self.server_rss_mb, _peak_rss_mb(pid))

    @property
    def saved_bytes(self) -> int:
        """All that was sent to the backup server, of states and items."""
        backups = self.summary["backups"]
        return int(backups["state_backup_bytes"] + backups["item_backup_bytes"])

    @property
    def moved_bytes(self) -> int:
        """All that went over links, copied or by reference."""
        return sum(sum(self.summary[name].values()) for name in ("bytes_sent", "bytes_shared"))


def _bytes_under(folder: Path) -> int:
    total = 0
    for path in folder.glob("*/*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue  # compacted meanwhile
    return total


def _is_backup_server(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"backup" in words and b"--listen" in words


def _peak_rss_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1e3 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)


def _write_packets(folder: Path) -> None:
    """Record shards as `riprap prep packets` writes them, of the two fields that sketches read."""
    folder.mkdir()
    rng = np.random.default_rng(4)
    records = np.zeros(PACKETS, [("size", "<u4"), ("flow", "<u8")])
    records["flow"] = np.minimum(rng.zipf(1.2, PACKETS), FLOWS)
    records["size"] = rng.integers(40, 1501, PACKETS)
    np.save(folder / "part-00000.npy", records)
    content = (folder / "part-00000.npy").read_bytes()
    shard = {"file": "part-00000.npy", "rows": PACKETS, "bytes": len(content), "crc32": f"{zlib.crc32(content):08x}"}
    manifest = {"format": "riprap-records", "version": 1, "rows": PACKETS, "dtype": records.dtype.descr}
    (folder / "manifest.json").write_text(json.dumps(manifest | {"shards": [shard]}))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A working directory with both jobs and their input."""
    directory = tmp_path_factory.mktemp("bounded")
    numbers = np.random.default_rng(3).integers(0, WORDS, (LINES, WORDS_OF_A_LINE))
    letters = ["".join(chr(97 + n // 26**place % 26) for place in range(4)) for n in range(WORDS)]
    (directory / "text.txt").write_text("".join(" ".join(letters[n] for n in row) + "\n" for row in numbers))
    (directory / "words.yaml").write_text(WORD_COUNT % (1, 10_000))
    (directory / "heavy.yaml").write_text(HEAVY_HITTERS)
    _write_packets(directory / "packets")
    cli = Cli(directory)
    yield cli
    cli.kill_all()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


Run = Callable[[str, int], Seen]


@pytest.fixture(scope="module")
def run(shared: Cli, zookeeper: EmbeddedZooKeeper) -> Run:
    """Runs a case over so many times its short stream, and looks whenever windows were announced."""

    def run_case(name: str, times: int) -> Seen:
        case, out, seen = CASES[name], shared.directory / f"{name}-{times}", Seen()
        client = KazooClient(zookeeper.connect_string)
        client.start()
        client.ensure_path(f"/{out.name}")
        client.stop()
        client.close()
        words = ["run", f"{case.topology}.yaml", "--json", "--out", out.name]
        words += ["--zookeeper", f"{zookeeper.connect_string}/{out.name}"]
        words += ["--set", f"input.repeat={case.repeat * times}", "--set", f"fault_tolerance={case.scheme}"]
        process = shared.start(*words, "--set", f"links.block_bytes={case.block_bytes}")
        _look_until_it_ends(process, out, seen, shared)
        found, complaint = process.communicate(timeout=120)
        assert process.returncode == 0, complaint
        seen.summary = json.loads(found)
        return seen

    return run_case


def _look_until_it_ends(process: subprocess.Popen[str], out: Path, seen: Seen, cli: Cli) -> None:
    deadline, announced = time.monotonic() + RUN_MAX_S, 0
    while process.poll() is None and time.monotonic() < deadline:
        now = sum(path.stat().st_size for path in out.glob("epochs*.csv"))
        if now > announced:
            announced = now
            seen.look(out, cli)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_S)


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in CASES]
)
def pair(request: pytest.FixtureRequest, run: Run) -> tuple[Case, Seen, Seen]:
    """A case over its short stream, and over the long one."""
    name = request.param
    short, long = run(name, 1), run(name, LONGER)
    assert long.summary["items"] == LONGER * short.summary["items"]
    return CASES[name], short, long


def test_the_directory_of_the_backup_server_does_not_grow(pair: tuple[Case, Seen, Seen]) -> None:
    """Segments of which little is needed are rewritten and deleted; exact schemes write far more than may lie there."""
    case, _, long = pair
    assert long.looks >= LOOKS_MIN, "looked often enough for a maximum"
    assert long.directory_bytes <= case.segments * SEGMENT_BYTES, f"{long.directory_bytes / MB:.0f} MB"
    if case.exact:
        assert long.saved_bytes > case.segments * SEGMENT_BYTES, "enough was written to tell"


def test_states_are_saved_no_oftener_and_no_larger_in_a_long_stream(pair: tuple[Case, Seen, Seen]) -> None:
    """Bounded is what a save takes, and how many there are a window and a second; a ratio of two runs is not."""
    case, _, long = pair
    summary, saves = long.summary, long.summary["backups"]["state_backups"]
    assert summary["backups"]["state_backup_bytes"] <= case.save_mb * MB * saves
    assert saves <= case.saves[0] * summary["epochs"] + case.saves[1] * summary["seconds"]


def test_an_item_is_saved_once_in_a_long_stream(pair: tuple[Case, Seen, Seen]) -> None:
    """Exact schemes save every item; the approximate one saves those that wait, which depends on the machine."""
    case, short, long = pair
    few, many = (seen.summary["backups"]["item_backup_bytes"] for seen in (short, long))
    assert many == LONGER * few if case.exact else many <= long.moved_bytes


def test_no_process_needs_more_memory_for_a_long_stream(pair: tuple[Case, Seen, Seen]) -> None:
    case, short, long = pair
    for worker, peak in short.summary["peak_rss_mb"].items():
        assert long.summary["peak_rss_mb"][worker] - peak <= case.grows_mb[0], worker
    assert 0 < long.server_rss_mb <= short.server_rss_mb + case.grows_mb[1]
