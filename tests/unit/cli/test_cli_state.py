"""What `up` leaves for later commands is believed only while the process it names is the same one."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.codec.trust.keys import FOLDER_VARIABLE, keys_folder
from riprap.controller import ensemble
from riprap.engine.services.state import (
    ServiceState,
    find_backups,
    find_zookeeper,
    forget_jobs,
    read_state,
    remove_state,
    started_ticks,
    state_folder,
    write_state,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "riprap").mkdir()
    return tmp_path / "riprap"


def own_state(ticks_off: int = 0) -> ServiceState:
    ticks = started_ticks(os.getpid())
    assert ticks
    return ServiceState(os.getpid(), ticks + ticks_off, "127.0.0.1:2181", "/tmp", ["ipc://@backup"])


def test_a_state_is_read_back_until_it_is_removed() -> None:
    write_state(own_state())
    assert read_state() == own_state()
    assert find_zookeeper(None) == "127.0.0.1:2181"
    assert find_zookeeper("other:1") == "other:1"
    remove_state()
    assert read_state() is None


def test_the_cluster_of_up_is_entered_as_it_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ensemble.VARIABLE, "/another.yaml")
    write_state(replace(own_state(), zookeeper_auth="/auth.yaml"))
    assert find_zookeeper("other:1") == "other:1" and ensemble.file_in_use() == "/another.yaml"
    assert find_zookeeper(None) == "127.0.0.1:2181" and ensemble.file_in_use() == "/auth.yaml"
    write_state(own_state())
    find_zookeeper(None)
    assert ensemble.file_in_use() == "", "an embedded server needs none"


def test_another_process_of_the_same_pid_is_not_ours() -> None:
    write_state(own_state(ticks_off=1))
    assert read_state() is None
    with pytest.raises(ConfigError, match="no cluster runs"):
        find_zookeeper(None)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"pid": 1}', "null"])
def test_a_damaged_file_is_no_state(folder: Path, content: str) -> None:
    (folder / "up.json").write_text(content)
    assert read_state() is None


def test_a_process_that_does_not_run_has_no_start() -> None:
    assert started_ticks(2**22 + 1) is None


@pytest.mark.parametrize(("state", "flags"), [("Z", 0x400000), ("R", 0x400004)], ids=["zombie", "exiting"])
def test_a_process_that_was_killed_has_no_start(monkeypatch: pytest.MonkeyPatch, state: str, flags: int) -> None:
    stat = f"1 (a) b) {state} 1 1 1 0 -1 {flags} " + "7 " * 40
    monkeypatch.setattr(Path, "read_bytes", lambda _: stat.encode())
    assert started_ticks(1) is None
    monkeypatch.setattr(
        Path, "read_bytes", lambda _: stat.replace(f"{state} 1 ", "S 1 ").replace(str(flags), "0").encode()
    )
    assert started_ticks(1) == 7


def test_backup_servers_are_those_of_the_same_cluster() -> None:
    assert find_backups(None) == []
    write_state(own_state())
    assert find_backups(None) == find_backups("127.0.0.1:2181") == ["ipc://@backup"]
    assert find_backups("other:1") == []


def test_jobs_are_forgotten_with_their_zookeeper_and_not_without(folder: Path) -> None:
    for name in ("backup/1", "logs"):
        (folder / name).mkdir(parents=True)
    forget_jobs(folder)
    assert (folder / "backup/1").exists(), "an ensemble of the user's still knows the jobs"
    (folder / ".zookeeper").mkdir()
    forget_jobs(folder)
    assert [path.name for path in folder.iterdir()] == ["logs"]


@pytest.mark.parametrize("home", ["relative", None])
def test_a_user_without_a_home_is_told_so(home: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_RUNTIME_DIR", FOLDER_VARIABLE, "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    if home:
        monkeypatch.setenv("HOME", home)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    for folder in (state_folder, keys_folder):
        with pytest.raises(ConfigError, match="has no home directory") as caught:
            folder()
        assert "HOME" in caught.value.remedy
