"""The worker process, and all of it that is not pure: the real port, views, control, persistence, outputs."""
