"""A folder of keys passes from one secret to the next, whole at every moment, and a process follows when it is told."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.codec.trust import rotation
from riprap.codec.trust.keys import FOLDER_VARIABLE, Authority, open_authority, own_authority
from riprap.codec.trust.rotation import (
    FORMER_MAX,
    adopt_after,
    drop_next,
    follow,
    keep_next,
    keyring,
    promote,
    promoted_since,
)

OLD, NEW, LATER = (Authority(letter * 32) for letter in (b"o", b"n", b"l"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """This process's own, which holds OLD."""
    folder = tmp_path / "keys"
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    open_authority(folder, OLD.secret)
    own_authority.cache_clear()
    assert own_authority().id == OLD.id
    yield folder
    own_authority.cache_clear()


def ids(authorities: Iterable[Authority]) -> list[str]:
    return [authority.id for authority in authorities]


def test_an_id_tells_secrets_apart_and_is_no_key() -> None:
    assert OLD.id == Authority(OLD.secret).id != NEW.id and len(OLD.id) == 32
    assert OLD.id not in (OLD.secret.hex(), OLD.password("id"), OLD.pair("id").public.decode())


def test_a_secret_to_come_is_not_used_before_it_is_promoted(folder: Path) -> None:
    keep_next(LATER.secret, folder)
    keep_next(NEW.secret, folder)
    assert not promote(LATER.id, folder), "another has taken its place"
    assert own_authority().id == OLD.id == open_authority(folder).id
    assert ids(keyring().valid) == [OLD.id, NEW.id] and not keyring().former
    assert promote(NEW.id, folder) and promote(NEW.id, folder), "and again without effect"
    assert open_authority(folder).id == NEW.id and not (folder / "next").exists()
    assert ids(keyring().valid) == [OLD.id, NEW.id], "a process goes by its own until it is told"
    assert follow(NEW.id) and own_authority().id == NEW.id
    assert (ids(keyring().coming), ids(keyring().former)) == ([], [OLD.id])
    keep_next(NEW.secret, folder)
    assert not (folder / "next").exists(), "it is in use"


def test_a_process_follows_its_own_and_what_is_to_come_and_no_other(folder: Path) -> None:
    assert follow(OLD.id) and not follow(NEW.id) and not follow("")
    keep_next(NEW.secret, folder)
    assert follow(OLD.id) and open_authority(folder).id == OLD.id, "whoever leads under the old ones changes nothing"
    assert not follow(LATER.id)
    assert follow(NEW.id) and open_authority(folder).id == NEW.id
    assert not follow(OLD.id), "never back"
    drop_next(folder)
    drop_next(folder)


def test_formers_are_bounded_and_the_newest_is_first(folder: Path) -> None:
    made = [Authority(bytes([number]) * 32) for number in range(1, FORMER_MAX + 4)]
    for one in made:
        keep_next(one.secret, folder)
        assert follow(one.id)
    assert ids(keyring().former) == ids(made[-2 : -2 - FORMER_MAX : -1])
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("writes", range(3))
def test_a_promotion_that_is_killed_is_done_again(folder: Path, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """After so many of its writes; whatever was read meanwhile could be used."""
    keep_next(NEW.secret, folder)
    with monkeypatch.context() as patch:
        patch.setattr(rotation, "replace_private", dying_after(writes, rotation.replace_private))
        patch.setattr(Path, "unlink", dying_after(2, Path.unlink) if writes == 2 else Path.unlink)
        with pytest.raises(Killed):
            promote(NEW.id, folder)
    assert open_authority(folder).id == (NEW.id if writes == 2 else OLD.id)
    assert {OLD.id, NEW.id} == set(ids(keyring().all)) and keyring().own.id == OLD.id
    assert follow(NEW.id)
    assert (ids(keyring().all), ids(keyring().former)) == ([NEW.id, OLD.id], [OLD.id])


class Killed(BaseException):
    """As a kill, it is caught by nobody."""


def dying_after(times: int, function: Callable[..., None]) -> Callable[..., None]:
    left = [times]

    def call(*arguments: object, **options: object) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        function(*arguments, **options)

    return call


def test_what_was_promoted_is_told_from_what_was_replaced_by_hand(folder: Path) -> None:
    assert promoted_since(OLD.id, folder) == OLD.id
    keep_next(NEW.secret, folder)
    assert promoted_since(OLD.id, folder) == OLD.id
    promote(NEW.id, folder)
    assert promoted_since(OLD.id, folder) == NEW.id == promoted_since(NEW.id, folder)
    keep_next(LATER.secret, folder)
    promote(LATER.id, folder)
    assert promoted_since(OLD.id, folder) == LATER.id == promoted_since(NEW.id, folder)
    assert promoted_since("f" * 32, folder) == "f" * 32
    (folder / "secret").unlink()
    assert promoted_since(OLD.id, folder) == OLD.id


def test_a_process_whose_folder_was_replaced_goes_by_its_own_alone(folder: Path) -> None:
    (folder / "secret").write_bytes(NEW.secret)
    assert ids(keyring().all) == [OLD.id]


def test_a_host_of_the_cluster_joins_anew_and_one_of_another_does_not(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="that of another cluster"):
        adopt_after([LATER.id], NEW.secret, folder)
    adopt_after([LATER.id, OLD.id], NEW.secret, folder)
    assert open_authority(folder).id == NEW.id and ids(keyring().coming) == [NEW.id]
    adopt_after([], LATER.secret, tmp_path / "empty")
    assert open_authority(tmp_path / "empty").id == LATER.id


@pytest.mark.parametrize("file", ["next", "former"])
def test_files_that_others_may_open_or_that_are_torn_are_not_used(folder: Path, file: str) -> None:
    (folder / file).write_bytes(b"x" * 31)
    os.chmod(folder / file, 0o600)
    with pytest.raises(ConfigError, match=f"{file} holds no secrets"):
        keyring()
    os.chmod(folder / file, 0o640)
    with pytest.raises(ConfigError, match="may be opened by others"):
        keyring()
