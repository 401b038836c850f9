"""The frame of pages that need no network: `profile.html` and `plan.html`."""
