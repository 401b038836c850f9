"""Files that hold a secret: read only where nobody but this user can open them, and written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from riprap.codec.errors import ConfigError


def exposure(found: os.stat_result) -> str:
    """Others who may open a file or folder with such an entry (its own, not that of a link); empty for nobody."""
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid == os.geteuid() and not mode & 0o077:
        return ""
    return f"it belongs to user {found.st_uid}, mode {mode:o}"


def read_private(path: Path, bytes_max: int) -> bytes:
    """The content of a file, links followed, of at most `bytes_max` bytes.

    ConfigError when others may open it, or it is larger or no file; OSError when it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would wait for its writer
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > bytes_max:
            raise ConfigError(f"{path} is no file of at most {bytes_max} bytes", "give the path of the right file")
        if why := exposure(found):
            raise ConfigError(
                f"{path} may be opened by others: {why}",
                f"make it yours alone (chmod 600 {path}); change the passwords in it, if somebody may have read it",
            )
        return stream.read(bytes_max)


@contextlib.contextmanager
def draft_of(path: Path, content: bytes) -> Iterator[Path]:
    """A new file beside `path`, for this user alone, with its content on disk; removed unless it was renamed."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            os.fsync(stream.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def replace_private(path: Path, content: bytes) -> None:
    """Give a file, made where there is none, another content in one step; OSError."""
    with draft_of(path, content) as draft:
        os.replace(draft, path)
