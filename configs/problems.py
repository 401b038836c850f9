"""Problems of a configuration, and the one message that lists them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any, Self

from riprap.codec.errors import ConfigError, RiprapError

FieldPath = tuple[str | int, ...]

COMPARED_MAX = 64
SHOWN_MAX = 50
"""Problems printed at most; a file that is no topology at all would drown the first, useful one."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong: its place, the fault, the value expected, and (if known) the remedy.

    One that `leads` is told before all others, wherever it stands: they would mostly follow from it.
    """

    path: FieldPath
    wrong: str
    expected: str
    fix: str = ""
    leads: bool = False

    @classmethod
    def of_error(cls, path: FieldPath, error: RiprapError, expected: str) -> Self:
        """An error as a problem of the value at `path`."""
        return cls(path, str(error.args[0]), expected, error.remedy)


def dotted(path: FieldPath) -> str:
    """`stages.processor.parallelism`, the spelling that `--set` takes; the whole file is `(file)`."""
    return ".".join(str(part) for part in path) or "(file)"


def suggestion(name: str, known: Iterable[str]) -> str:
    """`did you mean X?` when one of the first of `known` is close to `name`, else nothing."""
    close = get_close_matches(name, islice(known, COMPARED_MAX), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else ""


def one_of(names: Iterable[str]) -> str:
    """`one of a, b, c`."""
    return "one of " + ", ".join(names)


def shown(value: Any) -> str:
    """A value as a message shows it: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def config_error(where: Callable[[FieldPath], str], file: str, problems: Sequence[Problem]) -> ConfigError:
    """One ConfigError for all problems, in the order of the file; `where` gives `FILE:LINE` of a path."""
    lines = [_line(where(problem.path), problem) for problem in problems[:SHOWN_MAX]]
    if len(problems) > SHOWN_MAX:
        lines.append(f"... and {len(problems) - SHOWN_MAX} more")
    if len(problems) == 1 and problems[0].fix:
        return ConfigError(lines[0], problems[0].fix)
    fixes = [f"{line}\n    {problem.fix}" if problem.fix else line for line, problem in zip(lines, problems)]
    count = "the problem" if len(problems) == 1 else f"the {len(problems)} problems"
    return ConfigError("\n".join(fixes + lines[len(problems) :]), f"correct {count} above in {file}")


def _line(where: str, problem: Problem) -> str:
    return f"{where}: {dotted(problem.path)}: {problem.wrong}; expected {problem.expected}"
