"""Deals the blocks of an epoch over tasks and collects them again, with what coded stripes need for it."""
