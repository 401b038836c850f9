"""Imports pass the collector of garbage by, and leave it as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from riprap.codec.start import importing


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """As it is before a test; nothing stays frozen."""
    yield
    gc.unfreeze()
    gc.enable()


def test_nothing_is_collected_meanwhile_and_what_was_made_is_looked_at_no_more() -> None:
    with importing():
        assert not gc.isenabled()
        made = [[number] for number in range(100)]
    assert gc.isenabled()
    assert not any(one is made for one in gc.get_objects()) and gc.get_freeze_count() > len(made)


def test_it_is_as_before_after_an_import_that_fails() -> None:
    with pytest.raises(ImportError), importing():
        raise ImportError
    assert gc.isenabled()


def test_who_has_disabled_it_finds_it_so() -> None:
    with importing():
        with importing():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
