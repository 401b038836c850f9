"""What `riprap run`, `submit` and `check` do: checks, start, session, faults, summary."""
