"""The steps behind `riprap run`, `submit` and `check`: checks, start, session, faults, summary."""
