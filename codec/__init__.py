"""What all parts share: ids, blocks and their wire form, errors, and the erasure codes."""
