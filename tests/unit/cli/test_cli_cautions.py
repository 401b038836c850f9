"""Of what a user is warned before a job starts."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from riprap.engine.run.cautions import cautions, old_names

REPO = Path(__file__).resolve().parents[3]


def cautions_of(code: str, k: int, r: int) -> list[str]:
    topology: Any = SimpleNamespace(scheme="erasure", fault_tolerance={"code": code, "k": k, "r": r})
    return list(cautions(topology))


def test_a_badly_conditioned_code_is_told_with_better_ones() -> None:
    (caution,) = cautions_of("vandermonde", 16, 4)
    assert "as few as 0 of the 16 digits" in caution and "gf256 decodes bit for bit" in caution and "stable" in caution
    (caution,) = cautions_of("vandermonde", 8, 3)
    assert "as few as 7 of the 16 digits" in caution


@pytest.mark.parametrize(
    ("code", "k", "r"),
    [
        ("vandermonde", 4, 2),
        ("vandermonde", 16, 0),
        ("stable", 16, 4),
        ("gf256", 200, 55),
        ("xor", 100, 1),
        ("my:Own", 9, 9),
    ],
)
def test_of_other_codes_there_is_nothing_to_tell(code: str, k: int, r: int) -> None:
    assert cautions_of(code, k, r) == []


def test_an_import_path_from_before_riprap_is_told_with_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(REPO))])
    stages = {"source": "shard_source:ShardSource", "processor": "operators.svm:Gradient", "sink": "mine:Model"}
    topology: Any = SimpleNamespace(stages={name: SimpleNamespace(operator=path) for name, path in stages.items()})
    (caution,) = old_names(topology)
    assert caution == "stages.processor.operator: operators.svm:Gradient is now svm:Gradient; write that instead"
