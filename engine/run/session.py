"""Runs one job on this machine from start to summary: services up, submit, watch, inject, sum up, services down."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from riprap.codec.errors import ConfigError, RiprapError
from riprap.codec.events import EventLog
from riprap.codec.files import cut_torn_line, remove_partial
from riprap.controller.client import Client
from riprap.controller.phases import TERMINAL
from riprap.engine.run.display import Display
from riprap.engine.run.environment import describe
from riprap.engine.run.holdout import holdout_metrics
from riprap.engine.run.injector import Injector
from riprap.engine.run.interrupts import interrupted_later
from riprap.engine.run.poller import Poller
from riprap.engine.run.snapshot import Rate, look
from riprap.engine.run.start import Start
from riprap.engine.run.summary import Facts, compose, left_out, match_failures, shortfall, stats_by_worker, times
from riprap.engine.run.targets import Targets, listener
from riprap.engine.run_directory.checkpoints import last_checkpoint, read_checkpoints
from riprap.engine.run_directory.directory import EVENTS, LOGS, read_events, write_summary
from riprap.engine.run_directory.epochs import Committed
from riprap.engine.run_directory.rates import gather_rates
from riprap.engine.services.backup_servers import discard_storage
from riprap.engine.services.cluster import open_client
from riprap.engine.services.forgetting import forget_backups
from riprap.engine.services.host import Services
from riprap.engine.services.hosts import this_host
from riprap.engine.services.own_part import OwnPart
from riprap.engine.services.state import ZOOKEEPER_DATA
from riprap.engine.worker.profile_folder import PROFILE

LOOK_EVERY_S = 0.05
CALM_EVERY_S = 0.5
ANSWER_TIMEOUT_S = 2.0
SILENCE_MAX_S = 30.0
"""Longest silence of the controller (it may be down, with a standby about to take over) before the run fails."""
CANCEL_TIMEOUT_S = 3.0


class Session:
    """One `riprap run`. `run` returns the summary, whatever the outcome; all that it started is gone then."""

    def __init__(self, start: Start, display: Display, zookeeper: str | None, standby: int) -> None:
        self._start, self._zookeeper = start, zookeeper
        self._job = job = start.job
        self._run_dir = run_dir = start.run_dir
        self._display = display
        self._started_at = time.monotonic()
        cut_torn_line(run_dir / EVENTS)  # of an attempt that found no room
        remove_partial(run_dir)
        self._events = EventLog(run_dir / EVENTS)
        self._remove_zookeeper_data()  # of a launcher that was killed
        if start.profile:
            shutil.rmtree(run_dir / PROFILE, ignore_errors=True)  # of an earlier attempt
        logs, backups = run_dir / LOGS, start.backups
        self._part = OwnPart(zookeeper, start.attempt.run, start.attempt.number) if zookeeper else None
        ensemble = self._part.connect_string if self._part else None
        hosts = start.hosts or (this_host(),)
        self._services = Services(logs, ensemble, standby, hosts=hosts, on_restart=self._note_restart, backups=backups)
        self._service_failures: list[dict[str, Any]] = []
        self._targets = Targets({host.name: host.labels for host in hosts}, self._services.agents)
        self._leads: tuple[str, int | None] = ("", None)
        sinks = sum(job.topology.stages[stage].parallelism for stage in job.topology.sinks)
        self._committed = Committed(run_dir, sinks)
        self._committed.refresh()
        self._items_earlier = self._committed.items
        self._injector = Injector(job.faults, self._targets, Committed(run_dir, sinks), self._events)
        self._rate = Rate()
        self._drained = False
        self.status: Mapping[str, Any] = {}

    def run(self) -> dict[str, Any]:
        """Run to the job's end. An interrupt cancels the job and is raised again once all is down.

        One that comes while all is taken down finds nothing to cancel; it is raised afterwards.
        """
        try:
            self._run()
        finally:
            with interrupted_later():
                summary = self._take_down()
        return summary

    def kill(self, target: str) -> bool:
        """SIGKILL for a worker or service of the job now; False when none of that name runs. For any thread."""
        return self._injector.kill(target)

    def _take_down(self) -> dict[str, Any]:
        """End all that was started, and sum up."""
        self._display.close()
        self._injector.stop()
        self._services.stop()
        self._remove_zookeeper_data()
        self._remove_part()
        try:
            return self._sum_up()
        finally:
            self._events.close()
            self._start.lock.close()

    def _sum_up(self) -> dict[str, Any]:
        """Write all that is known of the job; the needs of a completed one are given up only then."""
        summary = self._summary()
        try:
            write_summary(self._run_dir, summary)
        except OSError:
            if summary["completed"]:
                raise  # else why the job ended says more
        with suppress(OSError):  # of use to the next plan alone
            gather_rates(self._run_dir, self._job.topology)
        if self._start.profile:
            self._write_profile()
        if summary["completed"]:
            self._discard_backups()
        return summary

    def _run(self) -> None:
        if self._part:
            self._part.make()
        self._services.start()
        self._events.write("cluster_started", zookeeper=self._services.zookeeper, attempt=self._start.attempt.number)
        if self._job.unprotected:
            self._events.write("sink_unprotected", reason=self._job.unprotected)
        for caution in self._job.cautions:
            self._events.write("caution", text=caution)
        with self._open_client() as client:
            self._await_hosts(client)
            self._submit(client)
            poller = Poller(client, self._job.topology.job, LOOK_EVERY_S)
            poller.start()
            self._injector.start()
            try:
                self._watch(poller)
            except KeyboardInterrupt:
                self._injector.stop()
                poller.stop()
                self._cancel(client)
                raise
            finally:
                poller.stop()
            if self._zookeeper and self.status.get("phase") == "COMPLETED":
                with suppress(ConfigError):  # its answer was lost, and the job is gone when it is asked for again
                    client.forget(self._job.topology.job)  # the ensemble lives on, and this controller does not

    def _open_client(self) -> Client:
        """A client of the ensemble; once more where services, perhaps ZooKeeper, died while they were not watched."""
        while True:
            try:
                return open_client(self._services.zookeeper, ANSWER_TIMEOUT_S)
            except ConfigError:
                before = self._services.pids()
                self._services.supervise()
                if self._services.pids() == before:
                    raise

    def _discard_backups(self) -> None:
        """A completed job needs its backups no more, wherever they are."""
        discard_storage(self._start.backups)
        if self._job.topology.backup.addresses:
            for server in forget_backups(self.status):
                self._events.write("backups_not_forgotten", server=server)

    def _await_hosts(self, client: Client) -> None:
        """Wait for the agents of all hosts, where there are several: the first to come would be dealt all tasks."""
        deadline, hosts = time.monotonic() + SILENCE_MAX_S, self._services.agents.keys()
        lacking = set(hosts) if len(hosts) > 1 else set()
        while lacking:
            self._services.supervise()
            with suppress(RiprapError):  # the first controller is being elected
                lacking = hosts - client.agents().keys()
            if lacking and time.monotonic() > deadline:
                raise RiprapError(
                    f"no agent has joined for {', '.join(sorted(lacking))}", f"see {self._run_dir / LOGS}"
                )
            time.sleep(LOOK_EVERY_S if lacking else 0)

    def _submit(self, client: Client) -> None:
        """Submit until a controller takes the job: the first one is being elected."""
        attempt, deadline = self._start.attempt, time.monotonic() + SILENCE_MAX_S
        addresses = [server.address for server in self._start.backups]
        submission = self._job.submission(attempt.run, attempt.number, addresses, last_checkpoint(self._run_dir))
        submission |= {"profile": self._start.profile}
        while True:
            self._services.supervise()
            try:
                return client.submit(self._job.topology.job, submission, str(self._run_dir))
            except ConfigError:
                raise
            except RiprapError:
                if time.monotonic() > deadline:
                    raise

    def _watch(self, poller: Poller) -> None:
        seen = 0.0
        while self.status.get("phase") not in TERMINAL:
            self._services.supervise()
            poller.check()
            if time.monotonic() > poller.answered_at + SILENCE_MAX_S:
                log = self._run_dir / LOGS / "controller.log"
                raise RiprapError(f"no controller has answered for {SILENCE_MAX_S:.0f} s", f"see {log}")
            if poller.answered_at != seen:
                seen = poller.answered_at
                self._take_in(poller.status, seen)
                self._show()
                self._drain_when_due(poller)
                poller.every_s = CALM_EVERY_S if self._is_calm() else LOOK_EVERY_S
            time.sleep(LOOK_EVERY_S)

    def _drain_when_due(self, poller: Poller) -> None:
        """Have the poller drain the job when `--until` is reached, and note that it is decided."""
        until, seconds = self._start.until, time.monotonic() - self._started_at
        if until is not None and until.is_reached(self._committed.items, seconds):
            poller.wants_drain = True
        if poller.drained and not self._drained:
            self._drained = True
            self._events.write("draining", items=self._committed.items, seconds=seconds)

    def _is_calm(self) -> bool:
        """True when nothing is about to happen: looking costs the job a share of the cores."""
        status, total = self.status, self._job.items
        if status.get("phase") != "RUNNING" or self._injector.pending or total is None:
            return False
        return total - self._committed.items > self._rate.last

    def _take_in(self, status: Mapping[str, Any], answered_at: float) -> None:
        """Keep the status, and pass on the part that the injector needs."""
        self.status = status
        self._note_restored(answered_at)
        pids = self._services.pids()
        self._targets.update_services(pids | self._leader(pids))
        agents = self._services.agents.items()
        self._targets.update_workers(status, {host: pids[name] for host, name in agents if name in pids})
        stats = [one for found in stats_by_worker(status).values() for one in found]
        emitted = (moment for moment in times(stats, "first_emit_at") if moment >= self._started_at)
        known = self._injector.first_item_at  # another controller may not know of the incarnations before
        self._injector.first_item_at = min([*emitted, *([] if known is None else [known])], default=None)

    def _leader(self, pids: Mapping[str, int]) -> dict[str, int]:
        """With standby controllers, the fault target `controller` is the one that leads."""
        endpoint = str(self.status.get("controller") or "")
        controllers = [pid for name, pid in pids.items() if name.startswith("controller")]
        if len(controllers) == 1:  # to look for it costs a look at each process of the host
            return {}
        if endpoint != self._leads[0]:
            self._leads = endpoint, listener(endpoint, controllers)
        pid = self._leads[1]
        return {"controller": pid} if pid is not None and pid in pids.values() else {}

    def _show(self) -> None:
        self._committed.refresh()
        done = self._committed
        rate = self._rate.add(time.monotonic(), done.items - done.before.items_of_others)
        faults = tuple(f"{one.action} {one.target}#{one.incarnation}" for one in self._injector.injected)
        failures = tuple(match_failures(self._injector.injected, self.status.get("failures") or ()))
        self._display.show(look(self.status, done.epoch, done.items, self._job.items, rate, faults, failures))

    def _cancel(self, client: Client) -> None:
        """Ask for a clean end, and wait for it a little; the services' end is final anyway."""
        deadline = time.monotonic() + CANCEL_TIMEOUT_S
        try:
            client.cancel(self._job.topology.job)
            while self.status.get("phase") not in TERMINAL and time.monotonic() < deadline:
                self.status = client.status(self._job.topology.job)
                time.sleep(LOOK_EVERY_S)
        except RiprapError:
            self._events.write("cancel_unanswered")

    def _summary(self) -> dict[str, Any]:
        self._committed.refresh()
        topology = self._job.topology
        submitted = topology.to_dict() | {"schema": self._job.schema.fields()}
        status = {**self.status, "failures": [*(self.status.get("failures") or ()), *self._service_failures]}
        *earlier, epochs = self._committed.by_attempt(self._start.attempt.before)
        facts = Facts(
            job=topology.job,
            scheme=topology.scheme,
            status=status,
            epochs=epochs,
            before=self._committed.before,
            earlier=earlier,
            items_earlier=self._items_earlier,
            injected=self._injector.injected,
            not_injected=self._injector.not_injected,
            started_at=self._started_at,
            checkpoints=read_checkpoints(self._run_dir),
            events=read_events(self._run_dir),
            first_item_at=self._injector.first_item_at,
            environment=describe(),
            shortfall=shortfall(submitted, self._committed, status),
            left_out=left_out(submitted, self._committed, status),
        )
        summary = compose(facts)
        if summary["completed"]:
            summary["metrics"] |= holdout_metrics(summary["model"].get("path"), topology)
        return summary

    def _write_profile(self) -> None:
        from riprap.engine.profile.page import write_page  # few runs draw one, and the others need not import it

        topology, rows = self._job.topology, self._committed.between(self._start.attempt.before[-1])
        stages, word = list(topology.stages), self._job.kind.window
        try:
            write_page(self._run_dir, topology.job, topology.scheme, stages, rows, word, self._started_at)
        except OSError as error:  # the summary of the job is what counts
            self._events.write("profile_not_written", reason=str(error))

    def _remove_zookeeper_data(self) -> None:
        shutil.rmtree(self._run_dir / LOGS / ZOOKEEPER_DATA, ignore_errors=True)

    def _remove_part(self) -> None:
        try:
            if self._part:
                self._part.remove()
        except RiprapError as error:  # the job's end is what counts; the next attempt removes it
            self._events.write("zookeeper_not_cleared", reason=str(error))

    def _note_restart(self, name: str, code: int) -> None:
        service = "controller" if name.startswith("controller") else name  # as a fault target, whichever leads
        self._events.write("service_restarted", service=service, code=code)
        reason = f"ended with code {code}"
        self._service_failures.append(
            {"worker": service, "incarnation": 0, "reason": reason, "detected_at": time.monotonic()}
        )

    def _note_restored(self, answered_at: float) -> None:
        """A service is restored when the controller answers again, and all that runs below it is up."""
        workers = self.status.get("workers") or {}
        if all(worker.get("state") in ("up", "off") for worker in workers.values()):
            for failure in self._service_failures:
                if answered_at > failure["detected_at"]:
                    failure.setdefault("restored_at", answered_at)
