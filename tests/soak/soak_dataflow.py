"""Kills workers of a word count at random, under every scheme, and compares the counts with their promise.

    python tests/soak/soak_dataflow.py --count 60 --seed 1

One worker, several, all, again and again, up to ten times in a job. Exact schemes must end with the counts of the text;
`approximate` within Theta and a hundredth of each word, as its state promises; no word may be missing. L is 0, as one
item (a word of a block) counts hundreds. A worker that was restored empty misses most of its words.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "scenarios")]

from cli_harness import Cli  # noqa: E402

from bench import runs  # noqa: E402

LINES, WORDS_A_LINE, WORDS = 20_000, 10, 3_000
REPEAT, WINDOW, BLOCK_BYTES = 60, 20_000, 16_384
THETA, RELATIVE, FAILURES_MAX = 20_000, 0.01, 10
SCHEMES = {
    "approximate": f"{{scheme: approximate, theta: {THETA}, l: 0, gamma: 1000}}",
    "approximate, hopping": f"{{scheme: approximate, theta: {THETA}, l: 0, window: hopping, window_epochs: {REPEAT}}}",
    "mini_batch": "{scheme: mini_batch}",
    "upstream_backup": "{scheme: upstream_backup}",
    "barrier": "{scheme: barrier, interval_ms: 50}",
    "barrier, unaligned": "{scheme: barrier, interval_ms: 50, alignment: unaligned}",
    "stop_the_world": "{scheme: stop_the_world, interval_ms: 50}",
}
COUNT = {"approximate, hopping": f"CountRecentWords, {{window: hopping, window_epochs: {REPEAT}}}"}
"""Where it is not CountWords; the hopping window is the whole stream."""
WORKERS = ("split.0", "split.1", "count.0", "count.1")
TOPOLOGY = """\
job: JOB
input: {path: text, repeat: REPEAT}
micro_batch: WINDOW
stages:
  split: {operator: "word_count:SplitWords", parallelism: 2}
  count: {operator: "word_count:COUNT", parallelism: 2, options: OPTIONS}
edges:
  - {from: split, to: count, partitioning: full}
fault_tolerance: SCHEME
links: {block_bytes: BLOCK_BYTES}
cluster: {stall_timeout_s: 20.0}
"""


def write_text(folder: Path) -> Counter[str]:
    """A text of Zipf-distributed words; what a word count of all passes over it must find."""
    draw = np.random.default_rng(7)
    names = np.array([word(number) for number in range(WORDS)])
    chosen = names[np.minimum(draw.zipf(1.3, (LINES, WORDS_A_LINE)) - 1, WORDS - 1)]
    folder.mkdir()
    (folder / "text.txt").write_text("\n".join(map(" ".join, chosen.tolist())) + "\n")
    return Counter({name: int(count) * REPEAT for name, count in zip(*np.unique(chosen, return_counts=True))})


def word(number: int) -> str:
    """A word of letters for each number."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return letters[number % 26] + (word(number // 26 - 1) if number >= 26 else "")


def schedule(seed: int, number: int) -> tuple[str, list[str]]:
    """The scheme and the faults of a run: some moments, and at each of them one, several or all workers."""
    draw = random.Random(f"{seed}-{number}")
    faults: list[str] = []
    for _ in range(draw.randint(1, 4)):
        together = draw.sample(WORKERS, draw.choice((1, 1, 2, len(WORKERS))))
        moment = draw.randint(5, 90)
        faults += [f"kill:{worker}@{moment}%" for worker in together]
    return sorted(SCHEMES)[number % len(SCHEMES)], faults[:FAILURES_MAX]


def counted(out: Path) -> Counter[str]:
    """What the destinations found."""
    found: Counter[str] = Counter()
    for path in sorted(out.glob("model*.npz")):
        with np.load(path) as model:
            text, ends, counts = model["words"].tobytes().decode(), model["offsets"], model["counts"]
        for i, count in enumerate(counts.tolist()):
            found[text[ends[i] : ends[i + 1]]] += count
    return found


def wrongs(truth: Counter[str], found: Counter[str], approximate: bool) -> list[str]:
    """The first words of which more, or more of them, is missing than the scheme promises."""
    short = [(name, count, count - found[name]) for name, count in truth.items() if count != found[name]]
    wrong = [one for one in short if not 0 < one[2] <= (min(THETA, RELATIVE * one[1]) if approximate else 0)]
    wrong += [(name, 0, -count) for name, count in found.items() if name not in truth]
    return [f"{name} of {count} lacks {lack}" for name, count, lack in wrong[:3]]


def run_one(cli: Cli, truth: Counter[str], seed: int, number: int) -> dict[str, Any]:
    """Run a schedule; what it was, how far its counts are from the truth, and why that is wrong, if it is."""
    scheme, faults = schedule(seed, number)
    job = f"words-{number}"
    operator, _, options = COUNT.get(scheme, "CountWords").partition(", ")
    text = TOPOLOGY.replace("COUNT", operator).replace("OPTIONS", options or "{}")
    text = text.replace("JOB", job).replace("SCHEME", SCHEMES[scheme]).replace("REPEAT", str(REPEAT))
    (cli.directory / f"{job}.yaml").write_text(
        text.replace("WINDOW", str(WINDOW)).replace("BLOCK_BYTES", str(BLOCK_BYTES))
    )
    specs = [part for fault in faults for part in ("--fault", fault)]
    done = cli.run("run", f"{job}.yaml", "--json", "--out", job, *specs)
    outcome = {"number": number, "scheme": scheme, "faults": faults, "apart": -1, "reason": ""}
    if done.returncode:
        return outcome | {"reason": done.stderr.strip().splitlines()[-2:]}
    summary, found = json.loads(done.stdout), counted(cli.directory / job)
    apart = max(abs(found[name] - truth[name]) for name in truth.keys() | found.keys())
    wrong = "; ".join(wrongs(truth, found, scheme.startswith("approximate")))
    failures = [one["restored_ms"] for one in summary["failures"] if one["restored_ms"] is not None]
    return outcome | {"apart": apart, "reason": wrong, "kills": len(failures), "restored_ms": failures}


def tabulate(outcomes: list[dict[str, Any]]) -> str:
    """A row a scheme."""
    rows = []
    for scheme in SCHEMES:
        mine = [one for one in outcomes if one["scheme"] == scheme]
        times = [ms for one in mine for ms in one.get("restored_ms", ())]
        passed, kills = sum(not one["reason"] for one in mine), sum(one.get("kills", 0) for one in mine)
        worst = max((one["apart"] for one in mine), default=0)
        rows.append((scheme, len(mine), passed, kills, worst, round(runs.median(times)) if times else ""))
    return runs.table(
        ["scheme", "schedules", "as promised", "kills", "largest error of a word", "restored, median ms"], rows
    )


def main() -> int:
    """Parse the command line, run, keep; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first schedule's number")
    parser.add_argument("--count", type=int, default=60)
    options = parser.parse_args()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="riprap-soak-") as folder:
        cli = Cli(Path(folder))
        truth = write_text(Path(folder) / "text")
        for number in range(options.first, options.first + options.count):
            outcome = run_one(cli, truth, options.seed, number)
            outcomes.append(outcome)
            verdict = f"WRONG: {outcome['reason']}" if outcome["reason"] else "ok"
            print(
                f"{number:4} {outcome['scheme']:22} {' '.join(outcome['faults'])}  {outcome['apart']}  {verdict}",
                flush=True,
            )
    wrong = [one for one in outcomes if one["reason"]]
    right = len(outcomes) - len(wrong)
    title = f"{right} of {len(outcomes)} random schedules of kills (seed {options.seed}) ended as promised"
    runs.save("soak_dataflow", "Random kills of DataflowOperators", {title: tabulate(outcomes)}, {"outcomes": outcomes})
    print(title)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
