"""What all tests share: keys of their own, and patience with examples that Hypothesis draws on a busy machine."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

from hypothesis import settings

from riprap.codec.trust.keys import FOLDER_VARIABLE

settings.register_profile("riprap", deadline=None)
settings.load_profile("riprap")

if "RIPRAP_TEST_KEYS" not in os.environ:  # the first process of a session; the others inherit it
    os.environ["RIPRAP_TEST_KEYS"] = os.environ[FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="riprap-keys-")
    atexit.register(shutil.rmtree, os.environ[FOLDER_VARIABLE], ignore_errors=True)
