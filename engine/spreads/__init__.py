"""How the blocks of an epoch are dealt over tasks and collected again, and what coded stripes need for it."""
