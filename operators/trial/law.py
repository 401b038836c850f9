"""A law is a demand on every operator of a kind; it is tried, and a broken one makes a complaint."""

from __future__ import annotations

import linecache
import traceback
from bdb import BdbQuit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from riprap.codec.errors import RiprapError
from riprap.codec.users_code import is_below_engine, is_users
from riprap.operators.returns import WrongReturn, culprit, defined_at, shortened, undefined

T = TypeVar("T")

Cause = tuple[str, str, str]
"""The common part of two complaints about the same thing: the method, the place, and the expectation."""

RESTS = "it rests on what was complained about"

_HERE = str(Path(__file__).parent)


@dataclass(frozen=True)
class Complaint:
    """A fault in `method`: the value `found`, the one `expected`, the `place` (FILE:LINE), and a remedy."""

    method: str
    found: str
    expected: str = ""
    place: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        expected = f"; expected {self.expected}" if self.expected else ""
        place = f" ({self.place})" if self.place else ""
        remedy = f"\n  remedy: {self.remedy}" if self.remedy else ""
        return f"{self.method} {self.found}{expected}{place}".lstrip() + remedy


class Broken(Exception):
    """A law is broken: ends the try of it."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(str(complaint))
        self.complaint = complaint


class NotTried(Exception):
    """A law cannot be tried, for the reason that is given."""


@dataclass(frozen=True)
class Law(Generic[T]):
    """`text` states the law; `try_it` raises Broken, or whatever the operator raises, where it does not hold.

    Without one that is `essential` nothing that follows it would make sense.
    """

    text: str
    try_it: Callable[[T], None]
    essential: bool = False


@dataclass(frozen=True)
class Outcome:
    """The outcome of trying a law on a `subject` (a stage, say): nothing, a complaint, or why it was not tried."""

    subject: str
    law: str
    complaint: Complaint | None = None
    not_tried: str = ""

    @property
    def ok(self) -> bool:
        """True when it was tried and holds."""
        return self.complaint is None and not self.not_tried

    def fields(self) -> dict[str, Any]:
        """As JSON has it."""
        complaint = asdict(self.complaint) if self.complaint else None
        return {
            "stage": self.subject,
            "law": self.law,
            "ok": self.ok,
            "complaint": complaint,
            "not_tried": self.not_tried or None,
        }


def try_laws(subject: str, case: T, laws: Sequence[Law[T]], complaints: set[Cause] | None = None) -> Iterator[Outcome]:
    """Try one law after the other; a complaint that is among those that were made is not made again.

    New ones are added to `complaints`.
    """
    complaints = set() if complaints is None else complaints
    missing = ""
    for law in laws:
        if missing:
            yield Outcome(subject, law.text, not_tried=missing)
            continue
        outcome = try_one(subject, case, law)
        if outcome.complaint:
            cause = (outcome.complaint.method, outcome.complaint.place, outcome.complaint.expected)
            if cause in complaints:
                outcome = Outcome(subject, law.text, not_tried=RESTS)
            complaints.add(cause)
        if law.essential and not outcome.ok:
            missing = outcome.not_tried or RESTS
        yield outcome


def try_one(subject: str, case: T, law: Law[T]) -> Outcome:
    """Try a law; leaving the debugger ends the whole trial."""
    try:
        law.try_it(case)
    except BdbQuit:
        raise
    except NotTried as reason:
        return Outcome(subject, law.text, not_tried=str(reason))
    except (Exception, SystemExit) as error:
        return Outcome(subject, law.text, complaint_of(error))
    return Outcome(subject, law.text)


def breach(owner: Any, method: str, found: str, expected: str, remedy: str = "") -> Broken:
    """The complaint about a method of an operator, or of whoever does its work for it."""
    owner, method = culprit(owner, method)
    kind = type(owner)
    return Broken(Complaint(f"{kind.__name__}.{method}", found, expected, defined_at(kind, method), remedy))


def complaint_of(error: BaseException) -> Complaint:
    """An operator's error, as a complaint that names its method and the user's line."""
    if isinstance(error, Broken):
        return error.complaint
    if isinstance(error, WrongReturn):
        return Complaint(error.method, f"{error.verb} {error.found}", error.expected, error.place, error.remedy)
    if missing := undefined(error):
        return Complaint(missing[0], "is not defined", place=missing[1], remedy="Define it; see docs/operators.md.")
    method, place = _where(error)
    if isinstance(error, RiprapError):
        return Complaint(method, f"refused: {error.args[0]}", place=place, remedy=error.remedy)
    what = f"sys.exit({error.code!r})" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    return Complaint(method, f"raised {what}", place=place, remedy=_remedy(error))


def _remedy(error: BaseException) -> str:
    if isinstance(error, ValueError) and "read-only" in str(error):
        return "What a method is handed is read-only: change a copy of it."
    return "Correct that line."


def _where(error: BaseException) -> tuple[str, str]:
    """The method of the operator that was called, and FILE:LINE: TEXT of the innermost line of the user's below it."""
    walked = _frames(error.__traceback__)
    frames = [frame for frame in walked if is_below_engine(frame[0]) and not frame[0].startswith(_HERE)]
    if not frames:
        return "", ""
    own = [frame for frame in frames if is_users(frame[0])]
    file, line, _ = (own or frames)[-1]
    method = (own or frames)[0][2]
    text = linecache.getline(file, line).strip()
    return method, f"{file}:{line}: {shortened(text)}" if text else f"{file}:{line}"


def _frames(trace: TracebackType | None) -> list[tuple[str, int, str]]:
    """File, line and qualified name of the function, outermost first."""
    walked = traceback.walk_tb(trace)
    return [(frame.f_code.co_filename, line, _short_name(frame.f_code.co_qualname)) for frame, line in walked]


def _short_name(qualified: str) -> str:
    """The class and name of a method, without the function that the class stands in."""
    return qualified.rpartition("<locals>.")[2]
