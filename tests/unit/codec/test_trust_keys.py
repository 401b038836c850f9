"""Keys: the same for all who hold the secret, different for every role and job, and readable by their owner alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import zmq

from riprap.codec.errors import ConfigError
from riprap.codec.ids import fence_of
from riprap.codec.trust.keys import (
    AGENT,
    BACKUP,
    CLIENT,
    CONTROLLER,
    Authority,
    WorkerKeys,
    keys_folder,
    open_authority,
)  # fmt: skip

ROLES = (CONTROLLER, AGENT, BACKUP, CLIENT)


def test_who_holds_the_secret_has_the_same_keys() -> None:
    one, other = Authority(b"s" * 32), Authority(b"s" * 32)
    assert [one.pair(role) for role in ROLES] == [other.pair(role) for role in ROLES]
    assert one.life("words-1a/sink.0", 1) == other.life("words-1a/sink.0", 1)
    assert one.password("zookeeper") == other.password("zookeeper")
    assert one.pair(AGENT).public == zmq.curve_public(one.pair(AGENT).secret)


def test_no_two_roles_or_lives_or_secrets_share_a_key() -> None:
    made = [Authority(secret).pair(role) for secret in (b"s" * 32, b"t" * 32) for role in ROLES]
    names = ("words-1a/sink.0", "words-1b/sink.0", "words-1a/sink.1", "controller", "words")
    lives = [fence_of(attempt, incarnation) for attempt in (1, 2) for incarnation in (1, 2, 11)]
    made += [Authority(b"s" * 32).life(name, fence) for name in names for fence in lives]
    halves = [half for pair in made for half in pair]
    assert len(set(halves)) == len(halves)


def test_what_a_worker_is_given_holds_no_other_key() -> None:
    authority = Authority(b"s" * 32)
    keys = WorkerKeys(authority.life("words-1a/sink.0", 7), (authority.pair(BACKUP).public,))
    assert WorkerKeys.read(keys.texts()) == keys
    assert keys.texts() == [*authority.life("words-1a/sink.0", 7), authority.pair(BACKUP).public]


@pytest.mark.parametrize("texts", [None, [], [b"x" * 40] * 2, [b"x" * 39] * 3, ["x" * 40] * 3])
def test_texts_that_are_no_keys_are_refused(texts: object) -> None:
    with pytest.raises(ValueError, match="keys"):
        WorkerKeys.read(texts)


def test_a_secret_that_everybody_knows_is_none(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir(mode=0o700)
    (tmp_path / "keys" / "secret").touch(mode=0o600)
    (tmp_path / "keys" / "secret").write_bytes(bytes(32))
    with pytest.raises(ConfigError, match="holds no secret"):
        open_authority(tmp_path / "keys")


def test_the_secret_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "keys"
    first = open_authority(folder)
    assert open_authority(folder).pair(AGENT) == first.pair(AGENT)
    assert folder.stat().st_mode & 0o777 == 0o700 and (folder / "secret").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == ["secret"]


def test_many_that_make_it_at_once_agree(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from riprap.codec.trust.keys import open_authority\n"
        "sys.stdin.read(); print(open_authority(Path(sys.argv[1])).pair('agent').public)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "keys")]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    for process in running:
        assert process.stdin is not None
        process.stdin.close()
    said = set()
    for process in running:
        assert process.stdout is not None
        said.add(process.stdout.read())
        assert process.wait() == 0
    assert len(said) == 1


@pytest.mark.parametrize(("name", "mode"), [("", 0o750), ("secret", 0o640), ("secret", 0o602)])
def test_what_others_may_open_is_not_used(tmp_path: Path, name: str, mode: int) -> None:
    open_authority(tmp_path / "keys")
    (tmp_path / "keys" / name).chmod(mode)
    with pytest.raises(ConfigError, match="may be opened by others") as caught:
        open_authority(tmp_path / "keys")
    assert "chmod" in caught.value.remedy


def test_neither_is_what_belongs_to_others(tmp_path: Path) -> None:
    open_authority(tmp_path / "keys")
    os.chown(tmp_path / "keys" / "secret", 65534, -1)
    with pytest.raises(ConfigError, match="belongs to user 65534"):
        open_authority(tmp_path / "keys")


def test_a_link_and_a_torn_file_are_refused(tmp_path: Path) -> None:
    open_authority(tmp_path / "real")
    (tmp_path / "keys").mkdir(mode=0o700)
    (tmp_path / "keys/secret").symlink_to(tmp_path / "real/secret")
    with pytest.raises(ConfigError, match="cannot be used"):
        open_authority(tmp_path / "keys")
    (tmp_path / "real/secret").write_bytes(b"short")
    with pytest.raises(ConfigError, match="holds no secret of 32 bytes"):
        open_authority(tmp_path / "real")


def test_the_folder_is_named_or_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIPRAP_KEYS", "/somewhere")
    assert keys_folder() == Path("/somewhere")
    monkeypatch.delenv("RIPRAP_KEYS")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/conf")
    assert keys_folder() == Path("/conf/riprap")
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", "/users/ada")
    assert keys_folder() == Path("/users/ada/.config/riprap")
