"""The demonstration behind `make demo`: train on a stream, kill two workers, and show that nothing was lost.

    python -m bench.demo [--higgs HIGGS.csv.gz] [--items N]

A HIGGS file (the user's, or one written by the synthesizer in the same raw format) becomes shards; logistic regression
is trained on their stream twice, with two processors killed in the middle and without; the two models are compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CONFIG = "configs/logistic_regression_higgs.yaml"
LEARN = ["micro_batch=10000", "stages.sink.options.learning_rate=3.0"]  # 200 steps in 2 M items: enough to converge
KILLS = ["kill:processor.1@50%", "kill:processor.4@50%"]


def riprap(*words: str) -> None:
    """Run a subcommand before the user's eyes; exit as it does when it fails."""
    print(f"\n$ riprap {' '.join(words)}", flush=True)
    code = subprocess.run([sys.executable, "-m", "riprap.engine.cli.main", *words]).returncode
    if code:
        sys.exit(code)


def shards(higgs: str | None, items: int) -> str:
    """The training shards of the file that the user named, or of a synthesized one; made once."""
    name = Path(higgs).resolve().as_posix().replace("/", "_").lstrip("_") if higgs else f"synthesized-{items}"
    base = Path(".data/demo") / name
    if not (base / "train/manifest.json").exists():
        base.parent.mkdir(parents=True, exist_ok=True)
        raw = higgs or str(base.parent / "HIGGS.csv")
        if not higgs:
            riprap("prep", "synth", "higgs", raw, "--rows", str(items * 10 // 9))
        riprap("prep", "higgs", raw, "--out", str(base), "--holdout", "0.1")
        if not higgs:
            Path(raw).unlink()
    return str(base / "train")


def train(path: str, items: int, out: Path, kills: list[str]) -> dict[str, Any]:
    """One run; its summary."""
    rows = sum(shard["rows"] for shard in json.loads(Path(path, "manifest.json").read_text())["shards"])
    words = ["run", CONFIG, "--out", str(out)]
    for value in [f"input.path={path}", f"input.limit={items}", f"input.repeat={-(-items // rows)}", *LEARN]:
        words += ["--set", value]
    for spec in kills:
        words += ["--fault", spec]
    riprap(*words)
    return dict(json.loads((out / "summary.json").read_text()))


def main() -> None:
    """Exit code 1 when the two models differ in a single bit, or when not both processors were killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--higgs", help="a real HIGGS.csv or HIGGS.csv.gz")
    parser.add_argument("--items", type=int, default=2_000_000)
    options = parser.parse_args()
    path = shards(options.higgs, options.items)
    with tempfile.TemporaryDirectory(prefix="riprap-demo-") as folder:
        disturbed = train(path, options.items, Path(folder, "two-kills"), KILLS)
        calm = train(path, options.items, Path(folder, "no-kill"), [])
    print()
    killed = [failure["worker"] for failure in disturbed["failures"]]
    if len(killed) != len(KILLS):
        sys.exit(f"demo: only {killed} were killed before the stream ended; try more --items")
    if disturbed["model"]["sha256"] != calm["model"]["sha256"]:
        sys.exit(f"demo: the models differ: {disturbed['model']['sha256']} and {calm['model']['sha256']}")
    print(f"{disturbed['items']:,} items, {' and '.join(killed)} killed with SIGKILL in the middle, "
          f"{disturbed['decoded_items']:,} items decoded from parity.")  # fmt: skip
    print(f"Accuracy on held-back rows: {disturbed['metrics']['holdout_accuracy']:.4f}.")
    print(f"The model after two kills is bit-identical to the model of a run without kills: {calm['model']['sha256']}")


if __name__ == "__main__":
    main()
