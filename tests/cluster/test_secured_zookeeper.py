"""Sessions with ensembles that demand more than Riprap's own digest identity: each way in, and each way to fail."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster_harness import await_death, await_that
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl
from secured_zookeeper import (
    KEY_PASSWORD,
    PASSWORD,
    USER,
    Certificates,
    SecuredZooKeeper,
    digest,
    sasl,
    tls,
    write_auth,
)

from riprap.codec.errors import ConfigError
from riprap.controller import ensemble, paths, session
from riprap.controller.zookeeper import EmbeddedZooKeeper
from riprap.controller.zookeeper_connection import Handler

Give = Callable[..., Path]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    with SecuredZooKeeper(tmp_path_factory.mktemp("secured")) as server:
        yield server


@pytest.fixture
def give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Give:
    """Have this process enter ensembles as a file of these sections says."""

    def write(*sections: str) -> Path:
        file = write_auth(tmp_path / "auth.yaml", *sections)
        monkeypatch.setenv(ensemble.VARIABLE, str(file))
        return file

    return write


def connects(hosts: str) -> None:
    """A session comes about, and what it makes is Riprap's alone."""
    client = session.connect(hosts)
    try:
        assert client.get_acls(paths.JOBS)[0] == client.default_acl
        assert [acl.id.scheme for acl in client.default_acl] == ["digest"]
    finally:
        session.disconnect(client)


def refusal(hosts: str, *secrets: str) -> str:
    """What is said of a session that does not come about; it shows no secret."""
    with pytest.raises(ConfigError) as caught:
        session.disconnect(session.connect(hosts))
    said = str(caught.value)
    assert caught.value.remedy and not any(secret in said for secret in (PASSWORD, KEY_PASSWORD, *secrets))
    return said


def test_sasl_lets_in_who_knows_the_password(secured: SecuredZooKeeper, give: Give) -> None:
    give(sasl())
    connects(secured.connect_string)


def test_sasl_refuses_a_wrong_password(secured: SecuredZooKeeper, give: Give) -> None:
    file = give(sasl("wrong-5d21"))
    said = refusal(secured.connect_string, "wrong-5d21")
    assert f"refuses SASL user {USER}" in said and f"sasl.password in {file}" in said


def test_an_ensemble_that_demands_sasl_says_so(secured: SecuredZooKeeper, give: Give) -> None:
    assert "demands authentication, and none was given" in refusal(secured.connect_string)
    file = give(digest())
    assert f"demands authentication, and what is in {file} does not do" in refusal(secured.connect_string)


def test_an_ensemble_without_sasl_is_named(chroot: str, give: Give) -> None:
    give(sasl())
    assert "offers no SASL with DIGEST-MD5" in refusal(chroot)


def test_tls_and_sasl_together(secured: SecuredZooKeeper, give: Give) -> None:
    give(tls(secured.certificates), sasl())
    connects(secured.secure)


def test_a_certificate_of_another_authority_is_not_trusted(
    secured: SecuredZooKeeper, give: Give, tmp_path: Path
) -> None:
    file = give(tls(Certificates(tmp_path / "others")), sasl())
    said = refusal(secured.secure)
    assert "certificate is not trusted" in said and f"tls.ca of {file}" in said


def test_a_certificate_for_another_name_is_not_trusted(tmp_path: Path, give: Give) -> None:
    with SecuredZooKeeper(tmp_path / "secured", name="zookeeper.example.org") as server:
        give(tls(server.certificates), sasl())
        assert "certificate is not trusted: IP address mismatch" in refusal(server.secure)
        give(tls(server.certificates).replace("tls: {", "tls: {verify: false, "), sasl())
        connects(server.secure)


def test_an_ensemble_that_demands_a_certificate_says_so(secured: SecuredZooKeeper, give: Give) -> None:
    file = give(tls(secured.certificates, own=False), sasl())
    said = refusal(secured.secure)
    assert "refuses our certificate, or that we have none" in said and f"in {file} a tls.certificate" in said


def test_talking_in_clear_to_a_port_of_tls(secured: SecuredZooKeeper, give: Give) -> None:
    assert "talks TLS at this port, and we did not" in refusal(secured.secure)
    give(sasl())
    assert "talks TLS at this port, and we did not" in refusal(secured.secure)


def test_talking_tls_to_a_port_in_clear(secured: SecuredZooKeeper, zookeeper: EmbeddedZooKeeper, give: Give) -> None:
    file = give(tls(secured.certificates), sasl())
    for server in (secured.connect_string, zookeeper.connect_string):
        said = refusal(server)
        assert "talks no TLS at this port" in said and f"section tls out of {file}" in said


@pytest.fixture
def guarded(chroot: str) -> str:
    """A part of an ensemble in which the digest identity alone may do anything."""
    client = KazooClient(chroot, auth_data=[("digest", f"{USER}:{PASSWORD}")])
    client.start()
    client.set_acls("/", [make_digest_acl(USER, PASSWORD, all=True)])
    client.stop()
    client.close()
    return chroot


def test_a_digest_identity_makes_the_folder_where_it_alone_may(guarded: str, give: Give) -> None:
    give(digest())
    connects(guarded)
    ensemble.remember("")
    connects(guarded)  # the folder is there, and ours


def test_passwords_are_not_logged(guarded: str, give: Give, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kazoo")
    give(digest())
    connects(guarded)
    assert "Zookeeper connection established" in caplog.text and PASSWORD not in caplog.text


def test_a_wrong_digest_password_shows_when_the_folder_is_made(guarded: str, give: Give) -> None:
    assert "does not let who has given no identity make /riprap" in refusal(guarded)
    file = give(digest("wrong-5d21"))
    said = refusal(guarded, "wrong-5d21")
    assert f"does not let the identities in {file} make /riprap" in said and "check users and passwords" in said


def test_a_chroot_that_lacks_is_made_for_all_identities(guarded: str, give: Give) -> None:
    give(digest())
    connects(f"{guarded}/teams/ours")
    other = KazooClient(guarded, auth_data=[("digest", f"{USER}:{PASSWORD}")])
    other.start()
    try:
        assert {acl.id.id.split(":")[0] for acl in other.get_acls("/teams/ours")[0]} == {"riprap", USER}
        assert other.get_children("/teams/ours") == ["riprap"]
    finally:
        other.stop()
        other.close()


def test_a_session_outlives_its_server_and_a_time_of_refusals(
    tmp_path: Path, give: Give, caplog: pytest.LogCaptureFixture
) -> None:
    """Kazoo alone would end it at the first refusal, and whoever has it would live on without one."""
    caplog.set_level(logging.DEBUG, "kazoo.session")
    server = SecuredZooKeeper(tmp_path / "secured")
    server.start()
    try:
        give(tls(server.certificates), sasl())
        client = session.connect(server.secure)
        connection = client._connection
        for password in (PASSWORD, "another", PASSWORD):
            first, server.password = server.pid, password
            server.kill()
            assert first is not None
            await_death(first)
            server.start()
            if password == PASSWORD:
                await_that("the session", lambda: not connection.failures and client.connected)
                assert client.retry(client.exists, paths.JOBS)
            else:
                await_that("a refusal", lambda: any("Sasl" in repr(e) for e in list(connection.failures.values())))
        session.disconnect(client)
        errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(errors) == 1 and "lets us in no more" in errors[0], "said once, not at each of many attempts"
        assert PASSWORD not in caplog.text and KEY_PASSWORD not in caplog.text
    finally:
        server.stop()


def test_what_tls_has_decrypted_makes_a_socket_ready(tmp_path: Path) -> None:
    """Two answers may come in one record: the kernel has nothing left to read when the second waits."""
    certificates = Certificates(tmp_path, name="server")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificates.server)
    calling = ssl.create_default_context(cafile=str(certificates.ca))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ends: list[ssl.SSLSocket] = []
        accepting = threading.Thread(
            target=lambda: ends.append(serving.wrap_socket(listener.accept()[0], server_side=True))
        )
        accepting.start()
        handler = Handler(calling)
        client = handler.create_connection(address=listener.getsockname(), hostname="server", timeout=10.0)
        accepting.join()
        with client, ends[0] as server:
            server.sendall(b"onetwo")
            assert client.recv(3) == b"one"
            assert handler.select([client], [], [], 0)[0] == [client]
            assert client.recv(3) == b"two"
            assert handler.select([client], [], [], 0)[0] == []
