"""The use of time by a job's threads: reads their records, draws `profile.html`."""
