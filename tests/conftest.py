"""What all tests share: examples that Hypothesis draws may take as long as a busy machine needs."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("riprap", deadline=None)
settings.load_profile("riprap")
