"""Runs every peer and Riprap on every workload, in turn, and writes bench/results/peers.json with table and figure.

    python -m bench.peers.drive [--rounds N] [--minutes M] [--only CONTENDER ...] [--workload NAME ...]

A contender is a file programs/CONTENDER_WORKLOAD.py, or one of ours. What is not installed, fails, takes too long or
answers wrongly is a row that says so.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.peers import ours, setup
from bench.peers.report import kept, pictures, report
from bench.peers.rows import Key, Measurement, NoMeasurement, Row, code_lines, parse, without_paths
from bench.peers.workloads import DEFAULT, SIZES, WORKLOADS, Workload, arguments, wrong
from bench.runs import save

PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_S = 120.0


def contenders(workload: Workload) -> list[str]:
    """Ours, and all that have a program for the workload."""
    suffix = f"_{workload.program}"
    found = sorted(path.stem.removesuffix(suffix) for path in PROGRAMS.glob(f"*{suffix}.py"))
    return [*ours.SCHEMES[workload.program], *found]


def environment(contender: str) -> str:
    """The peer in whose environment a contender runs. KeyError when there is none of that name."""
    names = [name for name in setup.PEERS if contender == name or contender.startswith(f"{name}_")]
    if not names:
        raise KeyError(f"no peer for {contender} in bench.peers.setup.PEERS")
    return max(names, key=len)


def sources(workload: Workload, contender: str) -> list[Path]:
    """The files that a user writes: the program and those in programs/ that it names (Java, SQL); or our topology."""
    if contender in ours.SCHEMES[workload.program]:
        return [Path(ours.config(workload))]
    program = PROGRAMS / f"{contender}_{workload.program}.py"
    named = sorted({PROGRAMS / name for name in re.findall(r"[\w/]+\.(?:java|sql|py)", program.read_text())})
    return [program, *(path for path in named if path.is_file())]


def run_program(command: Sequence[str], timeout_s: float) -> Measurement:
    """Run to its end, in a session of its own that is ended with it. NoMeasurement with the reason otherwise."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise NoMeasurement(f"not done after {timeout_s:g} s") from error
    finally:
        _end_session(process)
    if process.returncode:
        raise NoMeasurement(f"ended with {process.returncode}: {setup.last_line(errors)}")
    return parse(output)


def _end_session(process: subprocess.Popen[str]) -> None:
    """Kill the rest of the program's process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def measure(workload: Workload, contender: str) -> Measurement:
    """One run with a right answer. NoMeasurement with the reason otherwise."""
    if contender in ours.SCHEMES[workload.program]:
        words = arguments(workload, ours.SIZE)
        try:
            measured = Measurement(**ours.line(workload, contender, words))
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            raise NoMeasurement(ours.reason(str(error))) from error
    else:
        words = arguments(workload, SIZES.get(contender, DEFAULT))
        try:
            python = setup.interpreter(environment(contender))
        except setup.NotInstalled as error:
            raise NoMeasurement(f"not installed: {error}") from error
        program = PROGRAMS / f"{contender}_{workload.program}.py"
        with tempfile.TemporaryDirectory(prefix="peer-", dir=setup.HOME) as scratch:
            measured = run_program([str(python), str(program), *words, "--scratch", scratch], TIMEOUT_S)
    mistake = wrong(workload, contender, words, measured.result)
    if mistake:
        raise NoMeasurement(f"wrong answer: {mistake}")
    return measured


def rounds(
    keys: Sequence[tuple[Workload, str]],
    count: int,
    budget_s: float,
    measured: Callable[[Workload, str], Measurement] = measure,
    clock: Callable[[], float] = time.monotonic,
) -> dict[Key, Row]:
    """All in turn, so that a slow minute is slow for all; no round begins that would not end within the budget.

    A contender that gave no measurement once is not asked again.
    """
    runs: dict[Key, list[Measurement]] = {(workload.name, name): [] for workload, name in keys}
    why: dict[Key, str] = {}
    began, longest = clock(), 0.0
    for number in range(count):
        started = clock()
        if number and started - began + longest > budget_s:
            break
        for workload, name in keys:
            key = workload.name, name
            if key in why:
                continue
            try:
                runs[key].append(measured(workload, name))
                said = f"{runs[key][-1].rate:,.0f} {workload.unit}/s"
            except NoMeasurement as error:
                said = why[key] = without_paths(str(error))
            print(f"round {number + 1}: {workload.name}: {name}: {said}", flush=True)
        longest = max(longest, clock() - started)
    return {key: Row(runs[key], why.get(key, "")) for key in runs}


def main() -> None:
    """Measure, print, draw and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=15.0, help="no round begins that would end later")
    parser.add_argument("--only", nargs="+", default=[], help="contenders (by the beginning of their name); not saved")
    parser.add_argument("--workload", nargs="+", default=[], help="words, flows, logistic; not saved")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the program under way is ended, too
    keys = [
        (workload, name)
        for workload in WORKLOADS
        if not options.workload or workload.program in options.workload
        for name in contenders(workload)
        if not options.only or name.startswith(tuple(options.only))
    ]
    found = rounds(keys, options.rounds, options.minutes * 60)
    tables = {}
    for workload in dict.fromkeys(workload for workload, _ in keys):
        own = {name: row for (of, name), row in found.items() if of == workload.name}
        lines = {name: code_lines([path.read_text() for path in sources(workload, name)]) for name in own}
        most = max(len(row.runs) for row in own.values())
        tables[f"{workload.name}; medians of {most} rounds in turn, start-up apart"] = report(workload, own, lines)
    if options.only or options.workload:
        for caption, text in tables.items():
            print(f"\n{caption}\n\n{text}")
        return
    save("peers", "Riprap beside its peers", tables, {"pictures": pictures(found), "rows": kept(found)})


if __name__ == "__main__":
    main()
