"""The scheme of docs/adding_a_scheme.md, as it stands there, under the faults that every scheme lives through."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from dataflow_simulator import DataflowCase
from test_dataflow_sim import FAULTS, FIRST, SEEDS, errors, run

from riprap.codec.blocks import Block
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.links import Window
from riprap.engine.flow.scheme import Bench, Scheme
from riprap.engine.schemes import registry as schemes
from riprap.engine.schemes.parts.recorder import Recorder, Recovered, take_over

PAGE = Path(__file__).parents[2] / "docs/adding_a_scheme.md"
NAMES = [Any, Bench, Block, Scheme, Entry, Mapping, Recorder, Recovered, Sequence, Window, deque, take_over]
LINES_MAX = 60


def code() -> str:
    """The page's Python."""
    (found,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {getattr(one, "__name__", "Any"): one for one in NAMES}
    exec(compile(f"from __future__ import annotations\n{code()}", str(PAGE), "exec"), names)
    monkeypatch.setitem(schemes.SCHEMES, "window_backup", names["WindowBackup"])


def test_it_is_as_short_as_the_page_says() -> None:
    assert len([line for line in code().splitlines() if line.strip()]) < LINES_MAX


@pytest.mark.parametrize("fault", [None, *FAULTS])
@pytest.mark.parametrize("shape", ["full", "chain", "coded_end"])
def test_each_item_is_counted_once_whoever_dies(shape: str, fault: str | None) -> None:
    case = DataflowCase({"scheme": "window_backup"}, shape, window=4096, **(FAULTS[fault] if fault else {}))
    for seed in range(FIRST, FIRST + SEEDS):
        assert not errors(run(case, seed, f"{shape}-{fault}")).any(), f"seed {seed}"
