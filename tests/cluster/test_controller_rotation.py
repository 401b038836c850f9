"""Nodes in ZooKeeper while a cluster changes its keys: whose they may be, and that none stays the former's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, make_digest_acl

from riprap.codec.errors import ConfigError
from riprap.codec.trust.keys import FOLDER_VARIABLE, Authority, open_authority, own_authority
from riprap.codec.trust.rotation import follow, keep_next
from riprap.controller import paths, session
from riprap.controller.client import Client
from riprap.controller.election import try_to_lead
from riprap.controller.ownership import depose_others, give_to

OLD, NEW, OTHER = (Authority(letter * 32) for letter in (b"o", b"n", b"x"))
RUN = f"{paths.RUNS}/job-1/1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """This process's own, which holds OLD, and then NEW too."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "keys"))
    open_authority(tmp_path / "keys", OLD.secret)
    own_authority.cache_clear()
    yield tmp_path / "keys"
    own_authority.cache_clear()


def is_trusted(chroot: str) -> bool:
    try:
        session.disconnect(session.connect(chroot))
    except ConfigError as error:
        assert "belongs to others, or is open to them" in str(error)
        return False
    return True


def with_rights(chroot: str, rights: list[ACL]) -> str:
    """The root folder of that access list."""
    everybody = KazooClient(
        chroot, auth_data=[("digest", f"riprap:{one.password('zookeeper')}") for one in (OLD, NEW, OTHER)]
    )
    everybody.start()
    everybody.set_acls(paths.ROOT, rights)
    session.disconnect(everybody)
    return chroot


def test_a_folder_that_belongs_to_former_keys_alone_or_to_others_too_is_not_trusted(folder: Path, chroot: str) -> None:
    assert is_trusted(chroot)
    both, reading = session.acl_of(OLD, NEW), make_digest_acl("riprap", NEW.password("zookeeper"), read=True)
    assert not is_trusted(with_rights(chroot, both)), "nobody has told us of the other"
    keep_next(NEW.secret, folder)
    for good in (both, both[::-1], session.acl_of(NEW), session.acl_of(OLD)):
        assert is_trusted(with_rights(chroot, good))
    for bad in ([*both, *session.acl_of(OTHER)], [*both, *OPEN_ACL_UNSAFE], [both[0], reading], OPEN_ACL_UNSAFE):
        assert not is_trusted(with_rights(chroot, bad))
    assert follow(NEW.id)
    for good in (both, both[::-1], session.acl_of(NEW)):
        assert is_trusted(with_rights(chroot, good))
    assert not is_trusted(with_rights(chroot, session.acl_of(OLD))), "whoever has left could have made it"


def test_all_nodes_but_those_of_runs_are_given_away(folder: Path, chroot: str) -> None:
    early = session.connect(chroot)
    for path in (f"{paths.JOBS}/a/spec", f"{paths.AGENTS}/h", RUN):
        early.ensure_path(path)
    assert try_to_lead(early, "tcp://1", 1, lambda: None)
    keep_next(NEW.secret, folder)
    both = session.open_client(chroot)
    give_to(both, OLD, NEW)
    early.create(f"{paths.JOBS}/b", b"")  # as who has not heard of the change does
    give_to(both, NEW)
    for path in (paths.ROOT, paths.JOBS, f"{paths.JOBS}/a/spec", f"{paths.JOBS}/b", f"{paths.AGENTS}/h", paths.RUNS):
        assert both.get_acls(path)[0] == session.acl_of(NEW), path
    assert both.get_acls(paths.LEADER)[0] == session.acl_with_readers(NEW)
    assert both.get_acls(RUN)[0] == session.acl_of(OLD)
    with pytest.raises(NoAuthError):
        early.get(paths.LEADER)
    session.learn(early)
    assert early.get(paths.LEADER) and early.default_acl == session.acl_of(OLD), "it goes by its own until it follows"
    assert follow(NEW.id)
    session.learn(early)
    assert early.default_acl == session.acl_of(NEW)
    session.disconnect(early)
    session.disconnect(both)


def test_who_does_not_have_the_leaders_keys_is_told_what_to_do(folder: Path, chroot: str) -> None:
    leading = session.connect(chroot)
    leading.create(paths.LEADER, b'{"endpoint": "tcp://127.0.0.1:1", "keys": "%s"}' % OTHER.id.encode())
    with (
        Client(chroot, timeout_s=0.3) as client,
        pytest.raises(ConfigError, match="has other keys than those in") as it,
    ):
        client.jobs()
    assert "riprap join" in it.value.remedy
    session.disconnect(leading)


def test_nobody_leads_any_more_with_keys_that_are_former_now(folder: Path, chroot: str) -> None:
    leading, standing_by = session.connect(chroot), session.connect(chroot)
    term = try_to_lead(leading, "tcp://1", 1, lambda: None)
    assert term is not None
    keep_next(NEW.secret, folder)
    both = session.open_client(chroot)
    depose_others(both, OLD)
    assert try_to_lead(leading, "tcp://1", 1, lambda: None) == term, "it has those keys"
    give_to(both, OLD, NEW)
    depose_others(both, NEW)
    for former in (leading, standing_by):
        with pytest.raises(NoAuthError):
            try_to_lead(former, "tcp://2", 2, lambda: None)
    assert follow(NEW.id)
    later = try_to_lead(both, "tcp://3", 3, lambda: None)
    assert later is not None and later > term
    depose_others(both, NEW)
    assert try_to_lead(both, "tcp://3", 3, lambda: None) == later
    for one in (leading, standing_by, both):
        session.disconnect(one)
