"""Riprap beside the systems that users would pick instead: same data, same machine, one run (docs/peers.md)."""
