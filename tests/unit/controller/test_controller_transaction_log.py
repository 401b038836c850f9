"""Of ZooKeeper's logs and snapshots only those go that no start of the server reads."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from riprap.controller.transaction_log import FOLDER, SNAPSHOT_END, SNAPSHOTS_KEPT, TransactionLog, superfluous


def named(kind: str, numbers: list[int]) -> list[Path]:
    return [Path(f"{kind}.{number:x}") for number in numbers]


def names(paths: list[Path]) -> list[str]:
    return sorted(path.name for path in paths)


def test_what_precedes_the_third_newest_snapshot_goes_but_for_the_log_that_it_goes_on_in() -> None:
    files = named("snapshot", [0, 0x10, 0x20, 0x30, 0x40]) + named("log", [1, 0x11, 0x1F, 0x22, 0x31, 0x42])
    assert names(superfluous(files)) == ["log.1", "log.11", "snapshot.0", "snapshot.10"]


def test_too_few_snapshots_and_names_of_others_keep_all() -> None:
    assert superfluous(named("snapshot", [1, 2]) + named("log", [1, 2, 3])) == []
    strangers = [Path("snapshot.x"), Path("snapshot.1.snappy"), Path("acceptedEpoch"), Path("logs")]
    assert superfluous(named("snapshot", [1, 2]) + strangers) == []


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(1, 60), min_size=1))
def test_every_kept_snapshot_finds_each_transaction_after_it(snapshots: set[int], starts: set[int]) -> None:
    gone = set(superfluous(named("snapshot", sorted(snapshots)) + named("log", sorted(starts))))
    kept = [number for number in sorted(snapshots) if Path(f"snapshot.{number:x}") not in gone]
    assert kept == sorted(snapshots)[-SNAPSHOTS_KEPT:]
    for snapshot in kept:
        for transaction in range(snapshot + 1, 70):
            logs = [start for start in starts if start <= transaction]
            assert not logs or Path(f"log.{max(logs):x}") not in gone


def test_a_torn_snapshot_does_not_count_and_goes_with_those_of_its_age(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    for path in named("log", [1, 4, 9]):
        (folder / path).touch()
    for number in (0, 4, 8):
        (folder / f"snapshot.{number:x}").write_bytes(b"tree" + SNAPSHOT_END)
    for number in (2, 0xC):
        (folder / f"snapshot.{number:x}").write_bytes(b"tre")
    log = TransactionLog(tmp_path)
    assert log.purge() == 0, "of five snapshots three are whole"
    (folder / "snapshot.d").write_bytes(b"tree" + SNAPSHOT_END)
    assert log.purge() == 3
    left = ["log.4", "log.9", "snapshot.4", "snapshot.8", "snapshot.c", "snapshot.d"]
    assert names(list(folder.iterdir())) == left


def test_no_folder_has_nothing_to_purge(tmp_path: Path) -> None:
    assert TransactionLog(tmp_path).purge() == 0
