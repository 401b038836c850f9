"""The backup servers of a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from test_backup_servers import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """None runs yet; all are ended behind the test."""
    made = Cluster(tmp_path)
    yield made
    made.close()
