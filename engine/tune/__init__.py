"""The steps of `riprap tune`: pilots, their losses, the proposal."""
