"""Files that a user names on the command line for us to write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from riprap.codec.errors import ConfigError
from riprap.codec.files import StrPath, no_space


@contextmanager
def writing(path: StrPath) -> Iterator[None]:
    """ConfigError where the file that the user has named cannot be written; a full disk is told as such, and others
    that are read meanwhile are none of this."""
    try:
        yield
    except OSError as error:
        if no_space(error) or str(error.filename) != str(path):
            raise
        raise ConfigError(f"{path}: {error.strerror}", "name a file in a directory that you may write to") from error
