"""How long a worker has waited for its backup servers."""

from __future__ import annotations

from riprap.engine.worker.confirmation import Confirmation


def test_the_wait_begins_with_the_first_record_that_is_not_safe() -> None:
    watch = Confirmation()
    assert watch.silence_s(1000.0) == 0
    watch.save(1, 1000.0)
    watch.save(2, 1003.0)
    assert watch.silence_s(1005.0) == 5


def test_whatever_is_confirmed_begins_the_wait_anew_and_is_told_once() -> None:
    watch = Confirmation()
    watch.save(1, 0.0)
    watch.save(2, 0.0)
    assert watch.grow(1, 10.0) and not watch.grow(1, 11.0)
    assert watch.silence_s(12.0) == 2
    assert watch.grow(2, 13.0) and watch.silence_s(100.0) == 0


def test_a_life_that_took_records_over_waits_from_its_own_first_one() -> None:
    """They are safe before it has saved anything, and perhaps before it has looked."""
    for take_over in (lambda watch: watch.skip(30), lambda watch: watch.grow(30, 900.0)):
        watch = Confirmation()
        take_over(watch)
        watch.save(31, 1000.0)
        assert watch.silence_s(1001.0) == 1


def test_after_a_long_pause_the_wait_begins_anew() -> None:
    watch = Confirmation()
    watch.save(1, 0.0)
    watch.grow(1, 1.0)
    watch.save(2, 500.0)
    assert watch.silence_s(501.0) == 1
