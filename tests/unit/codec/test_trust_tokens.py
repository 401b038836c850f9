"""Tokens: whole or refused, and let in only while they are worth something."""

from __future__ import annotations

import base64
from pathlib import Path

import msgpack
import pytest
import zmq
from zmq.utils import z85

from riprap.codec.errors import ConfigError, FrameError
from riprap.codec.trust.keys import AGENT, CLIENT, CONTROLLER, Authority, adopt, open_authority
from riprap.codec.trust.reader import READER, ReaderKeys, adopt_reader, own_reader
from riprap.codec.trust.tokens import JOINER, PREFIX, SECRET, TOKENS_MAX, Token, Tokens
from riprap.controller.joining import join
from riprap.controller.welcome import QUESTIONS, Welcome

OURS = Authority(b"s" * 32)
TOKEN = Token("tcp://10.0.0.7:4711", OURS.pair(CONTROLLER).public, OURS.pair("a token").secret)


def test_a_token_is_one_word_that_reads_back() -> None:
    text = TOKEN.text()
    assert Token.read(text) == TOKEN and len(text.split()) == 1
    assert TOKEN.pair == OURS.pair("a token")


@pytest.mark.parametrize(
    "text",
    [
        "", "riprap", TOKEN.text()[:-9], TOKEN.text()[8:], PREFIX + "A", PREFIX + "ä",
        PREFIX + base64.urlsafe_b64encode(msgpack.packb(["tcp://a:1", b"x" * 40])).decode(),
        PREFIX + base64.urlsafe_b64encode(msgpack.packb(["tcp://a:1", b"x" * 40, b"\x7f" * 40])).decode(),
        PREFIX + base64.urlsafe_b64encode(msgpack.packb([1, "x" * 40, b"y" * 40])).decode(),
        TOKEN._replace(controller=b"\x7f" * 40).text(),
    ],
)  # fmt: skip
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no token") as caught:
        Token.read(text)
    assert "riprap token" in caught.value.remedy


@pytest.mark.parametrize("endpoint", ["tcp//10.0.0.7:4711", "tcq://10.0.0.7:4711", "tcp:\0", ""])
def test_a_token_whose_address_was_changed_is_refused(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="changed on its way") as caught:
        join(TOKEN._replace(endpoint=endpoint), timeout_s=0.01)
    assert "riprap token" in caught.value.remedy


def public(secret: bytes) -> bytes:
    return bytes(z85.decode(zmq.curve_public(secret)))


def test_a_token_is_let_in_until_it_has_expired_or_was_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    tokens = Tokens()
    short, long = tokens.issue(10, SECRET), tokens.issue(60, READER)
    assert [tokens.gets(key) for key in (public(short), public(long), b"x" * 32)] == [SECRET, READER, ""]
    now = 111.0
    assert (tokens.gets(public(short)), tokens.gets(public(long))) == ("", READER)
    assert tokens.revoke() == 2 and tokens.gets(public(long)) == ""


def test_the_number_of_tokens_is_bounded() -> None:
    tokens = Tokens()
    for _ in range(TOKENS_MAX):
        tokens.issue(60, SECRET)
    with pytest.raises(ConfigError, match="1000 tokens already"):
        tokens.issue(60, SECRET)


def test_each_role_may_do_its_own_things_alone() -> None:
    welcome = Welcome(OURS, "")
    token = Token.read(welcome.answer(CLIENT, {"type": "token", "lifetime_s": 60}, "tcp://10.0.0.7:4711"))
    joiner = welcome.admits(public(token.secret))
    may = {
        kind: {role for role in (AGENT, CLIENT, READER, joiner, "") if welcome.may(role, kind)}
        for kind in ("report", "join", "submit", "cancel", "kill", "forget", "token", "revoke", "nonsense", *QUESTIONS)
    }
    assert {frozenset(may.pop(kind)) for kind in QUESTIONS} == {frozenset({CLIENT, READER})}
    assert may.pop("report") == {AGENT} and may.pop("join") == {joiner}
    assert set(map(frozenset, may.values())) == {frozenset({CLIENT})}
    welcome.answer(CLIENT, {"type": "revoke"}, "")
    assert not welcome.may(joiner, "join"), "not even on a connection that it has"


def test_a_controller_lets_a_token_in_as_one_that_joins() -> None:
    welcome = Welcome(OURS, "10.0.0.7:2181")
    text = welcome.answer(CLIENT, {"type": "token", "lifetime_s": 60}, "tcp://10.0.0.7:4711")
    token = Token.read(text)
    assert (token.endpoint, token.controller) == ("tcp://10.0.0.7:4711", OURS.pair(CONTROLLER).public)
    assert welcome.admits(public(token.secret)).startswith(JOINER)
    assert welcome.admits(z85.decode(OURS.pair(AGENT).public)) == AGENT
    told = {"secret": b"s" * 32, "former": [], "zookeeper": "10.0.0.7:2181", "secured": False}
    assert welcome.answer(welcome.admits(public(token.secret)), {"type": "join"}, "") == told
    assert welcome.answer(CLIENT, {"type": "revoke"}, "") == 1 and welcome.admits(public(token.secret)) == ""


@pytest.mark.parametrize("lifetime_s", [0, -1, 1 << 40, "60", None])
def test_a_token_without_a_sensible_end_is_not_made(lifetime_s: object) -> None:
    with pytest.raises(FrameError):
        Welcome(OURS, "").answer(CLIENT, {"type": "token", "lifetime_s": lifetime_s}, "")


def test_a_secret_is_adopted_once_and_never_in_place_of_another(tmp_path: Path) -> None:
    adopt(b"n" * 32, tmp_path / "keys")
    adopt(b"n" * 32, tmp_path / "keys")
    assert open_authority(tmp_path / "keys").secret == b"n" * 32
    with pytest.raises(ConfigError, match="is that of another cluster"):
        adopt(b"o" * 32, tmp_path / "keys")
    assert open_authority(tmp_path / "keys").secret == b"n" * 32


def test_a_token_for_a_reader_gets_a_readers_keys_and_no_secret() -> None:
    welcome = Welcome(OURS, "10.0.0.7:2181")
    token = Token.read(welcome.answer(CLIENT, {"type": "token", "lifetime_s": 60, "reader": True}, "tcp://10.0.0.7:1"))
    joiner = str(welcome.admits(public(token.secret)))
    told = welcome.answer(joiner, {"type": "join"}, "")
    keys = ReaderKeys.read(told["reader"])
    assert "secret" not in told and keys == ReaderKeys.of(OURS)
    assert welcome.admits(z85.decode(keys.own.public)) == READER
    assert OURS.secret not in msgpack.packb(told) and OURS.password("zookeeper") not in str(told)
    welcome.answer(CLIENT, {"type": "revoke"}, "")
    with pytest.raises(FrameError, match="just expired"):
        welcome.answer(joiner, {"type": "join"}, "")


def test_a_readers_keys_are_kept_for_its_user_alone_and_beside_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, keys = tmp_path / "keys", ReaderKeys.of(OURS)
    monkeypatch.setenv("RIPRAP_KEYS", str(folder))
    own_reader.cache_clear()
    adopt_reader(ReaderKeys.of(Authority(b"o" * 32)), folder)
    adopt_reader(keys, folder)
    assert own_reader() == keys and (folder / "reader").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="are a reader's"):
        open_authority(folder)
    own_reader.cache_clear()
    (folder / "reader").write_bytes(msgpack.packb(["no", "keys"]))
    with pytest.raises(ConfigError, match="cannot be used: three keys"):
        own_reader()
    (folder / "reader").chmod(0o640)
    with pytest.raises(ConfigError, match="may be opened by others"):
        own_reader()
    adopt(b"n" * 32, folder)
    assert own_reader() is None, "who holds all keys needs none of a reader"
    with pytest.raises(ConfigError, match="holds all keys"):
        adopt_reader(keys, folder)
