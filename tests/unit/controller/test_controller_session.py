"""A session with ZooKeeper that is lost while its folders are made."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.exceptions import InvalidACLError, SessionExpiredError

from riprap.codec.errors import ConfigError
from riprap.controller import session


class Losing:
    """A client whose session is lost so many times."""

    def __init__(self, losses: int) -> None:
        self.chroot, self.losses, self.made = "", losses, []

    def ensure_path(self, path: str) -> None:
        if self.losses:
            self.losses -= 1
            raise SessionExpiredError
        self.made.append(path)


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_check_ours", lambda client, hosts: None)
    monkeypatch.setattr(session, "RETRY_S", 0.0)


def test_another_session_makes_what_the_lost_one_did_not() -> None:
    client: Any = Losing(3)
    session.make_folders(client, "host:1", "/a", "/b")
    assert client.made == ["/a", "/b"]


def test_sessions_that_are_lost_again_and_again_end_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CONNECT_TIMEOUT_S", -1.0)
    client: Any = Losing(3)
    with pytest.raises(ConfigError, match="SessionExpiredError"):
        session.make_folders(client, "host:1", "/a")


def test_a_refusal_is_told_at_once() -> None:
    class Refusing(Losing):
        def ensure_path(self, path: str) -> None:
            raise InvalidACLError

    client: Any = Refusing(0)
    with pytest.raises(ConfigError, match="refuses to hold"):
        session.make_folders(client, "host:1", "/a")


def test_an_interrupt_before_the_connection_has_begun_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(handler: session.Handler) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session.Handler, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.open_client("127.0.0.1:1")
