"""Checks the paths that others name before they are used."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

PATH_BYTES_MAX = 3072  # leaves room for the names of the files below, within the kernel's 4096
PRIVATE_FILE = 0o600


def problem_with_path(text: str) -> str:
    """The reason why a text cannot be the path of a run directory; empty when it can."""
    if not text.startswith("/") or os.path.normpath(text) != text:
        return "it is not an absolute path without . and .."
    if not text.isprintable():
        return "it holds characters that cannot be printed"
    if len(os.fsencode(text)) > PATH_BYTES_MAX:
        return f"it is longer than {PATH_BYTES_MAX} bytes"
    return ""


def is_under(path: str, root: str) -> bool:
    """True when a path, with all links followed, lies in a folder or is it."""
    real, top = os.path.realpath(path), os.path.realpath(root)
    return os.path.commonpath((real, top)) == top


def check_folder(path: Path) -> None:
    """OSError unless the folder is a folder of this user, and no link to one; nothing is done when there is none."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.ENOTDIR, "it is a link or a file where a folder should be", str(path))
    if found.st_uid != os.geteuid():
        raise OSError(errno.EPERM, f"the folder belongs to user {found.st_uid}", str(path))


def open_to_append(path: str | os.PathLike[str]) -> int:
    """A descriptor of a file of this user, made when it is not there; OSError for a link or another's file."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, PRIVATE_FILE)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        os.close(descriptor)
        raise OSError(errno.EPERM, "it is not a file of this user", os.fspath(path))
    return descriptor
