"""The response to a loss: the scheme's plan, step by step, and the waits that end a job when they last too long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from riprap.codec.errors import RiprapError
from riprap.codec.ids import WorkerId
from riprap.controller import replicas
from riprap.controller.endings import describe_end, ended_itself
from riprap.controller.job import LedJob
from riprap.controller.moment import Moment
from riprap.controller.phases import EndReason, FailureReason, Phase
from riprap.controller.steps import Announce, Fence, Respawn, Rollback, Step

CRASHES_MAX = 2
"""The most replacements of a worker that ends itself without having processed an item."""
AGAIN = "then run the job again"

_TIMES = ("respawned_at", "restored_at", "first_item_at", "caught_up_at")


def recover(run: Moment, lost: dict[WorkerId, FailureReason]) -> None:
    """Note each loss, ask the plan, and apply its steps; the job fails when the plan, or patience, has no way on.

    A replica that nobody waits for yet is given up instead.
    """
    job = run.job
    for worker, reason in lost.items():
        note(run, worker, reason)
    stormy = [worker for worker in lost if _is_storm(run, worker)]
    if all(job.tasks[worker].joins for worker in stormy):
        for worker in stormy:
            replicas.give_up(run, worker, f"it died {len(job.tasks[worker].fruitless)} times, to no avail")
            del lost[worker]
        if not lost:
            return
    else:
        missed = next(worker for worker in stormy if not job.tasks[worker].joins)
        _give_up_restarting(run, missed, lost[missed])
        return
    try:
        steps = job.plan(replace(job.view, unsettled=frozenset(job.unsettled)), tuple(sorted(lost)))
    except (
        Exception
    ) as error:  # a scheme is the user's choice, and may be the user's code: its bug ends its job, not us
        remedy = getattr(error, "remedy", "") or "run the job again, with a scheme that tolerates this loss"
        run.fail(EndReason.UNRECOVERABLE, str(error.args[0]) if isinstance(error, RiprapError) else repr(error), remedy)
        return
    for step in steps:
        _apply(job, step)
    rollbacks = [step for step in steps if isinstance(step, Rollback)]
    if job.checkpoints is not None:
        job.unsettled |= set() if rollbacks else set(lost)
        if aborted := job.checkpoints.abort(run.now):
            run.log_checkpoint("aborted", checkpoint=aborted.number, reason="a worker was lost")
    for step in rollbacks:
        run.log("rollback", round=job.round, **({"reason": step.reason} if step.reason else {}))


def note(run: Moment, worker: WorkerId, reason: FailureReason) -> None:
    """Enter a loss among the job's failures, once, repaired or not."""
    job, task = run.job, run.job.tasks[worker]
    task.lost_at = run.now if task.lost_at is None else task.lost_at
    task.lost_in = run.cluster.labels_of(task.assignment.host, task.assignment.instance)
    incarnation = task.assignment.incarnation
    if any(known["worker"] == str(worker) and known["incarnation"] == incarnation for known in job.failures):
        return  # by a former leader, say, that died before it could replace the worker
    failure: dict[str, Any] = {
        "worker": str(worker),
        "incarnation": incarnation,
        "reason": str(reason),
        "ended": "",
        "detected_at": run.now,
        "clock": run.cluster.clock,
        **dict.fromkeys(_TIMES),
    }
    _explain(job, failure)
    job.failures.append(failure)
    row = job.row(worker)
    exited_at = row.exited_at if row is not None else None
    run.log("detected", worker=str(worker), incarnation=incarnation, reason=str(reason), exited_at=exited_at)


def _is_storm(run: Moment, worker: WorkerId) -> bool:
    """Count this death of the worker; True when it has died too often to no avail.

    One that ends itself will do so again, so it is given up sooner than one that is killed from outside.
    """
    fruitless, limits = run.job.tasks[worker].fruitless, run.job.spec.limits
    row = run.job.row(worker)
    if row is not None and row.items > 0:
        fruitless.clear()
        return False
    fruitless.append(run.now)
    while run.now - fruitless[0] > limits.restarts_window_s:
        fruitless.popleft()
    most = CRASHES_MAX if row is not None and ended_itself(row.status) else limits.restarts_max
    return len(fruitless) > min(most, limits.restarts_max)


def _give_up_restarting(run: Moment, worker: WorkerId, reason: FailureReason) -> None:
    job, limits, row = run.job, run.job.spec.limits, run.job.row(worker)
    ended = describe_end(row.status, row.crashed_at) if row is not None else ""
    log = f"{job.spec.run_dir}/logs/{worker}.log"
    remedy = f"see {log}, then run the job again"
    if reason is FailureReason.HEARTBEAT:
        remedy = (
            "compiled code that holds Python's lock (GIL) for longer than cluster.heartbeat_timeout_s looks like a hung"
            f" process: release it there, or raise that limit (now {limits.heartbeat_timeout_s:g})"
        )
    elif row is not None and row.crashed_at:
        remedy = f"correct that line; {log} says where all threads were"
    times = len(job.tasks[worker].fruitless)
    how = f"the last time by {ended}" if ended else str(reason)
    message = f"{worker} died {times} times in {limits.restarts_window_s:g} s without processing an item: {how}"
    run.fail(EndReason.STORM, message, remedy)


def _apply(job: LedJob, step: Step) -> None:
    if isinstance(step, Rollback):
        job.round += 1
        job.unsettled.clear()
        return
    task = job.tasks[step.worker]
    match step:
        case Fence():
            task.fenced, task.wanted = True, False
        case Respawn():
            assert task.fenced, f"{step} without a Fence before it: two incarnations could run"
            task.wanted, task.announced = True, False
        case Announce():
            assert task.wanted, f"{step} without a Respawn before it"
            task.announced = True


def fill_in_failures(run: Moment) -> None:
    """Copy the replacements' times into the failures that they follow: started, ready, first item, caught up."""
    for failure in run.job.failures:
        _explain(run.job, failure)
        if failure["caught_up_at"] is not None or failure["clock"] != run.cluster.clock:
            continue  # a leader on another host detected it, by a clock that we cannot read
        worker = WorkerId.parse(failure["worker"])
        row = run.job.rows.get((worker, failure["incarnation"] + 1))
        if row is None:
            continue
        heard = (row.started_at, row.ready_at, row.stats.get("first_item_at"), row.stats.get("caught_up_at"))
        for name, at in zip(_TIMES, heard):
            if failure[name] is None and isinstance(at, int | float) and at > 0:
                failure[name] = at
                event = name.removesuffix("_at")
                run.log(event, worker=failure["worker"], incarnation=row.incarnation, monotonic=at)


def _explain(job: LedJob, failure: dict[str, Any]) -> None:
    """Add the reason of an exit that was acted on at once; it may be heard a moment later."""
    row = job.rows.get((WorkerId.parse(failure["worker"]), failure["incarnation"]))
    if row is None or row.status is None:
        return
    if failure["reason"] == FailureReason.EXITED and row.status < 0:
        failure["reason"] = str(FailureReason.KILLED)
    if not failure.get("ended"):
        failure["ended"] = describe_end(row.status, row.crashed_at)


def check_deadlines(run: Moment) -> None:
    """Fail the job if a start, the deployment, a recovery or an epoch takes too long; the message names the wait.

    A replica that nobody waits for yet is given up instead.
    """
    job, limits = run.job, run.job.spec.limits
    for worker, task in job.tasks.items():
        late = _late(run, worker)
        if late is not None and task.joins:
            replicas.give_up(run, worker, late[1])
        elif late is not None:
            return run.fail(*late)
    if job.phase is Phase.DEPLOYING and run.now - job.phase_at > limits.deployment_timeout_s:
        missing = [str(worker) for worker in job.running if not job.is_up(worker)]
        message = f"{', '.join(missing[:8])} not up after {limits.deployment_timeout_s:g} s"
        run.fail(EndReason.DEPLOYMENT, message, f"see the logs under {job.spec.run_dir}/logs, {AGAIN}")
    else:
        _check_stall(run)
    return None


def _late(run: Moment, worker: WorkerId) -> tuple[EndReason, str, str] | None:
    """The deadline of its recovery or its start that a worker has missed, in words, with the remedy; None for none."""
    job, task, limits = run.job, run.job.tasks[worker], run.job.spec.limits
    if job.is_up(worker) or task.off:
        return None
    if task.lost_at is not None and run.now - task.lost_at > limits.recovery_timeout_s:
        why = _waiting_for(run, worker)
        message = f"{worker} was lost and is not back after {limits.recovery_timeout_s:g} s: {why}"
        return EndReason.RECOVERY, message, f"see {job.spec.run_dir}/events.jsonl, {AGAIN}"
    if not task.wanted and not task.fenced and run.now - task.assigned_at > limits.startup_timeout_s:
        why = _waiting_for(run, worker)
        message = f"{worker} is not ready {limits.startup_timeout_s:g} s after its start: {why}"
        log = f"{job.spec.run_dir}/logs/{worker}.log"
        remedy = f"see {log}, raise cluster.startup_timeout_s if it is only slow, {AGAIN}"
        return EndReason.START_UP, message, remedy
    return None


def _check_stall(run: Moment) -> None:
    """Fail a job that commits nothing more though all are up, whatever the cause; a call of an operator may take its
    time, and a recovery has a deadline of its own."""
    job, timeout_s = run.job, run.job.spec.limits.stall_timeout_s
    passed_s, job.watched_at = run.now - job.watched_at, run.now
    committed = sum(row.epoch for row in job.sink_rows if row is not None)
    computes = any((row := job.row(worker)) is not None and row.call for worker in job.tasks if job.is_up(worker))
    if committed != job.committed or computes or job.phase is Phase.DEPLOYING:
        job.committed, job.stalled_s = committed, 0.0
    elif job.phase is Phase.RUNNING:
        job.stalled_s += passed_s
    if job.stalled_s > timeout_s:
        at = ", ".join(f"{worker} at {row.epoch}" for worker in job.tasks if (row := job.row(worker)) is not None)
        run.fail(
            EndReason.STALL,
            f"no epoch was committed for {timeout_s:g} s; epochs: {at}",
            f"see {job.spec.run_dir}/logs and events.jsonl; raise cluster.stall_timeout_s if an epoch takes longer",
        )


def _waiting_for(run: Moment, worker: WorkerId) -> str:
    """The thing that the worker's replacement waits for, in words."""
    task = run.job.tasks[worker]
    if task.wanted:
        return "no agent is there to run it"
    if not run.job.may_run(worker):
        return "its incarnation is not durable: ZooKeeper has not confirmed it, or the run directory has no room"
    row, agent = run.job.row(worker), f"the agent of {task.assignment.host} has"
    if task.assignment.instance in run.job.unheard:
        return f"{agent} not reported since another controller leads"
    return f"{agent} not started it" if row is None else f"{agent} started it, it is not ready"
