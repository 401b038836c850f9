"""The embedded server, sessions with it, and the store's fence against a former leader."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest
from cluster_harness import await_death
from kazoo.client import KazooClient

from riprap.codec.errors import ConfigError, DataError
from riprap.codec.ids import Incarnation, WorkerId
from riprap.controller import paths, session
from riprap.controller.election import try_to_lead
from riprap.controller.jobspec import JobSpec
from riprap.controller.phases import Phase
from riprap.controller.record import Assignment, JobRecord
from riprap.controller.store import Deposed, JobStore
from riprap.controller.zookeeper import EmbeddedZooKeeper

SPEC = JobSpec.read("job", {"stages": {"sink": {"parallelism": 1}}}, "/run")
SINK = WorkerId("sink", 0)


def record(incarnation: int) -> JobRecord:
    return JobRecord(Phase.RUNNING, tasks={SINK: Assignment(Incarnation(incarnation), "h", "i")})


def test_a_killed_server_comes_back_with_its_data_and_sessions(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper(tmp_path / "zookeeper")
    server.start()
    try:
        first, port = server.pid, server.port
        client = session.connect(server.connect_string, session_timeout_s=10)  # its JVM may start slowly
        client.create("/kept", b"data", ephemeral=True)
        server.kill()
        assert first is not None
        await_death(first)
        server.start()
        assert (server.port, server.pid != first) == (port, True)
        assert client.retry(client.get, "/kept")[0] == b"data", (
            "an ephemeral node outlives the server, with its session"
        )
        session.disconnect(client)
    finally:
        server.stop()


def test_servers_map_the_archive_that_the_first_one_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    server, folder = EmbeddedZooKeeper(tmp_path / "data"), tmp_path / "riprap"
    server.start()
    server.kill()
    assert not [*folder.iterdir()], "one that was killed writes none"
    for is_mapped in (False, True):
        server.start()
        assert (str(folder) in Path(f"/proc/{server.pid}/maps").read_text()) is is_mapped
        session.disconnect(session.connect(server.connect_string))
        server.stop()
        (archive,) = folder.iterdir()
    torn = archive.read_bytes()[:-4096]
    archive.unlink()
    archive.write_bytes(torn)
    with server:
        assert str(folder) not in Path(f"/proc/{server.pid}/maps").read_text()
    (made_again,) = folder.iterdir()
    assert made_again.read_bytes() != torn


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_the_data_lies_in_the_folder_whatever_its_name_and_the_users_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locale: str
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    monkeypatch.chdir(tmp_path)
    folder = Path("Straße mit \\ 日本", "zookeeper")  # relative, as a run directory may be
    with EmbeddedZooKeeper(folder) as server:
        session.disconnect(session.connect(server.connect_string))
        assert [path.name for path in (folder / "version-2").glob("log.*")]
    assert [path.name for path in tmp_path.iterdir()] == [folder.parent.name], "and nothing beside it"


def test_a_server_removes_the_snapshots_and_logs_that_it_has_no_more_need_of(tmp_path: Path) -> None:
    """The six starts take 4 s: each leaves a snapshot and a log, which else takes 100,000 writes."""
    server, data = EmbeddedZooKeeper(tmp_path), tmp_path / "version-2"
    for number in range(6):
        with server:
            client = session.connect(server.connect_string)
            client.create(f"/{number}", b"data")
            session.disconnect(client)
    with server:
        deadline = time.monotonic() + 60
        while len(left := [path.name for path in data.glob("snapshot.*")]) > 4:
            assert time.monotonic() < deadline, left
            time.sleep(0.01)
        client = session.connect(server.connect_string)
        assert all(client.exists(f"/{number}") for number in range(6))
        session.disconnect(client)


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} .* cannot be used"):
            EmbeddedZooKeeper(tmp_path, port).start()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"data folder .*file/data cannot be written"):
        EmbeddedZooKeeper(tmp_path / "file" / "data").start()


def test_without_java_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ConfigError, match="Java was not found") as error:
        EmbeddedZooKeeper(tmp_path / "data").start()
    assert "openjdk-17" in error.value.remedy


def test_a_server_that_cannot_start_shows_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho cannot allocate the heap\nexit 4\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    server = EmbeddedZooKeeper(tmp_path / "data")
    with pytest.raises(Exception, match=r"ended with code 4\ncannot allocate the heap"):
        server.start()
    assert server.pid is None


def test_no_server_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CONNECT_TIMEOUT_S", 0.3)
    with pytest.raises(ConfigError, match=r"no ZooKeeper server answers at 127\.0\.0\.1:1 ") as error:
        session.connect("127.0.0.1:1")
    assert error.value.remedy


def test_terms_grow_and_one_leads(chroot: str) -> None:
    first, second = session.connect(chroot), session.connect(chroot)
    vacant: SimpleQueue[bool] = SimpleQueue()  # told on kazoo's thread
    term = try_to_lead(first, "tcp://1", 1, lambda: None)
    assert term is not None
    assert try_to_lead(first, "tcp://1", 1, lambda: None) == term, "asked again, it still leads"
    assert try_to_lead(second, "tcp://2", 2, lambda: vacant.put(True)) is None
    session.disconnect(first)
    later = try_to_lead(second, "tcp://2", 2, lambda: None)
    assert later is not None and later > term
    assert vacant.get(timeout=120) is True and vacant.empty()
    session.disconnect(second)


def test_a_store_gives_back_what_was_saved(chroot: str) -> None:
    client = session.connect(chroot)
    store = JobStore(client, term=5)
    store.save(SPEC, record(1), create=True)
    store.save(SPEC, record(2), create=False)
    assert JobStore(client, term=6).load() == {"job": (SPEC, record(2))}
    session.disconnect(client)


def test_a_former_leader_cannot_write_any_more(chroot: str) -> None:
    client = session.connect(chroot)
    old = JobStore(client, term=5)
    old.save(SPEC, record(1), create=True)
    new = JobStore(client, term=6)
    new.load()
    with pytest.raises(Deposed):
        old.save(SPEC, record(2), create=False)
    with pytest.raises(Deposed):
        JobStore(client, term=5).load()
    assert new.load()["job"][1] == record(1)
    session.disconnect(client)


def test_a_write_whose_answer_was_lost_is_made_again(chroot: str) -> None:
    client = session.connect(chroot)
    store = JobStore(client, term=5)
    store.save(SPEC, record(1), create=True)
    same_leader = JobStore(client, term=5)  # as if it had not heard of its first write
    same_leader.save(SPEC, record(1), create=True)
    same_leader.save(SPEC, record(2), create=False)
    assert store.load()["job"][1] == record(2)
    session.disconnect(client)


def test_jobs_that_cannot_be_read_are_named_and_the_others_loaded(chroot: str) -> None:
    client: KazooClient = session.connect(chroot)
    leader = JobStore(client, term=5)
    for name in ("job", "scribbled", "newer", "lost"):
        leader.save(replace(SPEC, name=name), record(1), create=True)
    client.set(paths.job_state("scribbled"), b"scribble")
    client.set(paths.job_spec("newer"), b'{"version": 2}')
    client.delete(paths.job_state("lost"))
    client.create(paths.job("empty"))
    later = JobStore(client, term=6)
    assert later.load() == {"job": (SPEC, record(1))}
    assert later.unreadable.keys() == {"scribbled", "newer", "lost", "empty"}
    assert "znode /riprap/jobs/scribbled/state" in str(later.unreadable["scribbled"])
    assert "of version 2" in str(later.unreadable["newer"])
    assert all(error.remedy for error in later.unreadable.values())
    with pytest.raises(DataError, match="scribbled/state"):
        leader.save(replace(SPEC, name="scribbled"), record(2), create=False)
    session.disconnect(client)


def test_a_session_learns_keys_while_it_has_much_to_ask(chroot: str) -> None:
    """The server answers an identity at once, before what it was asked earlier."""
    client = session.connect(chroot)
    try:
        for round_ in range(20):
            asked = [client.get_async(paths.AGENTS) for _ in range(200)]
            learned = client.add_auth_async("digest", f"riprap:{round_}")
            found = [one.get(timeout=120) for one in asked]
            assert learned.get(timeout=120) is True
            assert all(data == b"" and stat.version == 0 for data, stat in found)
    finally:
        session.disconnect(client)
