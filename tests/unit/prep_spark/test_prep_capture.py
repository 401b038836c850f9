"""The parser of captures: odd packets, all containers, damage, and another reader's opinion on every file there is."""

from __future__ import annotations

import ctypes
import gzip
import mmap
import os
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import REAL
from dpkt_reader import Seen, ours, records_of
from hypothesis import given
from hypothesis import strategies as st
from packet_builder import (
    CISCO,
    ETHERNET,
    LOOP,
    MICROSECONDS,
    NANOSECONDS,
    NULL,
    PPP,
    RAW,
    SLL,
    SLL2,
    block,
    enhanced,
    ethernet,
    extension,
    interface,
    ipv4,
    ipv6,
    ipv6_fragment,
    pcap,
    section,
    simple,
    tcp,
    udp,
)  # fmt: skip
from whole_captures import read_capture

from riprap.prep_spark import synth
from riprap.prep_spark.capture import Capture
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.packet_records import DTYPE, FRAGMENT, LATER_FRAGMENT, REASONS, flow_hash


def parsed(data: bytes | memoryview) -> tuple[np.ndarray, dict[str, int]]:
    """The records of a whole capture, and the counts that are not 0."""
    capture, out = Capture(), np.empty(10_000, DTYPE)
    used, made = capture.parse(data, out.view(np.uint8))
    capture.finish(len(data) - used)
    counts = {reason: count for reason, count in zip(REASONS, capture.counts) if count}
    assert counts.get("kept", 0) == made
    return out[:made].copy(), counts


UDP = {"protocol": 17, "source_port": 1000, "destination_port": 53, "flags": 0, "size": 32, "payload": 4, "version": 4}
NO_PORTS = {"source_port": 0, "destination_port": 0}
LATER = {"flags": FRAGMENT | LATER_FRAGMENT}
EXTENSIONS = extension(60) + extension(43, 1) + extension(17)
TCP = {"protocol": 6, "source_port": 1000, "destination_port": 80, "version": 4}
WITH_OPTIONS = tcp()[:12] + bytes([8 << 4, 0]) + tcp()[14:] + bytes(12)
UDP6 = UDP | {"size": 52, "version": 6}
V6_LATER = {"size": 60, "payload": 12}
TAGGED = struct.pack(">BBBB", 0xAA, 0xAA, 3, 0) + bytes(2) + b"\x08\x00" + ipv4(udp())

ODD: dict[str, tuple[int, bytes, dict[str, Any] | str]] = {
    "udp": (ETHERNET, ethernet(ipv4(udp())), UDP),
    "padded": (ETHERNET, ethernet(ipv4()) + bytes(26), UDP | NO_PORTS | {"size": 20, "payload": 0}),
    "tcp flags": (ETHERNET, ethernet(ipv4(tcp(0x1C2), 6)), TCP | {"flags": 0x1C2, "payload": 0}),
    "tcp options": (RAW, ipv4(WITH_OPTIONS + b"12345", 6), TCP | {"size": 57, "payload": 5}),
    "tcp options not captured": (RAW, ipv4(WITH_OPTIONS[:12], 6, size=57), TCP | {"size": 57, "payload": 17}),
    "tcp of a length that cannot be": (RAW, ipv4(tcp(0xF << 12), 6), TCP | {"payload": 0}),
    "sctp": (RAW, ipv4(b"\3\xe8\0\x50" + bytes(8) + b"data", 132), TCP | {"protocol": 132, "payload": 4}),
    "dccp": (RAW, ipv4(b"\3\xe8\0\x50\4" + bytes(11) + b"data", 33), TCP | {"protocol": 33, "payload": 4}),
    "options": (RAW, ipv4(udp(), words=8), UDP | {"size": 44}),
    "icmp": (RAW, ipv4(bytes(8), 1), {"protocol": 1, "source_port": 0, "destination_port": 0, "payload": 8}),
    "vlan": (ETHERNET, ethernet(ipv4(udp()), 0x8100, 0x0800), UDP),
    "qinq": (ETHERNET, ethernet(ipv6(udp()), 0x88A8, 0x8100, 0x86DD), UDP6),
    "snap": (ETHERNET, ethernet(TAGGED, len(TAGGED)), UDP),
    "llc": (ETHERNET, ethernet(b"\x42\x42\x03" + bytes(40), 43), "not_ip"),
    "arp": (ETHERNET, ethernet(bytes(28), 0x0806), "not_ip"),
    "pppoe": (ETHERNET, ethernet(bytes(6) + b"\x00\x21" + ipv4(udp()), 0x8864), UDP),
    "pppoe, one byte": (ETHERNET, ethernet(bytes(6) + b"\x57" + ipv6(udp()), 0x8864), UDP6),
    "mpls": (ETHERNET, ethernet(bytes(4) + b"\0\0\1\0" + ipv4(udp()), 0x8847), UDP),
    "mpls without end": (ETHERNET, ethernet(bytes(7), 0x8847), "truncated"),
    "raw v6": (RAW, ipv6(udp()), UDP6),
    "raw other": (RAW, b"\x70" + bytes(40), "not_ip"),
    "ipv4 only": (228, ipv4(udp()), UDP),
    "ipv6 only": (229, ipv6(udp()), UDP6),
    "sll": (SLL, bytes(14) + b"\x08\x00" + ipv4(udp()), UDP),
    "sll2": (SLL2, b"\x86\xdd" + bytes(18) + ipv6(udp()), UDP6),
    "null, little": (NULL, b"\2\0\0\0" + ipv4(udp()), UDP),
    "null, big": (NULL, b"\0\0\0\x1e" + ipv6(udp()), UDP6),
    "loop": (LOOP, b"\0\0\0\2" + ipv4(udp()), UDP),
    "loop of others": (LOOP, b"\0\0\0\7" + ipv4(udp()), "not_ip"),
    "ppp": (PPP, b"\xff\3\0\x21" + ipv4(udp()), UDP),
    "cisco hdlc": (CISCO, b"\x0f\0\x08\0" + ipv4(udp()), UDP),
    "unknown link": (147, ipv4(udp()), "link"),
    "first fragment": (RAW, ipv4(udp(), fragment=0x2000), UDP | {"flags": FRAGMENT}),
    "later fragment": (RAW, ipv4(udp(), fragment=0x0003), UDP | NO_PORTS | LATER | {"payload": 12}),
    "do not fragment": (RAW, ipv4(udp(), fragment=0x4000), UDP),
    "length 0": (RAW, ipv4(udp(), size=0), UDP),
    "wrong version": (ETHERNET, ethernet(ipv4(udp(), version=5)), "malformed"),
    "short header": (RAW, ipv4(udp(), words=4), "malformed"),
    "shorter than its header": (RAW, ipv4(udp(), words=8, size=31), "malformed"),
    "half a header": (RAW, ipv4()[:19], "truncated"),
    "half the options": (RAW, ipv4(words=8)[:30], "truncated"),
    "half a frame": (ETHERNET, bytes(13), "truncated"),
    "half a tag": (ETHERNET, ethernet(b"\0\0\0", 0x8100), "truncated"),
    "empty": (RAW, b"", "truncated"),
    "payload not captured": (RAW, ipv4(udp(), size=1400), UDP | {"size": 1400, "payload": 1372}),
    "ports not captured": (RAW, ipv4(udp()[:3], size=32), UDP | NO_PORTS),
    "v6 wrong version": (229, ipv6(udp(), version=4), "malformed"),
    "v6 half a header": (RAW, ipv6()[:39], "truncated"),
    "v6 extensions": (RAW, ipv6(EXTENSIONS + udp(), 0), UDP6 | {"size": 84}),
    "v6 authentication": (RAW, ipv6(bytes([17, 4]) + bytes(22) + udp(), 51), UDP6 | {"size": 76}),
    "v6 fragment": (RAW, ipv6(ipv6_fragment(17, 0) + udp(), 44), UDP6 | {"flags": FRAGMENT, "size": 60}),
    "v6 later fragment": (RAW, ipv6(ipv6_fragment(17, 4) + udp(), 44), UDP6 | NO_PORTS | LATER | V6_LATER),
    "v6 whole in a fragment": (RAW, ipv6(ipv6_fragment(17, 0, False) + udp(), 44), UDP6 | {"size": 60}),
    "v6 extension cut": (RAW, ipv6(extension(17, 9)[:20], 0), {"protocol": 0, "source_port": 0, "size": 60}),
    "v6 endless extensions": (RAW, ipv6(extension(0) * 100, 0), {"protocol": 0, "source_port": 0}),
    "v6 no next header": (RAW, ipv6(b"", 59), {"protocol": 59, "size": 40, "payload": 0}),
    "v6 length 0": (RAW, ipv6(udp(), size=0), UDP6),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_packets(name: str) -> None:
    link, frame, expected = ODD[name]
    records, counts = parsed(pcap([frame], link))
    if isinstance(expected, str):
        assert (counts, len(records)) == ({expected: 1}, 0)
        return
    assert counts == {"kept": 1}
    assert {field: records[0][field] for field in expected} == expected
    is_v6 = records[0]["version"] == 6
    source, destination = (bytes.fromhex(f"fe80{n:028x}" if is_v6 else f"{0:020x}ffff0a0000{n:02x}") for n in (1, 2))
    assert (records[0]["source"].tobytes(), records[0]["destination"].tobytes()) == (source, destination)


def test_flows_are_hashes_of_the_5_tuple_alone() -> None:
    rng = np.random.default_rng(1)
    frames = [
        ipv4(udp())[:12] + rng.bytes(4) + rng.bytes(4) + tcp(int(flags)) for flags in rng.integers(0, 512, 1000)
    ] + [ipv6(udp())[:8] + rng.bytes(32) + udp() for _ in range(1000)]
    ports = [ipv4(struct.pack(">HH", 1000 + number % 2, number // 2) + udp()[4:]) for number in range(200)]
    records, _ = parsed(pcap(frames + ports, RAW))
    np.testing.assert_array_equal(records["flow"], flow_hash(records))
    assert len(np.unique(records["flow"])) == 2200
    one = parsed(pcap([ipv4(udp()), ipv4(udp(b"more")), ipv4(tcp(0x1), 6), ipv4(tcp(0x2), 6)], RAW))[0]["flow"]
    assert one.tolist() == [0xAEE8FADDC5F94186] * 2 + [0xAF6DFD06D32BF193] * 2  # what is written down may not change


FRAMES = [ethernet(ipv4(udp(b"x" * length))) for length in (1, 7, 30)]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(("magic", "fraction_ns"), [(MICROSECONDS, 1000), (NANOSECONDS, 1)])
def test_pcap_in_both_orders_and_resolutions(order: str, magic: int, fraction_ns: int) -> None:
    records, counts = parsed(pcap(FRAMES, ETHERNET, order, magic))
    assert counts == {"kept": 3}
    assert records["time_ns"].tolist() == [n * 10**9 + n * fraction_ns for n in range(3)]
    assert records["payload"].tolist() == [1, 7, 30]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(
    ("resolution", "ticks", "time_ns"),
    [
        (None, 1_458_000_000_123_456, 1_458_000_000_123_456_000),
        (3, 1_458_000_000_123, 1_458_000_000_123_000_000),
        (9, 1_458_000_000_123_456_789, 1_458_000_000_123_456_789),
        (12, 1_458_000_123_456_789_999, 1_458_000_123_456_789),
        (0x80 | 20, (1000 << 20) + (1 << 19), 1_000_500_000_000),
        (0x80 | 40, (1000 << 40) + (1 << 38), 1_000_250_000_000),
        (0xFF, 1 << 63, 1_000_000_000),
        (127, 10**19, 1_000_000_000),
    ],
)
def test_times_of_pcapng(order: str, resolution: int | None, ticks: int, time_ns: int) -> None:
    start = section(order) + interface(ETHERNET, order, resolution, offset=5)
    records, counts = parsed(start + enhanced(FRAMES[0], ticks, order))
    assert counts == {"kept": 1}
    assert records["time_ns"][0] == time_ns + 5 * 10**9


def test_pcapng_with_several_interfaces_sections_and_blocks() -> None:
    first = section("<") + interface(RAW) + interface(ETHERNET, resolution=9) + block(5, bytes(12))
    first += enhanced(ipv4(udp()), 7) + enhanced(FRAMES[1], 8000, place=1) + simple(ipv4(udp()))
    second = section(">") + enhanced(FRAMES[0], 9, ">") + interface(ETHERNET, ">", snap=40) + simple(FRAMES[2], ">")
    old = struct.pack(">HHIIII", 0, 9, 0, 11, len(FRAMES[0]), len(FRAMES[0])) + FRAMES[0]
    second += block(2, old, ">") + enhanced(FRAMES[0], 12, ">", captured=len(FRAMES[0]) + 100)
    records, counts = parsed(first + second)
    assert counts == {"kept": 5, "malformed": 2}  # before any interface, and longer than its block
    assert records["time_ns"].tolist() == [7000, 8000, 8000, 8000, 11_000]
    assert records["payload"].tolist() == [4, 7, 4, 30, 1]
    assert records["source_port"].tolist() == [1000] * 5


PARTS = {
    "pcap": [pcap([]), *(pcap([frame])[24:] for frame in FRAMES)],
    "pcapng": [section(), interface(), *(enhanced(frame, n) for n, frame in enumerate(FRAMES))],
}
CAPTURES = {name: b"".join(parts) for name, parts in PARTS.items()}


@pytest.mark.parametrize("name", CAPTURES)
def test_a_file_cut_anywhere_keeps_what_came_before(name: str) -> None:
    whole, _ = parsed(CAPTURES[name])
    ends = np.cumsum([0, *map(len, PARTS[name])]).tolist()
    for length in range(ends[-1] + 1):
        records, counts = parsed(CAPTURES[name][:length])
        kept = sum(end <= length for end in ends[-3:])
        np.testing.assert_array_equal(records, whole[:kept])
        expected = {"kept": kept, "cut": int(length not in ends)}
        assert counts == {reason: count for reason, count in expected.items() if count}, length


@pytest.mark.parametrize("name", CAPTURES)
@given(sizes=st.lists(st.integers(1, 90), min_size=1), room=st.integers(1, 4))
def test_pieces_give_the_same_as_the_whole(name: str, sizes: list[int], room: int) -> None:
    data, capture, found = CAPTURES[name], Capture(), []
    start = stop = 0
    while stop < len(data):
        stop = min(len(data), stop + sizes[stop % len(sizes)])
        while True:
            out = np.empty(room, DTYPE)
            used, made = capture.parse(data[start:stop], out.view(np.uint8))
            found.append(out[:made])
            start += used
            if made < room:
                break
    np.testing.assert_array_equal(np.concatenate(found), parsed(data)[0])
    assert start == len(data)


def broken_length(data: bytes, place: int) -> bytes:
    return data[:place] + b"\xff\xff\xff\x7f" + data[place + 4 :]


def test_lengths_that_cannot_be_true_end_a_file() -> None:
    second = 24 + 16 + len(FRAMES[0])
    assert parsed(broken_length(pcap(FRAMES), second + 8))[1] == {"kept": 1, "broken": 1}
    ng = CAPTURES["pcapng"]
    at = ng.index(enhanced(FRAMES[1], 1)) + 4
    assert parsed(broken_length(ng, at))[1] == {"kept": 1, "broken": 1}
    assert parsed(section()[:8] + bytes(20))[1] == {"broken": 1}


class GuardedPage:
    """Memory behind whose last byte nothing may be read: doing so ends the process."""

    def __init__(self, pages: int = 4) -> None:
        self._map = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
        self.size = pages * mmap.PAGESIZE
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + self.size
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), mmap.PAGESIZE, 0) == 0

    def holding(self, data: bytes) -> memoryview:
        """`data`, at the very end of the memory."""
        assert len(data) <= self.size
        self._map[self.size - len(data) : self.size] = data
        return memoryview(self._map)[self.size - len(data) : self.size]


GUARDED = GuardedPage()
LINKS = [ETHERNET, RAW, SLL, SLL2, NULL, LOOP, PPP, CISCO, 12, 14, 50, 228, 229, 147]
PIECES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([frame for _, frame, _ in ODD.values()]),
    st.sampled_from([section(), section(">"), interface(), simple(FRAMES[0]), enhanced(FRAMES[1], 5)]),
)


@pytest.mark.parametrize("name", ODD)
def test_a_packet_cut_anywhere_is_not_read_beyond_its_end(name: str) -> None:
    link, frame, _ = ODD[name]
    for length in range(len(frame)):  # the frame lies at the end of the memory, so that a byte too many is a fault
        records, counts = parsed(GUARDED.holding(pcap([frame[:length]], link)))
        assert sum(counts.values()) == 1 and len(records) == counts.get("kept", 0)


@given(st.sampled_from(LINKS), st.lists(PIECES, max_size=8), st.sampled_from("<>"))
def test_no_packet_is_read_beyond_its_end(link: int, frames: list[bytes], order: str) -> None:
    cut = [frame[:length] for frame in frames for length in {len(frame), len(frame) // 2, len(frame) * 4 // 5}]
    for frame in cut:
        records, counts = parsed(GUARDED.holding(pcap([frame], link, order)))
        assert sum(counts.values()) == 1 and len(records) == counts.get("kept", 0)
    _, counts = parsed(pcap(cut, link, order))
    assert sum(counts.values()) == len(cut)


@given(st.sampled_from([b"", *CAPTURES.values(), section(), section() + interface()]), st.lists(PIECES, max_size=8))
def test_random_bytes_are_survived(start: bytes, pieces: list[bytes]) -> None:
    data = start + b"".join(pieces)
    records, counts = parsed(GUARDED.holding(data))
    assert len(records) == counts.get("kept", 0)
    assert counts.get("cut", 0) + counts.get("broken", 0) <= 1


@given(st.sampled_from(list(CAPTURES.values())), st.data())
def test_changed_bytes_are_survived(capture: bytes, data: st.DataObject) -> None:
    changed = bytearray(capture)
    for _ in range(data.draw(st.integers(1, 5))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    records, counts = parsed(GUARDED.holding(bytes(changed)))
    assert len(records) == counts.get("kept", 0)


def test_files_may_be_compressed_and_are_read_to_their_damage(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)  # does not compress, so that a cut falls into a packet
    data = pcap([ethernet(ipv4(udp(rng.bytes(1000)))) for _ in range(500)])
    (tmp_path / "a").write_bytes(data)
    members = gzip.compress(data[:100_000], mtime=0) + gzip.compress(data[100_000:], mtime=0) + bytes(50)
    (tmp_path / "b").write_bytes(members)
    (tmp_path / "c").write_bytes(members[:-20_000])
    plain, counts = read_capture(str(tmp_path / "a"))
    assert counts == {"kept": 500}
    np.testing.assert_array_equal(read_capture(str(tmp_path / "b"))[0], plain)
    cut, counts = read_capture(str(tmp_path / "c"))
    np.testing.assert_array_equal(cut, plain[: len(cut)])
    assert 400 < len(cut) < 500 and counts == {"kept": len(cut), "cut": 1}


@pytest.mark.parametrize("data", [b"time,source,destination\n" * 3, gzip.compress(b"%PDF" * 10, mtime=0)])
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(PrepError, match=r"x: expected a capture, pcap or pcapng; found a file that begins with \w\w "):
        read_capture(str(tmp_path / "x"))


def test_an_empty_file_has_no_packets(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    assert read_capture(str(tmp_path / "x"))[1] == Counter()


OTHERWISE = {
    "ppp", "cisco hdlc",  # links that dpkt does not know, and one that it takes for raw IP
    "unknown link", "length 0", "v6 length 0",  # dpkt leaves a length of 0 as it is
    "wrong version", "shorter than its header", "half the options",  # dpkt takes what contradicts itself
    "v6 extension cut", "v6 endless extensions",  # dpkt drops them, though their addresses are there
}  # fmt: skip


def captures(folder: Path) -> list[Path]:
    """Captures to compare on: synthesized and built ones, and those of RIPRAP_PCAPS or of the data that lies beside."""
    synth.pcap(str(folder / "synthesized.pcap"), 3000)
    for name, (link, frame, _) in ODD.items():
        if name not in OTHERWISE:
            (folder / f"{name}.pcap").write_bytes(pcap([frame, frame], link, ">", NANOSECONDS))
    (folder / "built.pcapng").write_bytes(CAPTURES["pcapng"])
    real = Path(os.environ.get("RIPRAP_PCAPS", REAL / "pcap"))
    return [*sorted(folder.iterdir()), *sorted(real.glob("*.pcap*"))]


def assert_payloads(records: np.ndarray, expected: list[Seen], path: Path) -> None:
    """Where dpkt tells the length of the transport header."""
    told = [(int(found["payload"]), seen.payload) for found, seen in zip(records, expected) if seen.payload is not None]
    assert all(found == payload for found, payload in told), (path.name, told)


def test_dpkt_finds_the_same_packets_in_every_file(tmp_path: Path) -> None:
    files = captures(tmp_path)
    assert len(files) >= len(ODD) - len(OTHERWISE) + 2 + 12, "the real ones among them"
    compared = 0
    for path in files:
        expected, frames = records_of(path)
        records, counts = read_capture(str(path))
        assert counts.total() == frames, path.name
        assert list(ours(records)) == expected, path.name
        assert_payloads(records, expected, path)
        compared += len(expected)
    assert compared > 3000
