"""The directory of a run: the launchers that work in it, its files, and their readers while the job still writes."""
