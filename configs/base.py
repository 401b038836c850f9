"""The pydantic base of every section of a topology file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A mapping with known keys only; values are taken as they are written, never converted (`"4"` is no number)."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_by_name=False, validate_by_alias=True)

    @classmethod
    def keys(cls) -> list[str]:
        """The keys as they are spelled in YAML."""
        return [field.alias or name for name, field in cls.model_fields.items()]
