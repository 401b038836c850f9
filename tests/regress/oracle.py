"""Runs every topology of `configs/` under every scheme that takes it, undisturbed and with kills; keeps the digests.

    python tests/regress/oracle.py             # compare with digests.json
    python tests/regress/oracle.py word_count  # only these topologies
    python tests/regress/oracle.py --freeze word_count
    python tests/regress/oracle.py --new       # what no digest is kept of yet

A change of the engine that promises the same results is held to this. The inputs are made of `tests/data`, and of what
`riprap prep synth` draws. `varies` stands in `digests.json` where two undisturbed runs differed when it was written, as
results follow the order in which messages happen to arrive; such a case must end well, no more. `exact_after` are the
stages of which a task was killed with the undisturbed result. Topologies and schemes that are not kept are not run.
What predicts is run with a model that is trained for it, where that topology is named too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "scenarios")]

from cli_harness import Cli  # noqa: E402

from riprap.codec.errors import ConfigError  # noqa: E402
from riprap.configs.document import read_document  # noqa: E402
from riprap.configs.loading import load  # noqa: E402
from riprap.configs.schemes import SCHEMES  # noqa: E402
from riprap.controller.checkpointing import CHECKPOINTING  # noqa: E402
from riprap.engine.run.operator_checks import operator_problems  # noqa: E402

DIGESTS = Path(__file__).with_name("digests.json")
DATA = ROOT / "tests" / "data"
VARIES, FAILED = "varies", "failed"

HIGGS, KDD12 = f"{DATA}/higgs/HIGGS_first10k.csv.gz", f"{DATA}/kdd12/training_first10k.tsv.gz"
PREPARED = [
    ("higgs", HIGGS, "--holdout", "0.1", "--out", ".data/higgs-held"),
    ("higgs", HIGGS, "--out", ".data/higgs"),
    ("kdd12", KDD12, "--holdout", "0.1", "--out", ".data/kdd12-held"),
    ("kdd12", KDD12, "--out", ".data/kdd12"),
    ("kdd12-sparse", KDD12, "--missing", "drop", "--out", ".data/clicks"),
    ("text", f"{DATA}/books/Doyle_Hound_1902.txt.gz", "--out", ".data/words"),
    ("synth", "text", ".data/words.txt", "--rows", "50000"),
    ("synth", "graph", "edges.txt", "--rows", "5000"),
    ("synth", "worldcup", "requests.txt", "--rows", "50000"),
    ("text", "requests.txt", "--out", ".data/requests"),
    ("synth", "roads", "locations.txt", "--rows", "400000"),
    ("synth", "roads", "reports.txt", "--stream", "reports", "--rows", "2000"),
    ("text", "locations.txt", "--out", ".data/locations"),
    ("text", "reports.txt", "--out", ".data/reports"),
    ("text", "edges.txt", "--out", ".data/edges"),
    ("synth", "pcap", "one.pcap", "--rows", "50000"),
    ("synth", "pcap", "two.pcap", "--rows", "50000", "--city", "1"),
    ("packets", "one.pcap", "--out", ".data/packets"),
    ("packets", "one.pcap", "two.pcap", "--split", "2", "--out", ".data/cities"),
]
"""How the inputs are made: words for `riprap prep`."""
MOVED = {".data/higgs/train": ".data/higgs-held/train", ".data/kdd12/train": ".data/kdd12-held/train"}
"""Topologies with a holdout and those without one name the same folder."""
ITEMS, DRAWN, EPOCHS, KILL_AT = 400_000, 40_000, 400, 40
"""Items of a job, items of one that draws its own, epochs of each: small ones, most of which are still to come when a
worker dies."""
LOOPED_ITEMS, LOOPED_EPOCHS, LOOPED_KILL_AT = 20_000, 8, 4
"""The same of a job that iterates in each window over all items so far."""
CHECKPOINT_MS = 20
"""Between checkpoints, where the scheme makes any: epochs are announced with them."""
FIRST = ("kmeans_higgs", "logistic_regression_higgs", "random_features_higgs")
"""They train what others predict with."""
TRAINED = {"kmeans_higgs": "kmeans", "logistic_regression_higgs": "logistic", "random_features_higgs": "network"}
"""Topology -> where others look for its model under `runs/`."""


def cases(names: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """The topologies, trained models first, with every scheme."""
    files = sorted((ROOT / "configs").glob("*.yaml"), key=lambda file: (file.stem not in FIRST, file.stem))
    for file in files:
        if not names or file.stem in names:
            for scheme in SCHEMES:
                yield file, scheme


def settings(file: Path, scheme: str) -> list[str]:
    """What is set: small epochs, enough of them, and the scheme with its own options where the file has others."""
    values = read_document(file).values
    if "input" not in values:
        sets = [f"micro_batch={DRAWN // EPOCHS}", f"stages.source.options.items={DRAWN}"]
    else:
        path = values["input"]["path"]
        items, epochs = (LOOPED_ITEMS, LOOPED_EPOCHS) if loops(values) else (ITEMS, EPOCHS)
        sets = [f"micro_batch={items // epochs}", f"input.path={MOVED.get(path, path)}", *endless("input", items)]
    for name, stage in values["stages"].items():
        sets += endless(f"stages.{name}.input", ITEMS) if "input" in stage else []
    if values["fault_tolerance"]["scheme"] != scheme:
        often = f", interval_ms: {CHECKPOINT_MS}" if scheme in CHECKPOINTING else ""
        sets.append(f"fault_tolerance={{scheme: {scheme}{often}}}")
    return sets


def endless(path: str, items: int) -> list[str]:
    """An input is read again and again, until there were items enough."""
    return [f"{path}.repeat=1000", f"{path}.limit={items}"]


def loops(values: dict[str, Any]) -> bool:
    """True for a topology that iterates within its windows."""
    return any(edge.get("loop") for edge in values["edges"])


def refusal(file: Path, sets: Sequence[str]) -> str:
    """Why the topology cannot be run so; empty where it can."""
    try:
        load(file, sets, [operator_problems])
    except ConfigError as error:
        return str(error)
    return ""


def digest(out: Path) -> str:
    """sha256 over every array that a run has computed."""
    total = hashlib.sha256()
    for file in sorted([*out.glob("*.np[yz]"), *out.glob("output/*.npz")]):
        loaded = np.load(file)
        arrays = dict(loaded) if file.suffix == ".npz" else {"": loaded}
        for name, array in arrays.items():
            total.update(f"{file.relative_to(out)} {name} {array.dtype} {array.shape}\n".encode())
            total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


class Oracle:
    """The runs of one folder."""

    def __init__(self, folder: Path) -> None:
        self._cli = Cli(folder)
        self._number = 0
        self.wrong: list[str] = []

    def prepare(self) -> None:
        """Make the inputs."""
        for words in PREPARED:
            done = self._cli.run("prep", *words)
            assert done.returncode == 0, done.stderr

    def run(self, file: Path, sets: Sequence[str], *faults: str) -> str:
        """The digest of a run, in which each fault must have met a worker."""
        self._number += 1
        out = f"runs/{self._number}"
        words = [word for text in sets for word in ("--set", text)]
        words += [word for fault in faults for word in ("--fault", fault)]
        done = self._cli.run("run", str(file), "--out", out, "--json", *words)
        self._cli.await_no_process()
        where = f"{file.stem} {sets[-1]} {faults}"
        if done.returncode != 0:
            self.wrong.append(f"{where}: {done.stderr.strip()[-500:]}")
            return FAILED
        summary = json.loads(done.stdout)
        if len(summary["failures"]) != len(faults):
            self.wrong.append(f"{where}: {len(summary['failures'])} failures")
        folder = self._cli.directory / out
        trained = self._cli.directory / "runs" / TRAINED.get(file.stem, f"trained-{file.stem}")
        if not trained.exists():
            folder.rename(trained)
            folder = trained
        return digest(folder)

    def train(self, file: Path) -> None:
        """Make the model that others predict with, where nothing else is asked of its topology."""
        if file.stem in FIRST and not (self._cli.directory / "runs" / TRAINED[file.stem]).exists():
            self.run(file, settings(file, read_document(file).values["fault_tolerance"]["scheme"]))

    def case(self, file: Path, scheme: str, known: dict[str, Any] | None) -> dict[str, Any]:
        """The digest of a topology under a scheme, and the stages whose first task may be killed without a trace in it.

        Where none is known the undisturbed run is made twice, to see whether it varies. Empty where it is refused.
        """
        sets = settings(file, scheme)
        if why := refusal(file, sets):
            print(f"{file.stem} {scheme}: refused: {why}", flush=True)
            return {}
        values = read_document(file).values
        moment = LOOPED_KILL_AT if loops(values) else KILL_AT
        kills = {stage: f"kill:{stage}.0@epoch={moment}" for stage in values["stages"]}
        if scheme == "none" and loops(values):  # a loop that lost a message waits for it until the job is ended
            kills = {}
        undisturbed = self.run(file, sets)
        after = {stage: self.run(file, sets, fault) for stage, fault in kills.items()}
        varies = self.run(file, sets) != undisturbed if known is None else known["digest"] == VARIES
        promises = scheme not in ("none", "approximate", "optimistic") and not varies
        exact = [stage for stage, found in after.items() if promises and found == undisturbed]
        return {"digest": VARIES if varies else undisturbed, "exact_after": exact}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 if a case differs from what is kept, or ends badly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="topologies of configs/, without .yaml; all where none is given")
    parser.add_argument("--freeze", action="store_true", help="keep what these give now")
    parser.add_argument("--new", action="store_true", help="run, and keep, only what is not kept yet")
    given = parser.parse_args(arguments)
    kept: dict[str, dict[str, Any]] = json.loads(DIGESTS.read_text())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        oracle = Oracle(Path(folder))
        oracle.prepare()
        for file, scheme in cases(given.names):
            before = kept.get(file.stem, {}).get(scheme)
            known = None if given.freeze else before
            if (before is not None) if given.new else (known is None and not given.freeze):
                oracle.train(file)
                continue
            one = oracle.case(file, scheme, known)
            if one:
                print(file.stem, scheme, one, flush=True)
            if (given.freeze or given.new) and one and one["digest"] != FAILED:
                kept.setdefault(file.stem, {})[scheme] = one
                DIGESTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
            elif one != known and not (given.freeze or given.new):
                oracle.wrong.append(f"{file.stem} {scheme}: {one}, kept are {known}")
    print(*oracle.wrong, sep="\n")
    return 1 if oracle.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
