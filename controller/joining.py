"""The side of a host that joins a cluster: gets the cluster's secret from the leader, with a token."""

from __future__ import annotations

from typing import NamedTuple

import zmq

from riprap.codec.errors import ConfigError, FrameError, RiprapError
from riprap.codec.trust.curve import call_with
from riprap.codec.trust.reader import ReaderKeys
from riprap.codec.trust.tokens import REMEDY, Token
from riprap.controller import messages

JOIN_TIMEOUT_S = 10.0


class Joined(NamedTuple):
    """The leader's answer to a host that joins."""

    secret: bytes
    """Empty for a reader."""
    reader: ReaderKeys | None
    zookeeper: str
    secured: bool
    """True when it takes a file of `--zookeeper-auth` to enter that ensemble."""
    former: tuple[str, ...]
    """The ids of the keys that the cluster had before."""


def join(token: Token, timeout_s: float = JOIN_TIMEOUT_S) -> Joined:
    """Ask the leader that issued the token; RiprapError when it does not answer, as to a worthless token;
    ConfigError when the token names no address."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as caller:
        caller.setsockopt(zmq.LINGER, 0)
        caller.setsockopt(zmq.MAXMSGSIZE, messages.MESSAGE_BYTES_MAX)
        call_with(caller, token.pair, token.controller)
        try:
            caller.connect(token.endpoint)
        except zmq.ZMQError as error:
            raise ConfigError(f"the token was changed on its way: {error}", REMEDY) from error
        caller.send(messages.pack({"type": "join", "id": 1}))
        if caller.poll(int(timeout_s * 1000)):
            return _read(caller.recv())
    raise RiprapError(
        f"the controller at {token.endpoint} did not answer within {timeout_s:g} s: it does not run there any more, is"
        " not reached from here, or the token has expired or was revoked",
        REMEDY,
    )


def _read(data: bytes) -> Joined:
    try:
        answer = messages.mapping(messages.unpack(data), "result")
        secret, zookeeper = answer.get("secret", b""), messages.text(answer, "zookeeper")
        reader = ReaderKeys.read(answer["reader"]) if "reader" in answer else None
        if not isinstance(secret, bytes) or bool(secret) == bool(reader):
            raise FrameError("an answer without keys")
    except (FrameError, ValueError) as error:
        raise RiprapError(f"the controller's answer cannot be used: {error}", REMEDY) from error
    return Joined(secret, reader, zookeeper, answer.get("secured") is True, tuple(map(str, answer.get("former", ()))))
