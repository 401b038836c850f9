"""Sessions with ZooKeeper: one way to connect, with a deadline and an error that says what to do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    OperationTimeoutError,
    SessionClosedRequireSaslError,
    SessionExpiredError,
)  # fmt: skip
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry
from kazoo.security import ACL, CREATOR_ALL_ACL, make_digest_acl

from riprap.codec.errors import ConfigError
from riprap.codec.json_text import from_json
from riprap.codec.trust.keys import Authority, own_authority
from riprap.codec.trust.reader import READER, own_reader
from riprap.codec.trust.rotation import keyring
from riprap.controller import ensemble, paths, refusals
from riprap.controller.zookeeper_connection import LOG, Address, Connection, Handler

if TYPE_CHECKING:
    from riprap.configs.zookeeper_auth import ZooKeeperAuth

SCHEME, USER, READERS = "digest", "riprap", "riprap-readers"
ZOOKEEPER = "zookeeper"
"""The name of our password."""
SESSION_TIMEOUT_S = 1.5  # a dead leader or host is found out after this, and up to one of the server's ticks
CONNECT_TIMEOUT_S = 15.0
RETRY_S = 0.05
PASSING = (ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError)
"""Errors of a session that was lost; another is begun meanwhile."""


def connect(hosts: str, session_timeout_s: float = SESSION_TIMEOUT_S) -> KazooClient:
    """A client as of `open_client`, with our folders in place; ConfigError when they cannot be."""
    own_authority()  # or, with a reader's keys, the error that says so
    client = open_client(hosts, session_timeout_s)
    try:
        make_folders(client, hosts, paths.AGENTS, paths.JOBS)
    except ConfigError:
        disconnect(client)
        raise
    return client


def connect_to_ask(hosts: str) -> KazooClient:
    """The same for a caller that only looks up the leader: readers may do that, and no more."""
    return open_client(hosts) if own_reader() else connect(hosts)


def make_folders(client: KazooClient, hosts: str, *folders: str) -> None:
    """Make folders under our root, and the chroot where it lacks; ConfigError when others are in our place."""
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    while not _made_folders(client, hosts, folders, last=time.monotonic() > deadline):
        time.sleep(RETRY_S)


def _made_folders(client: KazooClient, hosts: str, folders: Sequence[str], last: bool) -> bool:
    """False when the session was lost meanwhile: kazoo begins another. ConfigError for that the last time."""
    try:
        _make_chroot(client, hosts)
        for folder in folders:
            client.ensure_path(folder)
        _check_ours(client, hosts)
        return True
    except NoAuthError as error:
        if _may_be_there(client, paths.ROOT):
            raise _not_ours(hosts) from error
        raise _not_let(hosts) from error
    except KazooException as error:
        if isinstance(error, PASSING) and not last:
            return False
        raise ConfigError(
            f"ZooKeeper at {hosts} refuses to hold {paths.ROOT}: {error!r}",
            "let its access control admit us, or name another chroot (HOST:PORT/PATH)",
        ) from error


def open_client(hosts: str, session_timeout_s: float = SESSION_TIMEOUT_S) -> KazooClient:
    """A started client for `HOST:PORT[,HOST:PORT...][/CHROOT]`, which it enters as `ensemble.read` says.

    It reconnects for ever, several times a second. Every node that it makes is ours alone: who holds other keys can
    neither read nor change it, other identities of the session no more than others. It has those of all keys that are
    known here, for a cluster that changes its keys has nodes of both. Raises ConfigError when no server answers, or
    none admits us.
    """
    auth, reader = ensemble.read(), own_reader()
    # A restarted server grants a session its timeout anew; to keep it we must be back within that.
    retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=0.25)
    ours = [(SCHEME, f"{READERS}:{reader.password}")] if reader else list(map(_identity, keyring().all))
    client = KazooClient(
        hosts,
        timeout=session_timeout_s,
        handler=Handler(auth.tls if auth else None),
        connection_retry=retry,
        auth_data=[*ours, *_digest(auth)],
        default_acl=None if reader else acl_of(own_authority()),
        logger=LOG,
        use_ssl=bool(auth and auth.tls),
    )
    client._connection = connection = Connection(client, _sasl(auth))  # kazoo has no other way to name one
    try:
        _start(client, connection, hosts, auth)
    except BaseException:
        disconnect(client)
        raise
    return client


def granted_s(client: KazooClient) -> float:
    """The time for which a session of `open_client` outlives its process: a server has bounds of its own for it."""
    return float(client._connection.session_s)


def acl_of(*owners: Authority) -> list[ACL]:
    """The right of each of these to everything, and of nobody else to anything."""
    return [make_digest_acl(USER, owner.password(ZOOKEEPER), all=True) for owner in owners]


def acl_with_readers(*owners: Authority) -> list[ACL]:
    """The rights to the leader's node, which readers may read."""
    return acl_of(*owners) + [make_digest_acl(READERS, owner.password(READER), read=True) for owner in owners]


def learn(client: KazooClient) -> None:
    """Give a session the identities of keys that have become known here, and its nodes to those that are ours now."""
    ring = keyring()
    for scheme, credential in [one for one in map(_identity, ring.all) if one not in client.auth_data]:
        client.add_auth_async(scheme, credential)  # what is asked after it is answered after it
    client.default_acl = acl_of(ring.own)


def _identity(owner: Authority) -> tuple[str, str]:
    return SCHEME, f"{USER}:{owner.password(ZOOKEEPER)}"


def _start(client: KazooClient, connection: Connection, hosts: str, auth: ZooKeeperAuth | None) -> None:
    """Connect, and see that the session works: a server grants it before it asks who we are."""
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    client.add_listener(lambda state: connection.news.set())
    live = client.start_async()
    probed: dict[Address, Exception] = {}
    while (left_s := deadline - time.monotonic()) > 0:
        connection.news.clear()
        if live.is_set():
            try:
                client.exists_async("/").get(timeout=left_s)
                return
            except NoAuthError:  # newer servers let nobody ask who may not read
                return
            except SessionClosedRequireSaslError as error:
                raise refusals.needs_auth(auth, hosts) from error
            except (KazooException, KazooTimeoutError):
                left_s = RETRY_S  # the connection is being restored, or another attempt failed meanwhile
        elif connection.rounds and (refusal := refusals.final(connection.failures, auth, hosts, probed)):
            raise refusal
        connection.news.wait(left_s)
    raise refusals.in_time(connection.failures, auth, hosts, CONNECT_TIMEOUT_S)


def _digest(auth: ZooKeeperAuth | None) -> list[tuple[str, str]]:
    return [(SCHEME, f"{auth.digest.user}:{auth.digest.password}")] if auth and auth.digest else []


def _sasl(auth: ZooKeeperAuth | None) -> dict[str, str] | None:
    if auth is None or auth.sasl is None:
        return None
    return {"mechanism": "DIGEST-MD5", "username": auth.sasl.user, "password": auth.sasl.password}


def _make_chroot(client: KazooClient, hosts: str) -> None:
    """Make the chroot where it lacks; its folders belong to all identities of the session, not to Riprap alone."""
    if not client.chroot or _may_be_there(client, "/"):
        return
    outside = open_client(hosts.partition("/")[0])
    try:
        outside.ensure_path(client.chroot, acl=CREATOR_ALL_ACL)
    finally:
        disconnect(outside)


def _may_be_there(client: KazooClient, path: str) -> bool:
    """False when a node is surely not there; some servers tell the rest only to those who may read it."""
    try:
        return client.exists(path) is not None
    except NoAuthError:
        return True


def _check_ours(client: KazooClient, hosts: str) -> None:
    """Trust no folder that others may write: their records would be carried out.

    While a cluster changes its keys, it belongs to the holders of both; never to those of former ones alone.
    """
    ring = keyring()
    owners = set(client.get_acls(paths.ROOT)[0])
    if not owners <= {*acl_of(*ring.all)} or not owners & {*acl_of(*ring.valid)}:
        raise _not_ours(hosts)


def _not_ours(hosts: str) -> ConfigError:
    return ConfigError(
        f"{paths.ROOT} at ZooKeeper {hosts} belongs to others, or is open to them",
        "get the keys of its owner (`riprap token` there, `riprap join` here), name another chroot (HOST:PORT/PATH), or"
        " delete that folder",
    )


def _not_let(hosts: str) -> ConfigError:
    file = ensemble.file_in_use()
    given = f"the identities in {file}" if file else "who has given no identity"
    check = f"check users and passwords in {file} (ZooKeeper takes a wrong one for another user)"
    name = "name an identity that may with --zookeeper-auth FILE"
    return ConfigError(
        f"ZooKeeper at {hosts} does not let {given} make {paths.ROOT} there",
        f"{check if file else name}, or name a chroot in which we may (HOST:PORT/PATH)",
    )


def disconnect(client: KazooClient) -> None:
    """End the session, so that its ephemeral nodes go at once. No effect when it has ended."""
    with suppress(AttributeError):  # kazoo's own, where the start was interrupted before the connection had its sockets
        client.stop()
    client.close()


def read_map(data: bytes) -> dict[str, Any]:
    """The JSON map in a znode; empty for anything else, as if the writer had said nothing."""
    try:
        value = from_json(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
