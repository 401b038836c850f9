"""A handle and its launcher: what is told arrives, orders are answered, and the end of either is noticed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from riprap.codec.errors import ConfigError, DataError, JobFailed, RiprapError
from riprap.controller import channel
from riprap.engine.api import launcher as launcher_process
from riprap.engine.api import messages
from riprap.engine.api import run as run_module
from riprap.engine.api.epochs import CommittedEpochs
from riprap.engine.api.run import Run
from riprap.engine.run.snapshot import Snapshot
from riprap.engine.run_directory.directory import write_summary

FAILURE = {"worker": "processor.1", "incarnation": 1, "action": "kill", "restored_ms": 41.25}
SNAPSHOT = Snapshot(
    job="trial", phase="RUNNING", epochs=3, items=30, total_items=100, items_per_second=5.0, metrics={"loss": 0.5},
    workers=(("processor.0", 1, "up"), ("processor.1", 2, "starting")),
    decoded_items=0, recomputed_items=0, lost_items=0, failures=(FAILURE,),
)  # fmt: skip


ORDER = {"zookeeper": "zk:1", "zookeeper_auth": "/auth.yaml"}


class Launcher:
    """The other end of a handle, with a process that ends when it is told to."""

    def __init__(self, directory: Path) -> None:
        ours, self.end = channel.pair()
        code = "import sys; sys.exit(len(sys.stdin.read()))"
        self.process = subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE)
        self.run = Run(self.process, ours, {"job": "trial", "run_dir": str(directory), "sinks": 1}, ORDER)

    def tell(self, kind: str, /, **fields: Any) -> None:
        channel.send(self.end, {"type": kind, **fields})

    def hear(self) -> dict[str, Any]:
        received = channel.receive(self.end)
        assert received is not None
        return received[0]

    def exit(self) -> None:
        self.end.close()
        assert self.process.stdin is not None
        self.process.stdin.close()


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path)
    yield launcher
    launcher.exit()
    launcher.process.wait()


def commit(directory: Path, *epochs: int, name: str = "epochs.csv") -> None:
    with (directory / name).open("a") as stream:
        stream.writelines(f"{epoch},10,1.5,{epoch}.0\n" for epoch in epochs)


def test_what_the_launcher_shows_is_the_progress(launcher: Launcher) -> None:
    launcher.tell(messages.PROGRESS, **asdict(SNAPSHOT))
    launcher.tell(messages.ENDED, phase="COMPLETED")
    launcher.exit()
    launcher.run.wait(120)
    now = launcher.run.progress()
    assert (now.phase, now.epoch, now.items, now.total_items, now.workers_up) == ("COMPLETED", 3, 30, 100, 1)
    assert launcher.run.metrics == {"loss": 0.5} and launcher.run.failures == [FAILURE]
    shown = launcher.run._repr_html_()
    for text in ("trial  COMPLETED", '<progress max="100" value="30">', "processor.1#1 kill, restored after 41.2 ms"):
        assert text in shown


def test_the_summary_is_returned_once_the_launcher_is_gone(launcher: Launcher, tmp_path: Path) -> None:
    write_summary(tmp_path, {"completed": True, "items": 30, "failures": [FAILURE], "metrics": {"a": 1.5, "b": None}})
    launcher.tell(messages.ENDED, phase="COMPLETED")
    with pytest.raises(RiprapError, match=r"job trial is still SUBMITTED after 0.01 s"):
        launcher.run.wait(0.01)
    launcher.exit()
    assert launcher.run.wait(120)["items"] == 30 and launcher.run.ended
    assert launcher.run.failures == [FAILURE] and launcher.run.metrics == {"a": 1.5}


def test_the_summary_outlives_the_run_directory(launcher: Launcher, tmp_path: Path) -> None:
    write_summary(tmp_path, {"completed": True, "items": 30})
    launcher.tell(messages.ENDED, phase="COMPLETED")
    launcher.exit()
    launcher.run.wait(120)["items"] = 0
    (tmp_path / "summary.json").unlink()
    assert launcher.run.wait() == {"completed": True, "items": 30}


def test_the_error_of_a_job_that_failed_is_raised(launcher: Launcher) -> None:
    launcher.tell(messages.ENDED, phase="FAILED", **messages.of_error(JobFailed("a mistake", "correct it")))
    launcher.exit()
    with pytest.raises(JobFailed, match="a mistake\n  remedy: correct it"):
        launcher.run.wait(120)
    with pytest.raises(JobFailed, match="a mistake"):
        list(launcher.run)


def test_a_launcher_that_dies_silently_has_failed_the_job(launcher: Launcher, tmp_path: Path) -> None:
    launcher.process.kill()
    launcher.exit()
    options = "--zookeeper zk:1 --zookeeper-auth /auth.yaml"
    command = f"riprap run --resume {tmp_path} {options}"
    with pytest.raises(JobFailed, match=rf"lost its launcher \(exit code -9\)\n.*{command}"):
        launcher.run.wait(120)


@pytest.mark.parametrize("done", [True, False])
def test_an_order_to_kill_is_answered(launcher: Launcher, done: bool) -> None:
    launcher.tell(messages.PROGRESS, **asdict(SNAPSHOT))
    orders: list[dict[str, Any]] = []

    def obey() -> None:
        orders.append(launcher.hear())
        launcher.tell(messages.KILLED, target="processor.1", done=done)

    thread = threading.Thread(target=obey)
    thread.start()
    if done:
        launcher.run.kill("processor.1")
    else:
        with pytest.raises(ConfigError, match=r"no processor.1 .* is running now\n.*processor.0, processor.1"):
            launcher.run.kill("processor.1")
    thread.join()
    assert orders == [{"type": messages.KILL, "target": "processor.1"}]


@pytest.mark.parametrize("target", [None, 3, "\ud800"])
def test_what_is_no_name_of_a_target_is_the_name_of_nobody(launcher: Launcher, target: Any) -> None:
    """The launcher's thread that takes orders, and sees the program's end, lives on."""
    heard: list[dict[str, Any]] = []

    def obey() -> None:
        heard.append(launcher.hear())
        launcher.tell(messages.KILLED, target=heard[0]["target"], done=False)

    thread = threading.Thread(target=obey)
    thread.start()
    with pytest.raises(ConfigError, match="is running now"):
        launcher.run.kill(target)
    thread.join()
    assert isinstance(heard[0]["target"], str)


@pytest.mark.parametrize(
    "wrong",
    [{"zookeeper": 3}, {"zookeeper_auth": "auth\udcff"}, {"out": "run\udcff"}, {"domains": {3: 2}}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_an_order_that_no_message_could_carry_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} is "):
        messages.order((), **{"zookeeper": None, "zookeeper_auth": None, "standby": 0, "program": 1, **wrong})


def test_an_answer_that_comes_late_is_none_to_the_next_order(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "ANSWER_S", 0.01)
    with pytest.raises(ConfigError, match=r"no processor.1 of job"):
        launcher.run.kill("processor.1")
    monkeypatch.setattr(run_module, "ANSWER_S", 60.0)

    def obey() -> None:
        for target, done in ((launcher.hear()["target"], True), (launcher.hear()["target"], False)):
            launcher.tell(messages.KILLED, target=target, done=done)

    thread = threading.Thread(target=obey)
    thread.start()
    with pytest.raises(ConfigError, match=r"no processor.0 of job"):
        launcher.run.kill("processor.0")
    thread.join()


def test_leaving_early_cancels_and_waits_for_the_end(launcher: Launcher) -> None:
    orders: list[dict[str, Any]] = []

    def obey() -> None:
        orders.append(launcher.hear())
        launcher.tell(messages.ENDED, phase="CANCELLED")
        launcher.exit()

    thread = threading.Thread(target=obey)
    thread.start()
    with pytest.raises(KeyError), launcher.run:
        raise KeyError
    thread.join()
    assert orders == [{"type": messages.CANCEL}] and launcher.run.progress().phase == "CANCELLED"
    launcher.run.cancel()  # once more, of what has ended
    with pytest.raises(ConfigError, match=r"no sink.0 of job trial is running now\n.*the job has ended"):
        launcher.run.kill("sink.0")


def test_epochs_come_one_by_one_until_the_end(launcher: Launcher, tmp_path: Path) -> None:
    commit(tmp_path, 1, 2)
    coming = iter(launcher.run)
    assert [next(coming).epoch, next(coming).epoch] == [1, 2]
    commit(tmp_path, 3)
    assert next(coming).epoch == 3
    commit(tmp_path, 4)
    launcher.tell(messages.ENDED, phase="COMPLETED")
    launcher.exit()
    assert [epoch.epoch for epoch in coming] == [4]
    assert [epoch.items for epoch in launcher.run.epochs()] == [10] * 4


def test_an_epoch_of_several_sinks_is_theirs_together(tmp_path: Path) -> None:
    epochs = CommittedEpochs(tmp_path, 2)
    commit(tmp_path, 1, 2, name="epochs.0.csv")
    commit(tmp_path, 1, name="epochs.1.csv")
    assert [(one.epoch, one.items) for one in epochs.take()] == [(1, 20)]
    commit(tmp_path, 2, name="epochs.1.csv")
    commit(tmp_path, 3, name="epochs.0.csv")
    assert [(one.epoch, one.items) for one in epochs.take(whole=False)] == [(2, 20), (3, 10)]


def test_an_epoch_that_a_sink_has_left_out_is_not_told_by_the_others(tmp_path: Path) -> None:
    """The files begin anew at moments of their own, each without its oldest epochs."""
    heading = "epoch,items,latency_ms,committed_at\n"
    for sink, last in enumerate((3, 1)):
        (tmp_path / f"epochs.{sink}.csv").write_text(f"{heading}# before {last} {last * 10}\n")
        commit(tmp_path, *range(last + 1, 6), name=f"epochs.{sink}.csv")
    epochs = CommittedEpochs(tmp_path, 2)
    assert [(one.epoch, one.items) for one in epochs.take()] == [(4, 20), (5, 20)]
    commit(tmp_path, 6, name="epochs.0.csv")
    assert epochs.take() == []
    assert [(one.epoch, one.items) for one in epochs.take(whole=False)] == [(6, 10)]


@pytest.fixture
def interrupted_by_sigterm() -> Iterator[None]:
    """As the launcher's process is."""
    before = signal.signal(signal.SIGTERM, launcher_process._interrupt)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def ending(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, interrupted_by_sigterm: None
) -> Callable[..., dict[str, Any]]:
    """The launcher's last words on a job that is cancelled in the midst of these calls, made with its display."""

    def last_words(*calls: Callable[[Any], None]) -> dict[str, Any]:
        def run_to_end(start: Any, display: Any, *_: Any) -> tuple[dict[str, Any], None]:
            for call in calls:
                call(display)
            return {}, None

        monkeypatch.setattr(launcher_process, "run_to_end", run_to_end)
        start, order = SimpleNamespace(run_dir=tmp_path), {"zookeeper": None, "standby": 0}
        with socket.socket() as end:
            return launcher_process.Launcher(end)._run(start, order)  # type: ignore[arg-type]

    return last_words


def cancel(display: Any) -> None:
    signal.raise_signal(signal.SIGTERM)


def test_a_job_that_is_cancelled_while_all_is_taken_down_stays_as_it_is(ending: Callable[..., dict[str, Any]]) -> None:
    taken_down: list[Any] = []
    assert ending(lambda display: display.close(), cancel, taken_down.append) == {"phase": "COMPLETED"}
    assert taken_down, "to the end"


@pytest.mark.parametrize(("completed", "phase"), [(True, "COMPLETED"), (False, "CANCELLED")])
def test_an_order_to_cancel_that_comes_too_late_cancels_nothing(
    ending: Callable[..., dict[str, Any]], tmp_path: Path, completed: bool, phase: str
) -> None:
    assert ending(lambda _: write_summary(tmp_path, {"completed": completed}), cancel) == {"phase": phase}


def test_nothing_interrupts_a_launcher_that_has_refused_its_order(
    monkeypatch: pytest.MonkeyPatch, interrupted_by_sigterm: None
) -> None:
    """The program closes its end then, which is else a reason to end the job."""

    def refuse(order: Any) -> None:
        raise ConfigError("a mistake", "correct it")

    monkeypatch.setattr(launcher_process, "_start", refuse)
    monkeypatch.setattr(launcher_process.Launcher, "_obey", lambda launcher, program: None)
    ours, theirs = channel.pair()
    with ours, theirs:
        channel.send(ours, {"type": messages.ORDER, "program": 0})
        launcher_process.Launcher(theirs).run()
        cancel(None)
        received = channel.receive(ours)
    assert received is not None and received[0]["type"] == messages.REFUSED


@pytest.mark.parametrize("kind", [ConfigError, DataError, JobFailed, RiprapError])
def test_an_error_passes_as_it_is(kind: type[RiprapError]) -> None:
    passed = messages.to_error(messages.of_error(kind("what", "remedy")))
    assert type(passed) is kind and str(passed) == str(kind("what", "remedy"))


def test_an_error_passes_whatever_its_text(launcher: Launcher) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    error = DataError(f"{name} cannot be read: {'x' * channel.CHANNEL_BYTES_MAX}", f"remove {name}")
    launcher.tell(messages.ENDED, phase="FAILED", **messages.of_error(error))
    launcher.exit()
    with pytest.raises(
        DataError, match=r"^caf\\udce9.txt cannot be read: x+ \.\.\. x+\n  remedy: remove caf\\udce9.txt$"
    ):
        launcher.run.wait(120)
