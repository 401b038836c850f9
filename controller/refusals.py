"""The reasons why no session with ZooKeeper came about, and the remedies."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kazoo.exceptions import AuthFailedError, ConnectionDropped, SASLException, SessionClosedRequireSaslError
from kazoo.handlers.threading import KazooTimeoutError

from riprap.codec.errors import ConfigError
from riprap.controller.zookeeper_connection import Address

if TYPE_CHECKING:
    from riprap.configs.zookeeper_auth import ZooKeeperAuth

PROBE_S = 1.0
GUIDE = "docs/security.md, An ensemble of your own"
SERVERS_WORD = (b"Zookeeper version", b"srvr is not executed", b"This ZooKeeper")
"""The answer of a server to a word of four letters that comes in clear, be it allowed or not."""


class SpeaksTls(Exception):
    """The server talks to nobody without TLS."""


class SpeaksNoTls(Exception):
    """The server talks in clear."""


def final(
    failures: Mapping[Address, Exception], auth: ZooKeeperAuth | None, hosts: str, probed: dict[Address, Exception]
) -> ConfigError | None:
    """The error that ends the first connection at once: one that comes again however often it is tried.

    A server that drops connections is talked to the other way, with TLS or without; `probed` keeps the outcome.
    """
    for server, error in list(failures.items()):
        if server not in probed and not _is_silent(error):
            probed[server] = _spoken(server, auth, error)
        if found := _final(error, auth, hosts) or _final(probed.get(server, error), auth, hosts):
            return found
    return None


def in_time(
    failures: Mapping[Address, Exception], auth: ZooKeeperAuth | None, hosts: str, waited_s: float
) -> ConfigError:
    """The error of a first connection that did not come about in the seconds given."""
    reached = [e for e in failures.values() if not (_is_silent(e) or isinstance(e, KazooTimeoutError))]
    if not reached:
        return ConfigError(
            f"no ZooKeeper server answers at {hosts} within {waited_s:g} s",
            "check the address, that the server runs, and that a `riprap up` which other hosts reach has its --address",
        )
    if auth is not None and auth.sasl is not None and any(isinstance(error, AuthFailedError) for error in reached):
        return ConfigError(
            f"ZooKeeper at {hosts} ends our connections while SASL user {auth.sasl.user} authenticates",
            f"correct user and password in section sasl of {auth.file}, or take it out: the servers may have no SASL",
        )
    return ConfigError(
        f"ZooKeeper at {hosts} ends our connections: {_root(reached[0])}",
        "see the servers' log: they may lack a quorum, or demand what was not given or is wrong in"
        f" {_file(auth)} ({GUIDE})",
    )


def needs_auth(auth: ZooKeeperAuth | None, hosts: str) -> ConfigError:
    """The error of a server that ends sessions whose client it does not know."""
    given = f"what is in {auth.file} does not do" if auth else "none was given"
    return ConfigError(
        f"ZooKeeper at {hosts} demands authentication, and {given}",
        f"give the servers' user and password in section sasl of --zookeeper-auth FILE ({GUIDE})",
    )


def _spoken(server: Address, auth: ZooKeeperAuth | None, error: Exception) -> Exception:
    """The error behind a connection that a server dropped."""
    if auth is not None and auth.tls is not None:
        return SpeaksNoTls() if _talks_in_clear(server) else error
    return SpeaksTls() if _talks_tls(server) else error


def _final(error: Exception, auth: ZooKeeperAuth | None, hosts: str) -> ConfigError | None:
    named, file = f"ZooKeeper at {hosts}", _file(auth)
    return _of_tls(_root(error), named, file) or _of_identity(error, auth, hosts)


def _of_tls(error: BaseException, named: str, file: str) -> ConfigError | None:
    if isinstance(error, SpeaksTls):
        return ConfigError(
            f"{named} talks TLS at this port, and we did not",
            f"add a section tls to --zookeeper-auth FILE ({GUIDE}), or name the port for clients without TLS",
        )
    if isinstance(error, SpeaksNoTls):
        return ConfigError(
            f"{named} talks no TLS at this port",
            f"name the servers' secureClientPort, or take section tls out of {file}",
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConfigError(
            f"{named}: its certificate is not trusted: {error.verify_message}",
            f"name in tls.ca of {file} who signed it, and the servers by names that stand in it",
        )
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        return ConfigError(
            f"{named} refuses our certificate, or that we have none: {(error.reason or '').lower().replace('_', ' ')}",
            f"name in {file} a tls.certificate and tls.key of an authority that the servers trust",
        )
    return None


def _of_identity(error: Exception, auth: ZooKeeperAuth | None, hosts: str) -> ConfigError | None:
    user = auth.sasl.user if auth and auth.sasl else ""
    if isinstance(error, SASLException):
        return ConfigError(
            f"ZooKeeper at {hosts} offers no SASL with DIGEST-MD5",
            f"configure it there (a JAAS file with a DigestLoginModule), or take section sasl out of {_file(auth)}",
        )
    if not isinstance(error, AuthFailedError | SessionClosedRequireSaslError):
        return None
    if isinstance(error.__cause__, ConnectionDropped):
        return None  # a server that ends looks the same
    if not user:
        return needs_auth(auth, hosts)
    return ConfigError(
        f"ZooKeeper at {hosts} refuses SASL user {user}", f"correct sasl.user and sasl.password in {_file(auth)}"
    )


def _file(auth: ZooKeeperAuth | None) -> str:
    return auth.file if auth else "--zookeeper-auth FILE"


def _root(error: BaseException) -> BaseException:
    """The cause of kazoo's error for a lost connection."""
    while isinstance(error, ConnectionDropped) and (before := error.__cause__ or error.__context__):
        error = before
    return error


def _is_silent(error: Exception) -> bool:
    """True when nobody answered at all."""
    root = _root(error)
    return isinstance(root, ConnectionRefusedError | TimeoutError | socket.gaierror) or (
        isinstance(root, OSError) and not isinstance(root, ConnectionError | ssl.SSLError)
    )


def _talks_tls(server: Address) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(server, PROBE_S) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


def _talks_in_clear(server: Address) -> bool:
    try:
        with socket.create_connection(server, PROBE_S) as plain:
            plain.sendall(b"srvr")
            return plain.recv(64).startswith(SERVERS_WORD)
    except OSError:
        return False
