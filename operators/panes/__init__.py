"""Aggregates over event time: panes of keys, fixed, sliding or by sessions (docs/time.md)."""
