"""The failure detector: named cases, and laws that hold for any history of observations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.ids import Incarnation, WorkerId
from riprap.controller.detector import Detector
from riprap.controller.phases import FailureReason

A, B = WorkerId("processor", 0), WorkerId("processor", 1)
ONE, TWO = Incarnation(1), Incarnation(2)


def watching(*workers: WorkerId) -> Detector:
    detector = Detector(heartbeat_timeout_s=2.0)
    for worker in workers:
        detector.watch(worker, ONE, "agent-1")
    return detector


def test_an_exit_is_suspected_at_once_with_its_reason() -> None:
    detector = watching(A, B)
    detector.exited(A, ONE, 1)
    detector.exited(B, ONE, -9)
    assert detector.suspicions(0.0) == {A: FailureReason.EXITED, B: FailureReason.KILLED}


def test_a_beat_that_stands_still_is_suspected_though_it_is_reported() -> None:
    detector = watching(A)
    detector.beat(A, ONE, 7, now=10.0)
    for now in (10.5, 11.0, 12.0):
        detector.beat(A, ONE, 7, now)
    assert detector.suspicions(12.0) == {}
    assert detector.suspicions(12.001) == {A: FailureReason.HEARTBEAT}


def test_a_worker_that_is_not_up_yet_owes_no_beat() -> None:
    assert watching(A).suspicions(1e6) == {}


def test_a_gone_agent_loses_exactly_its_workers() -> None:
    detector = watching(A)
    detector.watch(B, ONE, "agent-2")
    detector.agent_gone("agent-1")
    assert detector.suspicions(0.0) == {A: FailureReason.HOST_GONE}


def test_the_observers_own_sleep_is_no_evidence() -> None:
    detector = watching(A)
    detector.beat(A, ONE, 1, now=0.0)
    detector.observer_slept(30.0)
    assert detector.suspicions(31.0) == {}
    assert detector.suspicions(32.1) == {A: FailureReason.HEARTBEAT}


OBSERVATIONS = st.lists(
    st.tuples(
        st.sampled_from(("watch", "beat", "exit", "gone", "look")),
        st.sampled_from((A, B)),
        st.integers(1, 4),
        st.integers(0, 50),
        st.floats(0.0, 1.5),
    ),
    max_size=60,
)


@given(OBSERVATIONS)
def test_laws_of_suspicion(history: list[tuple[str, WorkerId, int, int, float]]) -> None:
    """A suspicion has grounds in the current incarnation, and stays until the next one is watched."""
    detector, now = Detector(2.0), 0.0
    current: dict[WorkerId, int] = {}
    grounds: set[WorkerId] = set()
    advanced: dict[WorkerId, tuple[int, float]] = {}
    before: dict[WorkerId, FailureReason] = {}
    for kind, worker, incarnation, beat, step in history:
        now += step
        is_current = current.get(worker) == incarnation
        if kind == "watch":
            detector.watch(worker, Incarnation(incarnation), f"agent-{worker.index}")
            if incarnation > current.get(worker, 0):
                current[worker] = incarnation
                grounds.discard(worker)
                advanced.pop(worker, None)
                before.pop(worker, None)
        elif kind == "beat":
            detector.beat(worker, Incarnation(incarnation), beat, now)
            if is_current and beat > advanced.get(worker, (-1, 0.0))[0]:
                advanced[worker] = (beat, now)
        elif kind == "exit":
            detector.exited(worker, Incarnation(incarnation), -9)
            grounds |= {worker} if is_current else set()
        elif kind == "gone":
            detector.agent_gone(f"agent-{worker.index}")
            grounds |= {worker} if worker in current else set()
        suspicions = detector.suspicions(now)
        silent = {w for w, (_, at) in advanced.items() if now - at > 2.0}
        assert grounds | silent <= suspicions.keys() <= grounds | silent | before.keys()
        assert all(suspicions[w] == reason for w, reason in before.items()), "a suspicion stays as it was raised"
        before = suspicions
