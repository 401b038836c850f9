"""What is shown of a running job: a line when something happens, the same facts in the table."""

from __future__ import annotations

import fcntl
import io
import os
from dataclasses import replace
from typing import Any

from rich.console import Console

from riprap.engine.run.display import LineDisplay, line, table
from riprap.engine.run.snapshot import Rate, SlowCall, Snapshot, look

STATUS: dict[str, Any] = {
    "job": "trial",
    "phase": "RECOVERING",
    "workers": {
        "processor.0": {"incarnation": 1, "state": "up", "stats": {}},
        "processor.1": {"incarnation": 2, "state": "starting"},
        "sink.0": {"incarnation": 1, "state": "up", "stats": {"decoded_items": 40, "metrics": {"loss": 0.25}}},
    },
    "past": {"processor.1#1": {"lost_items": 3}},
}


def snapshot(**changes: Any) -> Snapshot:
    return replace(look(STATUS, 7, 700, 1400, 1234.5, ("kill processor.1#1",)), **changes)


def test_a_snapshot_sums_up_all_incarnations() -> None:
    found = snapshot()
    assert (found.alive, found.decoded_items, found.lost_items, found.metrics) == (2, 40, 3, {"loss": 0.25})
    assert found.workers[1] == ("processor.1", 2, "starting")


def test_what_is_lost_is_told_as_the_summary_will_tell_it() -> None:
    """What an incarnation found lost, the one that was restored says once more."""
    recovery = {"failure": 1, "window": 7, "state": "", "divergence_max": 0, "items_max": 0, "output_max": 0}
    again = {"lost_items": 167, "missed_items": 0, "recovery": {**recovery, "items_lost": 0}}
    status = {
        "workers": {"sink.0": {"incarnation": 2, "state": "up", "stats": again}},
        "past": {"sink.0#1": {"lost_items": 167, "missed_items": 0}},
    }
    assert look(status, 7, 700, None, 0.0, ()).lost_items == 167


def test_before_anything_is_known_there_is_nothing_to_show() -> None:
    stream = io.StringIO()
    LineDisplay(stream).show(look({}, 0, 0, None, 0.0, ()))
    assert stream.getvalue() == ""


def test_a_line_says_how_far_how_fast_and_who_is_missing() -> None:
    text = line(snapshot())
    for words in ("RECOVERING", "epoch 7", "700 (50 %) items", "1,234 items/s", "2/3 workers up (not processor.1#2)"):
        assert words in text
    assert "decoded 40" in text and "lost 3" in text and "loss 0.25" in text
    assert "not processor" not in line(snapshot(phase="COMPLETED"))


def test_a_line_comes_when_something_happens_and_not_otherwise() -> None:
    stream = io.StringIO()
    display = LineDisplay(stream)
    for shown in (snapshot(faults=()), snapshot(faults=()), snapshot(), snapshot(), snapshot(phase="RUNNING")):
        display.show(shown)
    lines = stream.getvalue().splitlines()
    assert [text.split("  ")[0] for text in lines] == [
        "RECOVERING",
        "fault injected: kill processor.1#1",
        "RECOVERING",
        "RUNNING",
    ]


def test_the_table_holds_the_same_facts() -> None:
    stream = io.StringIO()
    Console(file=stream, width=200).print(table(snapshot()))
    for words in ("trial", "RECOVERING", "700 (50 %)", "processor.1#2", "kill processor.1#1", "loss 0.25", "40 items"):
        assert words in stream.getvalue()


def test_all_of_a_stream_is_not_said_before_its_last_item() -> None:
    total = 1_000_000
    told = [line(snapshot(items=items, total_items=total)) for items in (total - 1, total)]
    assert "999,999 (99 %) items" in told[0] and "1,000,000 (100 %) items" in told[1]


def test_names_of_metrics_are_no_markup() -> None:
    stream = io.StringIO()
    Console(file=stream, width=200).print(table(snapshot(metrics={"latency[ms]": 3.0, "[/worst]": 4.0})))
    assert "latency[ms] 3  [/worst] 4" in stream.getvalue()


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate.add(0.0, 0) == 0.0
    assert rate.add(1.0, 100) == 100.0
    assert rate.add(2.0, 300) == 150.0
    assert rate.add(4.5, 300) == 0.0 or rate.add(4.5, 300) < 150.0


def test_a_stream_that_flowed_while_no_controller_answered_did_not_stand() -> None:
    rate = Rate()
    for now, items in [(0.0, 0), (1.0, 100), (2.0, 200), (7.0, 700), (7.5, 750), (9.5, 950)]:
        assert rate.add(now, items) == (100.0 if now else 0.0)
    assert rate.add(11.5, 950) == rate.add(13.5, 950) == 0.0, "it stands"


def test_a_long_call_is_told_of_once_for_its_stage_and_again_when_it_has_grown() -> None:
    stream = io.StringIO()
    display = LineDisplay(stream)
    for seconds in (2.1, 5.0, 19.0, 21.5):
        calls = [SlowCall(f"processor.{n}", "process_data", "m.py:3", seconds) for n in (0, 1)]
        display.show(snapshot(faults=(), calls=tuple(calls)))
    told = [text for text in stream.getvalue().splitlines() if "has not returned" in text]
    assert told == [
        "process_data of processor.0 has not returned for 2 s (m.py:3)",
        "process_data of processor.0 has not returned for 22 s (m.py:3)",
    ]


def test_a_worker_that_ends_itself_in_one_way_is_told_of_once() -> None:
    stream = io.StringIO()
    display = LineDisplay(stream)
    status = {**STATUS, "failures": []}
    for incarnation, ended in ((1, "exit status 3"), (2, ""), (3, "exit status 3"), (4, "signal SIGABRT")):
        status["failures"].append({"worker": "processor.1", "incarnation": incarnation, "ended": ended})
        display.show(look(status, 7, 700, 1400, 1.0, ()))
    told = [text for text in stream.getvalue().splitlines() if "ended by" in text]
    assert told == ["processor.1#1 ended by exit status 3", "processor.1#4 ended by signal SIGABRT"]


def test_lines_that_nobody_reads_are_left_out_and_hold_nothing_up() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writing, False)  # who would wait gets an error here
    with os.fdopen(writing, "w") as stream:
        display = LineDisplay(stream)
        for number in range(500):
            display.show(look(STATUS | {"phase": f"PHASE{number}"}, number, 10 * number, None, 1.0, ()))
        shown = os.read(reading, 1 << 16).decode().splitlines()
        assert shown[0].startswith("PHASE0 ") and len(shown) < 499 and all(text.startswith("PHASE") for text in shown)
        display.show(look(STATUS | {"phase": "LAST"}, 500, 5000, None, 1.0, ()))
        assert os.read(reading, 1 << 16).startswith(b"LAST "), "and on they go once it is read"
    os.close(reading)
