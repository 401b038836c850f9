"""A reader's keys: they let one ask for the state of a cluster's jobs, and nothing else."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import msgpack

from riprap.codec.errors import ConfigError
from riprap.codec.trust.keys import (
    CONTROLLER,
    FOLDER_VARIABLE,
    READER_FILE,
    SECRET_FILE,
    Authority,
    KeyPair,
    check_private,
    is_off,
    keys_folder,
    read_keys,
)
from riprap.codec.trust.private import read_private, replace_private

READER = "reader"
BYTES_MAX = 1000


class ReaderKeys(NamedTuple):
    """The reader's own key, the controllers' public one, and the password to look up who leads."""

    own: KeyPair
    controller: bytes
    password: str

    @classmethod
    def of(cls, authority: Authority) -> ReaderKeys:
        """The keys of all readers of a cluster."""
        return cls(authority.pair(READER), authority.pair(CONTROLLER).public, authority.password(READER))

    @classmethod
    def read(cls, fields: object) -> ReaderKeys:
        """As `fields` wrote them; ValueError."""
        match fields:
            case [_, _, _, str(password)] if password.isalnum():
                public, secret, controller = read_keys(fields[:3])
                return cls(KeyPair(public, secret), controller, password)
        raise ValueError("three keys and a password of letters and digits are expected")

    def fields(self) -> list[bytes | str]:
        """For files and messages."""
        return [*self.own, self.controller, self.password]


@functools.cache
def own_reader() -> ReaderKeys | None:
    """The reader's keys of the user whose process this is, None for one who holds all; ConfigError."""
    folder = keys_folder()
    path = folder / READER_FILE
    if is_off() or (folder / SECRET_FILE).exists() or not path.exists():
        return None
    try:
        check_private(folder)
        return ReaderKeys.read(msgpack.unpackb(read_private(path, BYTES_MAX)))
    except (OSError, ValueError, msgpack.UnpackException) as error:
        raise ConfigError(f"the keys in {path} cannot be used: {error}", "remove it, and join again") from error


def adopt_reader(keys: ReaderKeys, folder: Path) -> None:
    """Keep a reader's keys here, in place of others; ConfigError where all keys of a cluster are."""
    if (folder / SECRET_FILE).exists():
        raise ConfigError(
            f"{folder} holds all keys of a cluster, and a reader's would allow less",
            f"name another folder: {FOLDER_VARIABLE}=DIR",
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(folder)
        replace_private(folder / READER_FILE, msgpack.packb(keys.fields()))
    except OSError as error:
        remedy = f"name another folder: {FOLDER_VARIABLE}=DIR"
        raise ConfigError(f"{folder} cannot be used: {error.strerror}", remedy) from error
