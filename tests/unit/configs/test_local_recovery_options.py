"""`recovery: local` is refused where one task cannot go back alone, with the reason and what would do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.configs.loading import load
from riprap.engine.schemes.barrier import Barrier
from riprap.engine.schemes.local_barrier import LocalBarrier
from riprap.engine.schemes.registry import scheme_class

Write = Callable[..., Path]
CODED = "  scheme: erasure\n  code: gf256\n  k: 4\n  r: 2\n"
FEEDBACK = "  - {from: sink, to: processor, feedback: true}\n"


def written(write: Write, options: str, *replacements: tuple[str, str]) -> Path:
    return write((CODED, f"  {{scheme: barrier, {options}}}\n"), *replacements)


def test_one_task_goes_back_alone_where_the_topology_says_so(write: Write) -> None:
    local = load(written(write, "recovery: local", (FEEDBACK, "")))
    assert scheme_class(local.fault_tolerance) is LocalBarrier
    assert local.fault_tolerance["memory_bytes"] == 1 << 30
    assert scheme_class(load(written(write, "interval_ms: 5", (FEEDBACK, ""))).fault_tolerance) is Barrier


@pytest.mark.parametrize(
    ("options", "reason", "remedy"),
    [
        ("alignment: unaligned", "alignment is unaligned: what overtakes blocks has no place", "alignment: aligned"),
        ("alignment: timeout", "alignment is timeout: what overtakes blocks has no place", "alignment: aligned"),
        ("guarantee: at_least_once", "guarantee is at_least_once", "guarantee: exactly_once"),
    ],
)
def test_what_does_not_go_with_it_is_refused(write: Write, options: str, reason: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        load(written(write, f"recovery: local, {options}", (FEEDBACK, "")))
    assert remedy in str(refused.value) and "set fault_tolerance.recovery to global" in str(refused.value)
    load(written(write, options, (FEEDBACK, "")))


def test_edges_that_lead_back_are_refused(write: Write) -> None:
    with pytest.raises(ConfigError, match="sink->processor leads back") as refused:
        load(written(write, "recovery: local"))
    assert len(str(refused.value).splitlines()) == 2
    assert "set fault_tolerance.recovery to global" in str(refused.value)


def test_other_schemes_have_no_such_option(write: Write) -> None:
    with pytest.raises(ConfigError, match="recovery"):
        load(write((CODED, "  {scheme: stop_the_world, recovery: local}\n")))
