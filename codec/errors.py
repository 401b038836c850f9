"""Errors that a user meets: each says what is wrong, and what to do about it."""

from __future__ import annotations


class RiprapError(Exception):
    """Base of all errors that end in one message for the user.

    `remedy` is one sentence, in the imperative; it is printed behind the message.
    """

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n  remedy: {self.remedy}" if self.remedy else message


class ConfigError(RiprapError):
    """The command or a configuration is wrong, and nothing was started."""

    exit_code = 2


class DataError(RiprapError):
    """An input file is not what its format promises; the message names file and place."""

    exit_code = 2


class JobFailed(RiprapError):
    """A job that ran could not go on; the message names the worker and how to resume."""


class FrameError(ValueError):
    """A malformed message from the network; it is dropped and counted."""
