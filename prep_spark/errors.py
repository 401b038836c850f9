"""The one error of the preparation jobs: it says what is wrong with an input, and what to do about it."""

from __future__ import annotations

import errno
import os


class PrepError(Exception):
    """A raw file, an option or the machine is not what the job needs; nothing was written.

    `remedy` is one sentence, in the imperative; it is printed behind the message.
    """

    exit_code = 2

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n  remedy: {self.remedy}" if self.remedy else message


def cannot_write(path: str, error: OSError, remedy: str) -> PrepError:
    """The error of a file that could not be written; a full disk has a remedy of its own."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        folder, name = os.path.split(os.path.abspath(path))
        return PrepError(f"no space left in {folder} ({name})", "free some space")
    return PrepError(f"cannot write to {path}: {error.strerror}", remedy)
