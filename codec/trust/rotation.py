"""The rotation of a user's secret: the one to come, the one in use, and those that were.

Beside `secret` the folder of the keys holds `next`, while a cluster changes its keys, and `former`, the newest first.
Every step leaves a folder that can be used: `former` is written before `secret`, and `next` is removed last.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from riprap.codec.errors import ConfigError
from riprap.codec.trust.keys import (
    BACKUP,
    SECRET_BYTES,
    SECRET_FILE,
    Authority,
    adopt,
    is_off,
    keys_folder,
    open_authority,
    own_authority,
)
from riprap.codec.trust.private import read_private, replace_private

NEXT_FILE = "next"
FORMER_FILE = "former"
FORMER_MAX = 8


class Keyring(NamedTuple):
    """The keys that a process and its folder know. `own` is what the process goes by, whatever the folder says since.

    `coming` are newer than that, `former` older, each the newest first.
    """

    own: Authority
    coming: Sequence[Authority] = ()
    former: Sequence[Authority] = ()

    @property
    def all(self) -> list[Authority]:
        """The newest first."""
        return [*self.coming, self.own, *self.former]

    @property
    def valid(self) -> list[Authority]:
        """The authorities whose holders belong to the cluster, or will."""
        return [self.own, *self.coming]

    @property
    def servers(self) -> tuple[bytes, ...]:
        """The public keys that the cluster's backup servers may have now."""
        return tuple(authority.pair(BACKUP).public for authority in self.valid)


def keyring() -> Keyring:
    """The keys that this process and its user's folder know now; ConfigError when the folder cannot be used."""
    own = own_authority()
    known = [] if is_off() else _succession(keys_folder())
    if own.secret not in known:
        return Keyring(own)
    authorities, place = list(map(Authority, known)), known.index(own.secret)
    return Keyring(own, authorities[:place], authorities[place + 1 :])


def follow(key_id: str) -> bool:
    """True when the keys of this process are those of that id; keys to come are made its own, and its user's."""
    ring = keyring()
    if ring.own.id == key_id:
        return True
    if not any(authority.id == key_id for authority in ring.coming) or not promote(key_id, keys_folder()):
        return False
    own_authority.cache_clear()
    return own_authority().id == key_id


def adopt_after(former: Collection[str], secret: bytes, folder: Path) -> None:
    """Make a cluster's secret that of this user here, in place of one that the cluster had before, by their ids.

    ConfigError when there is that of another cluster.
    """
    if open_authority(folder, secret).id in former:
        keep_next(secret, folder)
        promote(Authority(secret).id, folder)
    else:
        adopt(secret, folder)


def keep_next(secret: bytes, folder: Path) -> None:
    """Keep a secret that is not in use yet, in place of another such. No effect when it is in use; ConfigError."""
    with _alone_in(folder):
        if secret != _read(folder / SECRET_FILE):
            replace_private(folder / NEXT_FILE, secret)


def drop_next(folder: Path) -> None:
    """Forget the secret that is not in use yet. No effect when there is none."""
    with _alone_in(folder):
        (folder / NEXT_FILE).unlink(missing_ok=True)


def promote(key_id: str, folder: Path) -> bool:
    """Put the secret to come in use, if that is its id; True when the one in use has that id then."""
    with _alone_in(folder):
        coming, secret = _read(folder / NEXT_FILE), _read(folder / SECRET_FILE)
        if Authority(secret).id == key_id:
            return True
        if not coming or Authority(coming).id != key_id:
            return False
        former = [secret, *(one for one in _formers(folder) if one not in (secret, coming))]
        replace_private(folder / FORMER_FILE, b"".join(former[:FORMER_MAX]))
        replace_private(folder / SECRET_FILE, coming)
        (folder / NEXT_FILE).unlink()
        return True


def promoted_since(key_id: str, folder: Path) -> str:
    """The id of the secret in use, if it has followed that of `key_id`; else that id."""
    secret = _read(folder / SECRET_FILE)
    is_former = any(Authority(one).id == key_id for one in _formers(folder))
    return Authority(secret).id if secret and is_former else key_id


def _succession(folder: Path) -> list[bytes]:
    """The secrets of a folder, the newest first; read in an order in which a promotion meanwhile hides none."""
    known = [_read(folder / NEXT_FILE), _read(folder / SECRET_FILE), *_formers(folder)]
    return list(dict.fromkeys(filter(None, known)))


def _formers(folder: Path) -> list[bytes]:
    text = _read(folder / FORMER_FILE, FORMER_MAX)
    return [text[at : at + SECRET_BYTES] for at in range(0, len(text), SECRET_BYTES)]


def _read(path: Path, secrets_max: int = 1) -> bytes:
    """The secrets in a file, empty when there is none; ConfigError."""
    try:
        text = read_private(path, secrets_max * SECRET_BYTES)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "make it yours alone, or remove it") from error
    if len(text) % SECRET_BYTES:
        raise ConfigError(f"{path} holds no secrets of {SECRET_BYTES} bytes", "remove it, and join the cluster anew")
    return text


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Change the folder while no other process does; ConfigError when it cannot be changed."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigError(f"the keys in {folder} cannot be changed: {error.strerror}", "make it writable") from error
