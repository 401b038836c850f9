"""A real ZooKeeper server that talks TLS, demands certificates of its clients, and knows SASL users."""

from __future__ import annotations

import functools
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

from riprap.controller.zookeeper import EmbeddedZooKeeper, _usable_port, find_jars

USER, PASSWORD = "alice", "pw-of-alice-7f3a"
KEY_PASSWORD = "pw-of-the-key-91c2"
JAAS = 'Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required user_{user}="{password}"; }};\n'
SETTINGS = """\
secureClientPort={port}
secureClientPortAddress={address}
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location={folder}/server.pem
ssl.trustStore.location={folder}/ca.pem
ssl.clientAuth=need
authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
sessionRequireClientSASLAuth=true
"""


class Certificates:
    """An authority's certificate `ca.pem` in a folder, and what it signed: `server.pem`, `client.pem`, `client.key`.

    The client's key has the password KEY_PASSWORD; the server is known as `name`.
    """

    def __init__(self, folder: Path, name: str = "127.0.0.1") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.ca = folder / "ca.pem"
        self.server, self.client, self.client_key = (
            folder / name for name in ("server.pem", "client.pem", "client.key")
        )
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.ca)
        server, client = authority.issue_cert(name), authority.issue_cert("client")
        self.server.write_bytes(_key(server, "") + _chain(server))
        self.client.write_bytes(_chain(client))
        self.client_key.write_bytes(_key(client, KEY_PASSWORD))


def _chain(issued: trustme.LeafCert) -> bytes:
    return b"".join(blob.bytes() for blob in issued.cert_chain_pems)


def _key(issued: trustme.LeafCert, password: str) -> bytes:
    """In PKCS 8, which alone Java reads."""
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    lock = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)


class SecuredZooKeeper(EmbeddedZooKeeper):
    """Refuses every session without SASL, at its port in clear and at its secure one."""

    def __init__(self, data_dir: Path, name: str = "127.0.0.1") -> None:
        super().__init__(data_dir)
        self.certificates = Certificates(data_dir, name)
        self.secure_port = _usable_port(self.address, 0)
        self.password = PASSWORD
        """Of the SASL user, from the next start on."""

    @property
    def secure(self) -> str:
        """What clients with TLS connect to."""
        return f"{self.address}:{self.secure_port}"

    def _command(self) -> list[str]:
        (self.data_dir / "jaas.conf").write_text(JAAS.format(user=USER, password=self.password))
        java, *flags, _, _, server_class = super()._command()
        flags.append(f"-Djava.security.auth.login.config={self.data_dir / 'jaas.conf'}")
        return [java, *flags, "-cp", _all_jars(), server_class]

    def _settings(self) -> str:
        own = SETTINGS.format(port=self.secure_port, address=self.address, folder=self.data_dir.resolve())
        return super()._settings() + own


@functools.cache
def _all_jars() -> str:
    """Netty comes in many jars."""
    return f"{find_jars()[0].parent}/*"


def write_auth(path: Path, *sections: str) -> Path:
    """A file for --zookeeper-auth, its user's alone."""
    path.write_text("\n".join(sections) + "\n")
    path.chmod(0o600)
    return path


def sasl(password: str = PASSWORD) -> str:
    """The section of the SASL user."""
    return f"sasl: {{mechanism: DIGEST-MD5, user: {USER}, password: {password}}}"


def digest(password: str = PASSWORD) -> str:
    """The section of a digest identity."""
    return f"digest: {{user: {USER}, password: {password}}}"


def tls(certificates: Certificates, *, own: bool = True) -> str:
    """The section of TLS, with the client's certificate or without."""
    key = f", key: {certificates.client_key}, key_password: {KEY_PASSWORD}"
    return f"tls: {{ca: {certificates.ca}{f', certificate: {certificates.client}{key}' if own else ''}}}"
