"""Outputs that an outside reader sees exactly once: destinations that take part in checkpoints."""
