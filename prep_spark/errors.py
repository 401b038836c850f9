"""The one error of the preparation jobs: it says what is wrong with an input, and what to do about it."""

from __future__ import annotations


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
