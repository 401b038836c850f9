"""The base that all parts share: ids, blocks and their wire form, errors, and the erasure codes."""

from riprap.codec.codes import Code, Encoder, make_code

__all__ = ["Code", "Encoder", "make_code"]
