"""Active replicas as users see them: in `riprap status`, on the screen of a run, in its summary."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console
from test_cli_summary import ROWS

from riprap.engine.cli.status import job_text
from riprap.engine.run.display import line, table
from riprap.engine.run.replicas import roles, summed_up
from riprap.engine.run.report import report
from riprap.engine.run.snapshot import look
from riprap.engine.run.summary import Facts, compose


def worker(state: str = "up", **stats: Any) -> dict[str, Any]:
    return {
        "incarnation": 1, "state": state, "pid": 7, "epoch": 3, "items": 10, "restarts": 0, "host": "h", "stats": stats
    }  # fmt: skip


BEFORE = {"read.0": worker(standby=0), "count.0": worker(standby=0), "count.0~1": worker(standby=1)}
AFTER = BEFORE | {"count.0": worker(standby=1, windows_compared=3), "count.0~1": worker(standby=0, windows_compared=4)}
TOOK_OVER = {"event": "took_over", "worker": "count.0~1", "incarnation": 1, "monotonic": 12.5}


def test_the_copies_of_a_task_with_a_replica_have_roles_and_they_change() -> None:
    assert roles(BEFORE) == {"count.0": "active", "count.0~1": "standby"}
    assert roles(AFTER) == {"count.0": "standby", "count.0~1": "active"}


def test_who_is_down_or_has_heard_nothing_has_no_role() -> None:
    workers = {"count.0": worker("down", standby=0), "count.0~1": worker()}
    assert roles(workers) == {}
    assert roles({"count.0": worker(standby=0)}) == {}, "there is no replica"


def test_the_roles_are_shown() -> None:
    status = {"job": "trial", "phase": "RUNNING", "workers": AFTER}
    snapshot, stream = look(status, 3, 10, None, 1.0, ()), io.StringIO()
    Console(file=stream, width=200).print(table(snapshot))
    assert "count.0#1 (standby)  count.0~1#1 (active)" in stream.getvalue()
    assert "3/3 workers up  1 on standby" in line(snapshot)
    shown = [text.split() for text in job_text(status).splitlines()[1:]]
    assert [(words[0], words[-1]) for words in shown] == [
        ("read.0", "restarts"),
        ("count.0", "standby"),
        ("count.0~1", "active"),
    ]


def test_who_puts_out_windows_that_lack_something_is_marked() -> None:
    """With a replica and without one; not a copy that is not heard, nor one whose outage is over."""
    tentative = {"read.0": worker(tentative_now=1), "count.0": worker(standby=0, tentative_now=1)}
    over = {"total.0": worker(tentative_now=0, tentative={"windows": 3})}
    workers = tentative | {"count.0~1": worker(standby=1, tentative_now=1), "read.1": worker("down")} | over
    assert roles(workers) == {"read.0": "tentative", "count.0": "tentative", "count.0~1": "standby"}
    status = {"job": "trial", "phase": "RECOVERING", "workers": workers}
    assert "1 on standby  2 tentative" in line(look(status, 3, 10, None, 1.0, ()))
    assert job_text(status).splitlines()[1].endswith("0 restarts  tentative")


def test_the_summary_has_the_replicas_and_their_takeovers(tmp_path: Path) -> None:
    events = [{"event": "restored", "worker": "count.0"}, TOOK_OVER]
    status = {"job": "trial", "phase": "COMPLETED", "workers": AFTER}
    found = compose(Facts("trial", "partially_active", status, ROWS, events=events))
    assert found["replicas"] == {
        "planned": ["count.0~1"],
        "windows_compared": 7,
        "takeovers": [{"at": 12.5, "worker": "count.0", "promoted": "count.0~1"}],
        "rebuilt": [],
    }
    assert "takeover     count.0~1 went on for count.0" in report(found, tmp_path).splitlines()


def test_replicas_that_do_not_run_are_not_shown_and_changes_are_counted() -> None:
    workers = AFTER | {"read.0~1": worker("off"), "count.1~1": worker("starting")}
    events = [{"event": "replica_begins", "worker": "count.1~1"}, {"event": "replica_ends", "worker": "read.0~1"}]
    assert summed_up(workers, events, 7) == {
        "planned": ["count.0~1", "count.1~1"],
        "windows_compared": 7,
        "takeovers": [],
        "rebuilt": [],
        "begun": ["count.1~1"],
        "ended": ["read.0~1"],
    }
    status = {"job": "trial", "phase": "RUNNING", "workers": workers}
    assert "3/4 workers up" in line(look(status, 3, 10, None, 1.0, ()))
    assert "read.0~1" not in job_text(status) and "count.1~1" in job_text(status)


def test_a_job_without_replicas_has_no_such_section() -> None:
    assert summed_up({"count.0": worker()}, [TOOK_OVER], 0) == {}
    assert "replicas" not in compose(Facts("trial", "none", {"workers": {}}, []))
