"""The base of the sections of a topology: plain dataclasses that pydantic checks as they are, bounds and all.

configs/validation.py hands them to pydantic. Workers rebuild a checked topology without importing pydantic: the classes
here use it only when it asks them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler


class TopologySection:
    """A mapping with known keys only; values are taken as they are written, never converted (`"4"` is no number).

    To be a frozen dataclass. A field is a key of the YAML: under its own name, under the `alias` of its metadata, or,
    where that is None, not at all.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    @classmethod
    def keys(cls) -> list[str]:
        """The keys as they are spelled in YAML."""
        return list(cls._names())

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The section that `to_plain` wrote, with defaults for what is absent. Checks no value."""
        names = cls._names()
        return cls(**{names.get(key, key): value for key, value in values.items()})

    def to_plain(self) -> dict[str, Any]:
        """Dicts, lists, strings and numbers, under the keys of the YAML."""
        return {key: plain(getattr(self, name)) for key, name in self._names().items()}

    @classmethod
    def _names(cls) -> dict[str, str]:
        """The field of each key."""
        keys = {field.name: field.metadata.get("alias", field.name) for field in fields(cls)}  # type: ignore[arg-type]
        return {key: name for name, key in keys.items() if key is not None}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """To pydantic `strict` means that a mapping is no section either; here it is meant of the values alone."""
        reference = handler(source)
        schema: Any = handler.resolve_ref_schema(reference)
        schema["strict"] = False
        return reference


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The bounds of a value, in pydantic's words; stands in `Annotated`, behind a bare type."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    allow_inf_nan: bool | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        schema = handler(source)
        assert schema["type"] in ("int", "float", "str", "list", "dict"), "those of a union would be passed over"
        return {**schema, **{name: bound for name, bound in vars(self).items() if bound is not None}}


@dataclass(frozen=True)
class Written:
    """Stands in `Annotated`: the file holds an `of()`, from which `made` makes the section's value."""

    of: Callable[[], Any]
    made: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        from pydantic_core.core_schema import no_info_after_validator_function

        return no_info_after_validator_function(self.made, handler.generate_schema(self.of()))


def plain(value: Any) -> Any:
    """A copy of dicts, lists, strings and numbers alone."""
    if isinstance(value, TopologySection):
        return value.to_plain()
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value
