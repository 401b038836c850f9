"""The jobs in ZooKeeper, written by one leader: a later leader's mark makes an earlier one's writes fail."""

from __future__ import annotations

import json
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from riprap.codec.errors import ConfigError, DataError
from riprap.codec.json_text import to_json
from riprap.controller import paths
from riprap.controller.jobspec import JobSpec
from riprap.controller.phases import TERMINAL
from riprap.controller.record import REMEDY, VERSION, JobRecord, check_version

TRIES = 5


class Deposed(Exception):
    """A later leader has taken over the job's record; this one must stop."""


class JobStore:
    """The records of all jobs, for the leader of `term`. Calls block until ZooKeeper answers, so make them on a thread
    that may wait; they raise KazooException when it did not answer (the write may have happened all the same).
    """

    def __init__(self, client: KazooClient, term: int) -> None:
        self._client = client
        self._term = term
        self._versions: dict[str, int] = {}
        self.unreadable: dict[str, DataError] = {}
        """The reason why a job that is there was not loaded."""

    def load(self) -> dict[str, tuple[JobSpec, JobRecord]]:
        """All jobs that can be read, those that have not ended marked with our term. Raises Deposed."""
        jobs = {}
        for name in self._client.get_children(paths.JOBS):
            try:
                spec_data, _ = self._client.get(paths.job_spec(name))
                jobs[name] = (_read_spec(name, spec_data), self._claim(name))
            except NoNodeError:
                if self._client.exists(paths.job(name)):
                    self.unreadable[name] = DataError(f"znode {paths.job(name)} is not a whole job", REMEDY)
            except DataError as error:
                self.unreadable[name] = error
        return jobs

    def save(self, spec: JobSpec, record: JobRecord, create: bool) -> None:
        """Make a record durable, with `create` its spec too. Raises Deposed, and DataError for a bad node."""
        data = record.to_json(self._term)
        for _ in range(TRIES):
            try:
                return self._write(spec, data, create)
            except (BadVersionError, NodeExistsError):
                self._adopt(spec.name)
        raise KazooException(f"the state of job {spec.name} changed {TRIES} times while it was written")

    def purge(self, name: str) -> None:
        """Remove a job that has ended, or the remains in its place; no effect when that was done. Raises Deposed."""
        try:
            self._adopt(name)
        except NoNodeError:
            self._versions.pop(name, None)
            self._client.delete(paths.job(name), recursive=True)  # what never was a whole job
            return
        except DataError:
            self._client.delete(paths.job(name), recursive=True)
            return
        transaction = self._client.transaction()
        transaction.delete(paths.job_state(name), self._versions[name])
        transaction.delete(paths.job_spec(name))
        transaction.delete(paths.job(name))
        for result in _committed(transaction):
            if isinstance(result, BadVersionError):
                raise result
        del self._versions[name]

    def _write(self, spec: JobSpec, data: bytes, create: bool) -> None:
        name, version = spec.name, self._versions.get(spec.name)
        transaction = self._client.transaction()
        fields = {"version": VERSION, "topology": spec.topology, "run_dir": spec.run_dir, "submission": spec.submission}
        about = to_json(fields).encode() if create else b""
        if version is None:
            transaction.create(paths.job(name))
            transaction.create(paths.job_spec(name), about)
            transaction.create(paths.job_state(name), data)
        else:
            if create:  # a job of that name has ended
                transaction.set_data(paths.job_spec(name), about)
            transaction.set_data(paths.job_state(name), data, version)
        for result in _committed(transaction):
            if isinstance(result, BadVersionError | NodeExistsError):
                raise result
        self._versions[name] = 0 if version is None else version + 1

    def _adopt(self, name: str) -> None:
        """Learn the version of a record that is ours or older; raises Deposed when it is a later leader's."""
        data, stat = self._client.get(paths.job_state(name))
        _, term = JobRecord.from_json(data, paths.job_state(name))
        if term > self._term:
            raise Deposed(f"job {name} is in the hands of the leader of term {term}")
        self._versions[name] = stat.version

    def _claim(self, name: str) -> JobRecord:
        """The record of a job, after no earlier leader can write it any more."""
        path = paths.job_state(name)
        for _ in range(TRIES):
            data, stat = self._client.get(path)
            record, term = JobRecord.from_json(data, path)
            if term > self._term:
                raise Deposed(f"job {name} is in the hands of the leader of term {term}")
            self._versions[name] = stat.version
            if record.phase in TERMINAL:
                return record
            try:
                self._versions[name] = self._client.set(path, record.to_json(self._term), stat.version).version
                return record
            except BadVersionError:
                continue
        raise KazooException(f"the state of job {name} changed {TRIES} times while it was claimed")


def _read_spec(name: str, data: bytes) -> JobSpec:
    """The spec in a znode; DataError names the node when there is none in it."""
    try:
        fields = json.loads(data)
        check_version(fields)
        return JobSpec.read(name, fields["topology"], fields["run_dir"], str(fields["submission"]))
    except (ConfigError, ValueError, KeyError, AttributeError, RecursionError) as error:
        why = error.args[0] if isinstance(error, ConfigError) else repr(error)
        raise DataError(f"znode {paths.job_spec(name)} holds no job: {why}", REMEDY) from error


def _committed(transaction: Any) -> list[Any]:
    """The results of a transaction; raises the error that rolled it back, if it is no clash of versions."""
    results: list[Any] = transaction.commit()
    errors = [result for result in results if isinstance(result, KazooException)]
    clashes = [error for error in errors if isinstance(error, BadVersionError | NodeExistsError)]
    if errors and not clashes:
        raise errors[0]
    return results
