"""The rings against a deque, and between real threads."""

import gc
import sys
import weakref
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.engine.wire._ring_race import race_mpsc, race_spsc
from riprap.engine.wire.rings import MpscRing, SpscRing

RINGS = [SpscRing, MpscRing]


@pytest.mark.parametrize("kind", RINGS)
@given(capacity=st.sampled_from([1, 2, 4, 8]), offers=st.lists(st.booleans(), max_size=200))
def test_a_ring_behaves_as_a_bounded_deque(kind, capacity, offers):
    ring, model = kind(capacity), deque()
    for number, offer in enumerate(offers):
        if offer:
            fits = len(model) < capacity
            assert ring.offer(number) is fits
            if fits:
                model.append(number)
        else:
            assert ring.poll("empty") == (model.popleft() if model else "empty")
        assert len(ring) == len(model)


@pytest.mark.parametrize("kind", RINGS)
def test_none_is_an_item_like_others(kind):
    ring = kind(2)
    assert ring.offer(None)
    assert ring.poll("empty") is None
    assert ring.poll("empty") == "empty"


@pytest.mark.parametrize("kind", RINGS)
@pytest.mark.parametrize("capacity", [0, -1, 3, 6, 2**31, 2**70])
def test_a_capacity_that_is_no_power_of_two_is_refused(kind, capacity):
    with pytest.raises(ValueError, match="power of two"):
        kind(capacity)


class Payload:
    pass


@pytest.mark.parametrize("kind", RINGS)
def test_a_ring_holds_one_reference_to_each_item_and_drops_it_with_itself(kind):
    ring, item = kind(2), Payload()
    before = sys.getrefcount(item)
    assert ring.offer(item) and ring.offer(item)
    assert not ring.offer(item)
    assert sys.getrefcount(item) == before + 2
    assert ring.poll() is item
    assert sys.getrefcount(item) == before + 1
    alive = weakref.ref(item)
    del item
    gc.collect()
    assert alive() is not None
    del ring
    assert alive() is None


@pytest.mark.parametrize("batch", [1, 7, 256])
@pytest.mark.parametrize("capacity", [1, 4, 1024])
def test_two_threads_pass_pointers_in_order(capacity, batch):
    wrong, _ = race_spsc(capacity, 20_000 if capacity < 1024 else 3_000_000, batch)
    assert wrong == 0


@pytest.mark.parametrize("producers", [1, 2, 3])
@pytest.mark.parametrize("capacity", [1, 4, 1024])
def test_the_items_of_each_producer_keep_their_order(capacity, producers):
    wrong, _ = race_mpsc(capacity, producers, 10_000 if capacity < 1024 else 1_000_000)
    assert wrong == 0
