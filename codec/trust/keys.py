"""The keys of a cluster, each derived from one secret that only its owner can read.

A key tells what its holder is: a controller, an agent, a backup server, a client, or one life of a worker of one job.
Nothing has to be handed around among those who hold the secret. A worker holds only the key of its own life, and the
public ones of those whom it calls. A server's public key is given to nobody who is not to connect to it, and never
crosses the network: who does not know it cannot even begin a handshake (https://rfc.zeromq.org/spec/26/).
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import NamedTuple

import zmq
from zmq.utils import z85

from riprap.codec.errors import ConfigError
from riprap.codec.trust.private import draft_of, exposure

FOLDER_VARIABLE = "RIPRAP_KEYS"
OFF = "off"
"""In the place of a folder: use the keys that everybody knows, in a network that is closed to others."""
SECRET_FILE = "secret"  # noqa: S105 - its name
READER_FILE = "reader"
SECRET_BYTES = 32
ID_LETTERS = 32
EVERYBODYS = bytes(SECRET_BYTES)
CONTROLLER, AGENT, BACKUP, CLIENT = "controller", "agent", "backup", "client"


class KeyPair(NamedTuple):
    """A CURVE key, both halves as 40 characters of Z85."""

    public: bytes
    secret: bytes


class WorkerKeys(NamedTuple):
    """The keys that an incarnation of a worker is given: its own, and the public ones that the backup servers may have.

    There are several of those while a cluster's keys are being changed.
    """

    own: KeyPair
    servers: tuple[bytes, ...]

    @classmethod
    def read(cls, texts: object) -> WorkerKeys:
        """As `texts` wrote them; ValueError."""
        if not isinstance(texts, list) or len(texts) < 3:
            raise ValueError("three keys or more are expected")
        return cls(KeyPair(*read_keys(texts[:2])), tuple(read_keys(texts[2:])))

    def texts(self) -> list[bytes]:
        """For the channel between an agent and its worker."""
        return [*self.own, *self.servers]


def read_keys(texts: object) -> list[bytes]:
    """Keys that came over a channel; ValueError."""
    if not isinstance(texts, list) or {type(text) for text in texts} != {bytes} or {*map(len, texts)} != {40}:
        raise ValueError("keys of 40 characters are expected")
    return texts


class Authority:
    """A holder of the secret: one of the owner's launchers, controllers, agents, backup servers and clients."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        """The secret, as a host that joins is given it."""
        self._pairs: dict[tuple[str, ...], KeyPair] = {}

    @property
    def id(self) -> str:
        """Tells this secret from others, and nothing about it."""
        return self._derive("id").hex()[:ID_LETTERS]

    def pair(self, *name: str) -> KeyPair:
        """The key of a role."""
        if name not in self._pairs:
            self._pairs[name] = self._make(*name)
        return self._pairs[name]

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - bounded: workers may name lives; a process has one authority
    def life(self, name: str, fence: int) -> KeyPair:
        """The key of one incarnation of a worker, by the name of its records (`name_of`) and its `fence_of`."""
        return self._make("life", name, str(fence))

    def password(self, name: str) -> str:
        """For a service that knows no keys."""
        return self._derive("password", name).hex()

    def _make(self, *name: str) -> KeyPair:
        secret = z85.encode(self._derive("curve", *name))
        return KeyPair(zmq.curve_public(secret), secret)

    def _derive(self, *name: str) -> bytes:
        """HMAC-SHA256 of the name, whose parts hold no zero byte."""
        return hmac.digest(self.secret, "\0".join(("riprap 1", *name)).encode(), "sha256")


def home() -> Path:
    """The user's home directory; ConfigError when there is none: files of ours would be strewn over working ones."""
    found = os.path.expanduser("~")
    if not os.path.isabs(found):
        raise ConfigError(f"user {os.geteuid()} has no home directory", "set HOME to a folder of yours")
    return Path(found)


def keys_folder() -> Path:
    """$RIPRAP_KEYS, or `riprap` in the user's configuration folder (XDG base directories); ConfigError without one."""
    if named := os.environ.get(FOLDER_VARIABLE):
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else home() / ".config") / "riprap"


@functools.cache
def own_authority() -> Authority:
    """The authority of the user whose process this is; its secret is made when there is none.

    It stays the same, whatever becomes of the folder, until `rotation.follow` replaces it. ConfigError when the folder
    or the file cannot be used, or others can open them.
    """
    return Authority(EVERYBODYS) if is_off() else open_authority(keys_folder())


def is_off() -> bool:
    """True when the user wants no protection."""
    return os.environ.get(FOLDER_VARIABLE) == OFF


def open_authority(folder: Path, first: bytes = b"") -> Authority:
    """The same, of a folder; where there is no secret, `first` becomes it, or a new one."""
    path = folder / SECRET_FILE
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            if not first:
                _check_no_reader(folder)
            _keep(path, first or secrets.token_bytes(SECRET_BYTES))
        check_private(folder)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            check_private(path)
            secret = stream.read(SECRET_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"the keys in {folder} cannot be used: {error.strerror}",
            f"name a folder of yours: {FOLDER_VARIABLE}=DIR",
        ) from error
    if len(secret) != SECRET_BYTES or secret == EVERYBODYS:
        raise ConfigError(f"{path} holds no secret of {SECRET_BYTES} bytes", "remove it, and a new one is made")
    return Authority(secret)


def _check_no_reader(folder: Path) -> None:
    if (folder / READER_FILE).exists():
        raise ConfigError(
            f"the keys in {folder} are a reader's: they allow `riprap status` and `riprap jobs` of a cluster",
            f"get all keys with a token of `riprap token`, or name another folder: {FOLDER_VARIABLE}=DIR",
        )


def adopt(secret: bytes, folder: Path) -> None:
    """Make a cluster's secret that of this user here. No effect when it is; ConfigError when there is another."""
    if open_authority(folder, secret).secret != secret:
        raise ConfigError(
            f"{folder / SECRET_FILE} is that of another cluster",
            f"end what uses it here and remove it, or name another folder: {FOLDER_VARIABLE}=DIR",
        )


def _keep(path: Path, secret: bytes) -> None:
    """Keep a secret, whole or not at all: of several that are made at once, the first is everybody's."""
    with draft_of(path, secret) as draft, contextlib.suppress(FileExistsError):
        os.link(draft, path)


def check_private(path: Path) -> None:
    found = path.lstat()
    if why := exposure(found):
        rights = "700" if stat.S_ISDIR(found.st_mode) else "600"
        raise ConfigError(
            f"{path} may be opened by others: {why}",
            f"make it yours alone (chmod {rights} {path}); if somebody may have read it, remove the file `secret`",
        )
