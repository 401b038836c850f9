"""JSON that every reader takes, whatever numbers are put in."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riprap.codec.json_text import from_json, to_json

ROOT = Path(__file__).parents[3]


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a":' * 100_000, "1" * 5000])
def test_what_cannot_be_read_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        from_json(text)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -np.inf, np.float64("nan"), np.float32("inf")])
def test_what_is_not_finite_becomes_null_at_any_depth(bad: float) -> None:
    value = {"metrics": {"loss": bad, "kept": 0.5}, "rows": [1, (bad, "NaN")], "path": Path("x"), "n": np.int64(3)}
    expected = {"metrics": {"loss": None, "kept": 0.5}, "rows": [1, [None, "NaN"]], "path": "x", "n": 3}
    assert strict(to_json(value)) == strict(to_json(value, indent=2)) == expected


def test_one_place_writes_json() -> None:
    found = []
    for folder in ("codec", "configs", "operators", "backupserver", "controller", "engine"):
        for path in (ROOT / folder).rglob("*.py"):
            calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
            if any(ast.unparse(call) in ("json.dumps", "json.dump") for call in calls):
                found.append(path.relative_to(ROOT).as_posix())
    assert found == ["codec/json_text.py"]
