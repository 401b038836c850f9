"""The backup server that persists states and items to disk: comes with the first scheme that persists."""
