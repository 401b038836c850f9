"""The directory of a run: who works in it, its files, and how they are read while the job still writes."""
