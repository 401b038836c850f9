"""A short run of the fuzz of the network's gate, and that a failure of it would be seen and could be replayed."""

from __future__ import annotations

import re

import fuzz_frames
import pytest

from riprap.engine.spreads.collector import Collector


def test_twenty_thousand_malformed_messages_are_dropped_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz_frames.main(["--count", "20000", "--seed", "7"]) == 0
    counts = {words: int(n) for n, words in re.findall(r"^ *(\d+)  (.+)$", capsys.readouterr().out, re.MULTILINE)}
    assert counts["dropped"] >= 20_000
    assert sum(n for words, n in counts.items() if words.startswith("dropped: ")) == counts["dropped"]
    assert counts["honest taken"] > 2_000 and counts["taken"] > 300 and counts["refused"] > 100
    assert len(counts) > 25, "reasons of many kinds"


def test_an_exception_ends_the_run_and_names_what_replays_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Collector, "admits", lambda self, block: True)
    assert fuzz_frames.main(["--count", "20000", "--seed", "7"]) == 1
    replay = re.search(r"replay: python (\S+) (.+)", capsys.readouterr().out)
    assert replay and replay[1] == "tests/fuzz/fuzz_frames.py"
    assert fuzz_frames.main(replay[2].split()) == 1
    monkeypatch.undo()
    assert fuzz_frames.main(replay[2].split()) == 0


def test_sessions_repeat_themselves() -> None:
    def outcome() -> list[tuple[str, int]]:
        return sorted(fuzz_frames.session(3, 5, fuzz_frames.make_corpus()).items())

    assert outcome() == outcome()
