"""The queries of configs/ with real processes: what they write is what plain Python computes from the same input,
whichever exact scheme runs them and whoever is killed.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cli_harness import Cli
from shared_cluster import SharedCluster

from riprap.prep_spark import synth

CONFIGS = Path(__file__).parents[2] / "configs"
ROWS, BATCH, LAST, N = 30_000, 250, 10, 100
ACTIVE = "{scheme: partially_active, replicate: [merge.0], checkpoint_s: 0.2}"


def top_paths(lines: list[bytes]) -> dict[str, list[tuple[bytes, int]]]:
    """By file, the most frequent paths of the last windows."""
    parts: deque[Counter[bytes]] = deque(maxlen=LAST)
    found = {}
    for number, start in enumerate(range(0, len(lines), BATCH), 1):
        parts.append(Counter(line.split(b",", 2)[2] for line in lines[start : start + BATCH]))
        counts = sorted(sum(parts, Counter()).items(), key=lambda pair: (-pair[1], pair[0]))
        found[f"top.0.{number}.npz"] = counts[:N]
    return found


def written(run_dir: Path) -> dict[str, list[tuple[bytes, int]]]:
    """By file, the rows that a run wrote."""
    found = {}
    for path in (run_dir / "output").glob("*.npz"):
        with np.load(path) as arrays:
            text, ends = arrays["paths"].tobytes(), arrays["offsets"].tolist()
            paths = [text[a:b] for a, b in pairwise(ends)]
            found[path.name] = list(zip(paths, arrays["counts"].tolist(), strict=True))
    return found


REPLAY = "{scheme: partially_active, checkpoint_s: null, replay_s: 0.5}"


@pytest.mark.parametrize("scheme", [ACTIVE.replace("merge.0", "merge.0, top.0"), REPLAY, "{scheme: upstream_backup}"])
def test_the_most_frequent_paths_are_those_of_the_log(scheme: str, cli: Cli, cluster: SharedCluster) -> None:
    requests, job = cli.directory / "requests.txt", cli.directory / "top_paths.yaml"
    synth.worldcup(str(requests), ROWS)
    job.write_text((CONFIGS / job.name).read_text())
    sets = (f"input.path={requests}", "input.rate=10000", f"micro_batch={BATCH}", f"fault_tolerance={scheme}")
    kills = ("--fault", "kill:merge.0@20%", "--fault", "kill:count.1@40%", "--fault", "kill:top.0@60%")
    summary = cluster.job(job, cli.directory / "out", *kills, *(word for one in sets for word in ("--set", one)))
    assert not summary["faults_not_injected"] and summary["lost"]["items"] == 0
    assert summary["lost"]["states"] == (2 if scheme == REPLAY else 0), "of merge.0 and count.1, and not of top.0"
    assert written(cli.directory / "out") == top_paths(requests.read_bytes().splitlines())


def jams(locations: list[bytes], reports: list[bytes]) -> set[tuple[int, int, float]]:
    """(segment, start of five minutes, incidents in them that led to a jam), as configs/road_incidents.yaml says."""
    speeds: dict[tuple[int, int], list[float]] = defaultdict(list)
    for line in locations:
        time, segment, speed = line.split(b",")
        speeds[int(segment), int(time) // 10 * 10 + 10].append(float(speed))
    slow = {place for place, some in speeds.items() if sum(some) / len(some) < 30}
    times: dict[int, list[int]] = defaultdict(list)
    for line in reports:
        at, where = map(int, line.split(b","))
        times[where].append(at)
    found: Counter[tuple[int, int]] = Counter()
    for segment, some in times.items():
        some.sort()
        bounds = [0, *(place for place in range(1, len(some)) if some[place] - some[place - 1] >= 10), len(some)]
        for first, stop in pairwise(bounds):
            begin, end = some[first], some[stop - 1] + 10
            if any((segment, ends) in slow for ends in range(begin // 10 * 10 + 10, begin + 121, 10) if ends > begin):
                found.update((segment, start) for start in range(end // 10 * 10 - 290, end + 1, 10))
    return {(segment, start, float(count)) for (segment, start), count in found.items()}


@pytest.mark.parametrize("scheme", [ACTIVE.replace("merge.0", "jams.0"), "{scheme: upstream_backup}"])
def test_the_jams_are_those_of_the_incidents(scheme: str, cli: Cli, cluster: SharedCluster) -> None:
    locations, reports, job = (cli.directory / name for name in ("locations.txt", "reports.txt", "road_incidents.yaml"))
    synth.roads(str(locations), 45_000, stream="locations")
    synth.roads(str(reports), 225, stream="reports")
    job.write_text((CONFIGS / job.name).read_text())
    sets = (
        f"input.path={locations}", f"stages.reports.input.path={reports}", "micro_batch=500", "input.rate=12500",
        f"fault_tolerance={scheme}",
    )  # fmt: skip
    kills = ("--fault", "kill:jams.0@20%", "--fault", "kill:speeds.1@35%", "--fault", "kill:recent.0@50%")
    summary = cluster.job(job, cli.directory / "out", *kills, *(word for one in sets for word in ("--set", one)))
    assert not summary["faults_not_injected"] and summary["lost"]["items"] == 0
    rows = []
    for path in (cli.directory / "out/output").glob("*.npz"):
        with np.load(path) as arrays:
            rows += zip(*(arrays[name].tolist() for name in ("keys", "starts", "values")), strict=True)
    expected = jams(locations.read_bytes().splitlines(), reports.read_bytes().splitlines())
    assert len(expected) > 100 and len(rows) == len(set(rows)) and set(rows) == expected
    assert summary["metrics"]["late"] == 0
