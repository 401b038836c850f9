"""A YAML file as plain values, together with the line that each of them stands on."""

from __future__ import annotations

from io import StringIO
from os import PathLike
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarbool import ScalarBoolean
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from riprap.codec.errors import ConfigError
from riprap.configs.problems import FieldPath, shown

BYTES_MAX = 1 << 20
NODES_MAX = 100_000
"""Aliases can make a small file expand without end; nothing that people write comes near either bound."""
INTEGER_BITS_MAX = 14_000
"""Python refuses to print a number of more than 4300 digits, and so no message could show it."""

LINE_MAX = 1 << 30
"""Lines are never folded: what is folded within quotes is not always read back as it was, and a folded key never."""


class Document:
    """The content of one YAML file; `values` may be changed, lines stay those of the file."""

    def __init__(self, file: str, tree: Any) -> None:
        self.file = file
        self._tree = tree
        self._nodes = 0
        self.values = self._plain(tree, 0)

    def line(self, path: FieldPath) -> int:
        """The line (from 1) of the value at `path`, or of its nearest ancestor that stands in the file."""
        node, line = self._tree, _first_line(self._tree)
        for part in path:
            if isinstance(node, CommentedMap) and part in node and part in (node.lc.data or {}):
                line = node.lc.key(part)[0]
            elif isinstance(node, CommentedSeq) and isinstance(part, int) and part < len(node):
                line = node.lc.item(part)[0]
            else:
                break
            node = node[part]
        return line + 1

    def _plain(self, node: Any, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > NODES_MAX or depth > 50:
            raise ConfigError(f"{self.file}: its aliases expand without end", "write the values out")
        if isinstance(node, dict):
            return {_scalar(key): self._plain(value, depth + 1) for key, value in node.items()}
        if isinstance(node, list):
            return [self._plain(value, depth + 1) for value in node]
        value = _scalar(node)
        if isinstance(value, int) and value.bit_length() > INTEGER_BITS_MAX:
            raise ConfigError(f"{self.file}: a whole number of more than 4200 digits", "write a smaller one")
        return value


def read_document(path: str | PathLike[str]) -> Document:
    """Parse a YAML file; ConfigError names file, line and column of what YAML itself cannot read."""
    file = str(path)
    try:
        with Path(path).open("rb") as stream:
            content = stream.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}", "give the path of a readable YAML file") from error
    if len(content) > BYTES_MAX:
        raise ConfigError(f"{file}: larger than {BYTES_MAX} bytes; expected a YAML file", "give the right path")
    return parse_document(file, content)


def parse_document(file: str, content: bytes, *, quoting: bool = True) -> Document:
    """The same, of a content that was read; an error quotes nothing of it unless `quoting` is set."""
    try:
        tree = YAML(typ="rt").load(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        problem = ConfigError(f"{file}: not UTF-8 text at byte {error.start}", "save it as UTF-8")
    except (YAMLError, ValueError, RecursionError) as error:
        problem = _syntax_error(file, error, quoting)
    else:
        return Document(file, tree)
    raise problem  # not from the parser's error, which quotes the file


def parse_scalar(text: str) -> Any:
    """Read the value of `--set PATH=VALUE` as YAML would; an empty text is null. ConfigError when it is no YAML."""
    try:
        return Document("--set", YAML(typ="rt").load(text)).values
    except (YAMLError, ValueError, RecursionError) as error:
        wrong, remedy = f"--set: {shown(text)} is not a YAML value", "quote it, for example PATH='\"a: b\"'"
        raise ConfigError(wrong, remedy) from error


def written_document(values: Any) -> str:
    """The text of plain values, a value a line in their order, from which `parse_document` reads the same values."""
    yaml, text = YAML(typ="rt"), StringIO()  # the round-trip writer keeps the order of keys
    yaml.width = LINE_MAX
    yaml.dump(_quoted(values), text)
    return text.getvalue()


def _quoted(value: Any) -> Any:
    """The same, with text that YAML might break into lines in double quotes, where it is escaped."""
    if isinstance(value, dict):
        return {_quoted(key): _quoted(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_quoted(one) for one in value]
    return DoubleQuotedScalarString(value) if isinstance(value, str) and not value.isprintable() else value


def _scalar(value: Any) -> Any:
    """Strip ruamel's own number and string types, which keep their spelling, down to Python's."""
    if isinstance(value, bool | ScalarBoolean):
        return bool(value)
    for plain in (int, float, str):
        if isinstance(value, plain):
            return plain(value)
    return value


def _first_line(tree: Any) -> int:
    return tree.lc.line if isinstance(tree, CommentedMap | CommentedSeq) else 0


def _syntax_error(file: str, error: Exception, quoting: bool) -> ConfigError:
    mark = error.problem_mark or error.context_mark if isinstance(error, MarkedYAMLError) else None
    place = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
    if not quoting:
        return ConfigError(
            f"{place}: not valid YAML, or a key that stands twice", "correct it; put passwords in quotes"
        )
    what = getattr(error, "problem", None) or str(error) or type(error).__name__
    return ConfigError(f"{place}: not valid YAML: {' '.join(what.split())}", "correct the YAML at that place")
