"""The operators of a job: base classes, sources, and streaming algorithms; they know no engine."""
