"""A script that composes a job in Python, run as users run it: elsewhere, with an operator of its own, and a kill."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from cli_harness import REPO, SLOW_WORDS, Cli

OPERATORS = """\
import time

from riprap.operators.text.word_count import CountWords


class Shouted(CountWords):
    def process_data(self, items, first, out):
        time.sleep(0.02)  # the kill meets the job in its middle
        return super().process_data(items, first, out)

    def results(self):
        found = super().results()
        return {"words": found["words"] - 32, "offsets": found["offsets"], "counts": found["counts"]}
"""

BROKEN = """\
from riprap.operators.text.word_count import CountWords


class Broken(CountWords):
    def process_data(self, items, first, out):
        raise ValueError("a mistake")
"""

SCRIPT = """\
import json
from riprap.engine.api.compose import Job, upstream_backup
from riprap.operators.text.word_count import SplitWords
from shouted import Shouted

job = Job("shouts", input="text.txt", repeat=4, micro_batch=1000, scheme=upstream_backup())
split = job.stage("split", SplitWords, parallelism=2)
split.to(job.stage("count", Shouted, parallelism=2, cpus=[0]), "full")
job.save("shouts.yaml")
print(json.dumps(job.run(out="out", faults=["kill:count.1@50%"])))
"""

LINES = [f"word{'abcdefghij'[n % 10] * (n % 7 + 1)} common" for n in range(5000)]


def counted(directory: Path) -> dict[bytes, int]:
    """The totals that both destinations wrote."""
    totals: dict[bytes, int] = {}
    for index in (0, 1):
        with np.load(directory / f"model.{index}.npz") as found:
            data, offsets = found["words"].tobytes(), found["offsets"].tolist()
            words = [data[begin:end] for begin, end in pairwise(offsets)]
            totals |= dict(zip(words, found["counts"].tolist()))
    return totals


def test_a_script_runs_its_job_with_operators_beside_it(cli: Cli) -> None:
    scripts = cli.directory / "scripts"
    scripts.mkdir()
    (scripts / "shouted.py").write_text(OPERATORS)
    (scripts / "job.py").write_text(SCRIPT)
    (cli.directory / "text.txt").write_text("\n".join(LINES) + "\n")
    ended = subprocess.run(
        [sys.executable, str(scripts / "job.py")],
        cwd=cli.directory, env=cli.environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    summary: dict[str, Any] = json.loads(ended.stdout)
    assert summary["completed"] and [one["worker"] for one in summary["failures"]] == ["count.1"]
    out = cli.directory / "out"
    assert summary == json.loads((out / "summary.json").read_text())
    wanted = Counter(word.upper().encode() for line in LINES for word in line.split())
    assert counted(out) == {word: 4 * count for word, count in wanted.items()}
    assert "shouted:Shouted" in (cli.directory / "shouts.yaml").read_text()
    assert ended.stderr == "", "a program is told by the summary"
    cli.await_no_process()


def test_a_script_has_this_machine_act_as_several_hosts(cli: Cli) -> None:
    (cli.directory / "text.txt").write_text("\n".join(LINES) + "\n")
    (cli.directory / "shouted.py").write_text(OPERATORS)
    hosts = """hosts=4, domains={"rack": 2}, faults=["kill:domain:rack=rack-2@50%"]"""
    (cli.directory / "job.py").write_text(SCRIPT.replace("""faults=["kill:count.1@50%"]""", hosts))
    ended = subprocess.run(
        [sys.executable, "job.py"],
        cwd=cli.directory, env=cli.environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    summary: dict[str, Any] = json.loads(ended.stdout)
    assert summary["completed"] and len({one["worker"] for one in summary["failures"]} & {"count.0", "count.1"}) == 1
    wanted = Counter(word.upper().encode() for line in LINES for word in line.split())
    assert counted(cli.directory / "out") == {word: 4 * count for word, count in wanted.items()}
    refused = SCRIPT.replace("""faults=["kill:count.1@50%"]""", "hosts=65")
    (cli.directory / "job.py").write_text(refused)
    ended = subprocess.run(
        [sys.executable, "job.py"],
        cwd=cli.directory, env=cli.environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "ConfigError: this machine cannot act as 65 hosts" in ended.stderr
    cli.await_no_process()


def test_a_job_that_fails_raises_and_says_how_to_go_on(cli: Cli) -> None:
    (cli.directory / "text.txt").write_text("\n".join(LINES) + "\n")
    (cli.directory / "broken.py").write_text(BROKEN)
    (cli.directory / "job.py").write_text(SCRIPT.replace("shouted", "broken").replace("Shouted", "Broken"))
    ended = subprocess.run(
        [sys.executable, str(cli.directory / "job.py")],
        cwd=cli.directory, env=cli.environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "riprap.codec.errors.JobFailed: job shouts ended FAILED" in ended.stderr
    assert "ValueError: a mistake" in ended.stderr and "broken.py:6" in ended.stderr
    assert "riprap run --resume" in ended.stderr
    cli.await_no_process()


def test_the_examples_of_the_page_run_as_they_stand(cli: Cli) -> None:
    """On a small file, in small windows, that is read slowly so that a kill meets the job in its middle."""
    examples = re.findall(r"```python\n(.*?)```", (REPO / "docs/python_api.md").read_text(), re.S)
    script = "\n".join(examples).replace("micro_batch=100_000", "micro_batch=300, repeat=12")
    assert len(examples) >= 6 and script.count("repeat=12") == 2
    slow = "CountWords\nfrom slow_words import SlowSplit as SplitWords"
    script = script.replace("CountWords, SplitWords", slow)
    (cli.directory / "slow_words.py").write_text(SLOW_WORDS % 18_000)
    (cli.directory / "books.txt").write_text("\n".join(LINES) + "\n")
    (cli.directory / "page.py").write_text(script.replace(".data/books", "books.txt"))
    ended = subprocess.run(
        [sys.executable, "page.py"],
        cwd=cli.directory, env=cli.environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0 and (cli.directory / "shouts.svg").exists(), ended.stderr
    cli.await_no_process()
