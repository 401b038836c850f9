"""The base that all parts share: ids, blocks and their wire form, errors, and the erasure codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riprap.codec.codes import Code, Encoder, make_code

__all__ = ["Code", "Encoder", "make_code"]


def __getattr__(name: str) -> Any:
    """One of these on its first use: the codes bring NumPy, which half of the processes have no use for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from riprap.codec import codes

    return getattr(codes, name)
