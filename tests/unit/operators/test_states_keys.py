"""The hash tables of the states: growth, collisions, the arena of byte strings, and arrays of any make."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from riprap.operators.states import HashMap, KeySet, pack_keys, unpack_keys
from riprap.operators.states._kernels import Cells, KeyTable
from riprap.operators.states.checks import Keys

MASK = 2**64 - 1
FACTOR = 0x9E3779B97F4A7C15
SEED = 0x1234_5678_9ABC_DEF0


def unmix(bits: int) -> int:
    """What the finalizer of splitmix64 makes `bits` of."""
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        undone = bits
        while shift < 64:
            undone, shift = undone ^ (bits >> shift), shift + shift
            bits = undone
        bits = undone * pow(factor, -1, 2**64) & MASK
    return bits


def colliding_integers(tag: int, count: int) -> np.ndarray:
    """Different int64 keys whose hashes begin with the same 32 bits."""
    return np.array([unmix(tag << 32 | low) - SEED & MASK for low in range(count)], np.uint64).view(np.int64)


def hash_word(hashed: int, word: int) -> int:
    hashed = (hashed ^ word) * FACTOR & MASK
    return hashed ^ hashed >> 32


def unhash_word(hashed: int, before: int) -> int:
    """The word that leads from the hash `before` to this one."""
    return (hashed ^ hashed >> 32) * pow(FACTOR, -1, 2**64) & MASK ^ before


def colliding_bytes(tag: int, count: int) -> list[bytes]:
    """Different keys of eight bytes whose hashes begin with the same 32 bits."""
    hashes = (unmix(tag << 32 | low) for low in range(count))
    return [unhash_word(unhash_word(hashed, 0), SEED + 8).to_bytes(8, "little") for hashed in hashes]


def colliding_long_bytes(tag: int, count: int) -> list[bytes]:
    """The same of 24 bytes, which differ in the last eight only."""
    before = hash_word(hash_word(SEED + 24, 0), 0)
    hashes = (unmix(tag << 32 | low) for low in range(count))
    return [bytes(16) + unhash_word(hashed, before).to_bytes(8, "little") for hashed in hashes]


def colliding(kind: str, tag: int, count: int) -> Keys:
    if kind == "int64":
        return colliding_integers(tag, count)
    return pack_keys((colliding_bytes if kind == "bytes" else colliding_long_bytes)(tag, count))


@pytest.mark.parametrize("tag", [0, 1, 0x80000000, 0xFFFFFFFF])
@pytest.mark.parametrize("kind", ["int64", "bytes", "long bytes"])
def test_keys_of_one_hash_are_kept_apart(kind: str, tag: int) -> None:
    keys, packed = colliding(kind, tag, 700), kind != "int64"
    table = KeyTable(packed, SEED)
    others = pack_keys([b"other"]) if packed else np.array([5])
    assert table.add(others, 0, math.inf) == 1
    assert table.find(keys).tolist() == [-1] * 700
    assert table.add(keys, 0, math.inf) == 700
    assert table.add(keys, 0, math.inf) == 700
    assert len(table) == 701
    assert table.find(keys).tolist() == list(range(1, 701))
    assert table.find(others).tolist() == [0]


def test_the_colliding_keys_do_collide() -> None:
    for kind in ("int64", "bytes", "long bytes"):
        table = KeyTable(kind != "int64", SEED)
        table.add(colliding(kind, 7, 3), 0, math.inf)
        assert table.tags.tolist() == [7, 7, 7]


@pytest.mark.parametrize("key", ["int64", "bytes"])
def test_a_map_agrees_with_a_dictionary_while_it_grows(key: str) -> None:
    rng = random.Random(1)
    state, expected = HashMap(key, "manhattan", "int64"), {}
    for _ in range(60):
        numbers = [rng.randrange(30_000) for _ in range(rng.choice((1, 31, 32, 33, 3000)))]
        words = [b"%d" % number * (number % 7) for number in numbers]
        amounts = [rng.randrange(-3, 9) for _ in numbers]
        names = words if key == "bytes" else numbers
        assert state.add(pack_keys(words) if key == "bytes" else np.array(numbers), amounts) == len(numbers)
        for name, amount in zip(names, amounts):
            expected[name] = expected.get(name, 0) + amount
    keys, values = state.items()
    names = unpack_keys(keys) if key == "bytes" else keys.tolist()
    assert list(zip(names, values.tolist())) == list(expected.items())
    assert len(state) == len(expected) > 10_000
    assert state.state_divergence() == sum(map(abs, expected.values()))
    assert state.get(keys).tolist() == list(expected.values())


def test_a_stop_in_the_middle_of_growth_continues() -> None:
    state, keys = HashMap("int64", "cardinality"), np.arange(10_000)
    state.theta, done = 333, 0
    while done < len(keys):
        applied = state.add(keys[done:], np.ones(len(keys) - done))
        done += applied
        assert applied == min(334, 10_000 - done + applied)
        state.backup_state()
    assert state.items()[0].tolist() == keys.tolist()


def test_long_keys_and_empty_ones_share_the_arena() -> None:
    words = [b"", b"x" * 1_000_000, b"\0", b"\0\0", b"", b"y" * 300_000, b"x" * 1_000_000]
    state = KeySet("bytes")
    assert state.add(pack_keys(words)) == 7
    assert unpack_keys(state.items()) == [words[0], words[1], words[2], words[3], words[5]]
    assert state.contains(pack_keys([b"x" * 999_999, b"\0\0", b"\0\0\0"])).tolist() == [False, True, False]


def test_keys_are_taken_from_the_middle_of_packed_ones() -> None:
    data, offsets = pack_keys([b"ab", b"c", b"def", b"gh"])
    state = KeySet("bytes")
    assert state.add((data, offsets[2:])) == 2
    assert unpack_keys(state.items()) == [b"def", b"gh"]


@pytest.mark.parametrize("offsets", [[0, 3, 2], [0, 4, 9], [0, -1, 2], [-2, 1, 2], [5, 2, 3]])
def test_offsets_that_do_not_ascend_are_refused(offsets: list[int]) -> None:
    keys = (np.zeros(8, np.uint8), np.array(offsets))
    for call in (
        lambda: KeySet("bytes").add(keys),
        lambda: KeySet("bytes").contains(keys),
        lambda: HashMap("bytes").get(keys),
        lambda: HashMap("bytes").add(keys, [1.0, 1.0]),
    ):
        with pytest.raises(ValueError, match="ascend"):
            call()


def test_items_before_a_malformed_key_are_applied() -> None:
    state = HashMap("bytes")
    offsets = np.arange(101)
    offsets[71] = 5
    with pytest.raises(ValueError, match="key 70"):
        state.add((np.arange(100).astype(np.uint8), offsets), np.ones(100))
    assert len(state) == 70 and state.state_divergence() == 70


def test_no_offsets_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="offsets"):
        KeySet("bytes").add((np.zeros(0, np.uint8), np.zeros(0, np.int64)))
    assert KeySet("bytes").add(pack_keys([])) == 0
    assert HashMap().add([], []) == 0


def test_keys_of_64_bits_are_taken_bit_by_bit() -> None:
    flows = np.array([2**64 - 1, 0, 2**63, 2**64 - 1], np.uint64)
    state = HashMap("int64", "maximum", "int64")
    state.add(flows, np.array([1, 2, 3, 4], np.uint32))
    assert state.items()[0].view(np.uint64).tolist() == [2**64 - 1, 0, 2**63]
    assert state.get(flows).tolist() == [5, 2, 3, 5]


def test_columns_of_records_are_taken() -> None:
    """Strided, at odd addresses and read-only, as they come from the network."""
    raw = np.zeros(50, np.dtype([("pad", "u1"), ("key", "<i8"), ("amount", "<f8")]))
    raw["key"], raw["amount"] = np.arange(50) % 5, 2.0
    raw.flags.writeable = False
    state = HashMap("int64")
    assert state.add(raw["key"], raw["amount"]) == 50
    odd = np.frombuffer(b"\0" + np.arange(5).astype("<i8").tobytes(), np.int64, offset=1)
    assert not odd.flags.aligned
    assert state.get(odd).tolist() == [20.0] * 5


@pytest.mark.parametrize(
    ("keys", "amounts"),
    [([1.5], [1.0]), ([[1]], [1.0]), ([1, 2], [1.0]), ([1], [1j]), (["a"], [1.0]), ([1], [[1.0]]), (7, [1.0])],
)
def test_arrays_of_the_wrong_kind_are_refused(keys: object, amounts: object) -> None:
    state = HashMap()
    with pytest.raises(ValueError):
        state.add(keys, amounts)  # type: ignore[arg-type]
    assert len(state) == 0


def test_the_wrong_kind_of_key_is_refused() -> None:
    with pytest.raises(ValueError, match="pair"):
        HashMap("bytes").add(np.array([1]), [1.0])
    with pytest.raises(ValueError, match="keys must be"):
        KeySet("int64").add(pack_keys([b"abc"]))
    with pytest.raises(ValueError, match="int64"):
        HashMap("int64", values="int64").add([1], [1.5])


@pytest.mark.parametrize("options", [{"key": "str"}, {"divergence": "hamming"}, {"values": "float32"}])
def test_options_of_a_map_are_checked(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        HashMap(**options)


def test_integers_are_exact_and_wrap_around() -> None:
    state = HashMap("int64", "manhattan", "int64")
    state.add([1], [2**62 + 1])
    state.add([1], [-(2**62)])
    assert state.get([1]).tolist() == [1] and state.state_divergence() == 1.0
    state.add([2, 2], [2**63 - 1, 1])
    assert state.get([2]).tolist() == [-(2**63)] and state.state_divergence() == 2.0**63 + 1


def test_clear_forgets_the_keys_and_their_values() -> None:
    state = HashMap("bytes")
    state.add(pack_keys([b"a", b"b"]), [1.0, 2.0])
    state.backup_state()
    state.clear()
    assert len(state) == 0 and state.get(pack_keys([b"a"]), default=-1).tolist() == [-1.0]
    state.add(pack_keys([b"b"]), [5.0])
    assert unpack_keys(state.items()[0]) == [b"b"] and state.state_divergence() == 5.0


def test_a_key_twice_in_a_full_backup_is_refused() -> None:
    state = HashMap()
    state.add([1, 2], [1.0, 2.0])
    whole = state.backup_all()
    with pytest.raises(ValueError, match="twice"):
        HashMap().recover_state(whole._replace(arrays=(np.array([3, 3]), whole.arrays[1])))


@pytest.mark.parametrize("divergence", ["manhattan", "maximum", "cardinality"])
def test_a_restored_map_goes_on_as_the_one_that_was_saved(divergence: str) -> None:
    """Nothing counts as changed, old values are known, and it grows."""
    first, restored = HashMap(divergence=divergence), HashMap(divergence=divergence)
    first.add(np.arange(1000), np.arange(1000.0))
    restored.recover_state(first.backup_all())
    assert restored.state_divergence() == 0
    for state in (first, restored):
        state.add(np.arange(990, 3000), np.ones(2010))
    assert restored.state_divergence() == first.state_divergence() > 0
    later, other = first.backup_state(), restored.backup_state()
    assert not other.full or later.full
    for mine, theirs in zip(later.arrays, other.arrays, strict=True):
        assert mine.tolist() == theirs.tolist()
    assert restored.get(np.array([0, 5, 995, 2999])).tolist() == [0.0, 5.0, 996.0, 1.0]


def test_cells_and_keys_grow_together() -> None:
    table, cells = KeyTable(False, SEED), Cells(0, "manhattan")
    keys = np.arange(5000)
    assert table.update(cells, keys, np.ones(5000), math.inf, False) == 5000
    assert len(cells) == len(table) == 5000 and cells.changes.tolist() == keys.tolist()
