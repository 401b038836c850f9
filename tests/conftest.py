"""What all tests share: keys of their own, and patience with examples that Hypothesis draws on a busy machine.

RIPRAP_EXAMPLES sets how many examples Hypothesis draws where a test does not say it (`make sim` draws a thousand).
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Generator

import pytest
from hypothesis import settings

from riprap.codec.trust.keys import FOLDER_VARIABLE

settings.register_profile("riprap", deadline=None, max_examples=int(os.environ.get("RIPRAP_EXAMPLES", "40")))
settings.load_profile("riprap")

if "RIPRAP_TEST_KEYS" not in os.environ:  # the first process of a session; the others inherit it
    os.environ["RIPRAP_TEST_KEYS"] = os.environ[FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="riprap-keys-")
    atexit.register(shutil.rmtree, os.environ[FOLDER_VARIABLE], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: no collection of garbage is to look at it, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
