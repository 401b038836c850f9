"""Panes: stretches of event time whose items are summed up by key, and put out as event time passes."""
