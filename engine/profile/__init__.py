"""Where the time of a job's threads went: reads what they recorded, draws `profile.html`."""
