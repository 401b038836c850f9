"""Tokens with which another host gets the cluster's secret: short-lived, and worth nothing once they are revoked.

A token names where the leader listens, its public key, and a key of the token's own, which the leader's doorkeeper lets
in until the token has expired. The secret then passes encrypted. Tokens live in the leader's memory: who leads after it
knows none of them.
"""

from __future__ import annotations

import base64
import binascii
import threading
import time
from typing import NamedTuple

import msgpack
import zmq
from zmq.utils import z85

from riprap.codec.errors import ConfigError
from riprap.codec.trust.keys import KeyPair

JOINER = "joiner"
SECRET = "secret"  # noqa: S105 - what most tokens are good for
PREFIX = "riprap-join-"
TOKENS_MAX = 1000
REMEDY = "make a new one with `riprap token` on a host of the cluster"


class Token(NamedTuple):
    """The content of a token's text."""

    endpoint: str
    controller: bytes
    secret: bytes

    @classmethod
    def read(cls, text: str) -> Token:
        """Read a token; ConfigError when the text is none."""
        try:
            if not text.startswith(PREFIX):
                raise ValueError
            fields = msgpack.unpackb(base64.urlsafe_b64decode(text.removeprefix(PREFIX)))
            token = cls(*fields)
            if [type(field) for field in token] != [str, bytes, bytes] or {*map(len, token[1:])} != {40}:
                raise ValueError
            for key in (token.controller, token.secret):
                zmq.curve_public(key)  # refuses what is no Z85
        except (ValueError, TypeError, binascii.Error, msgpack.UnpackException, zmq.ZMQError) as error:
            raise ConfigError("that is no token, or not the whole of one", REMEDY) from error
        return token

    def text(self) -> str:
        """One word, to be copied to the other host."""
        return PREFIX + base64.urlsafe_b64encode(msgpack.packb(list(self))).decode()

    @property
    def pair(self) -> KeyPair:
        """The key that is let in."""
        return KeyPair(zmq.curve_public(self.secret), self.secret)


class Tokens:
    """The tokens that a leader has issued, each with its grant. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._issued: dict[bytes, tuple[float, str]] = {}

    def issue(self, lifetime_s: float, gets: str) -> bytes:
        """The secret half of a new key, which is let in for `lifetime_s`; ConfigError when there are too many.

        `gets`: SECRET or READER.
        """
        public, secret = zmq.curve_keypair()
        with self._lock:
            now = time.monotonic()
            self._issued = {key: token for key, token in self._issued.items() if token[0] > now}
            if len(self._issued) >= TOKENS_MAX:
                raise ConfigError(f"there are {TOKENS_MAX} tokens already", "revoke them: riprap token --revoke")
            self._issued[z85.decode(public)] = now + lifetime_s, gets
        return bytes(secret)

    def gets(self, key: bytes) -> str:
        """The grant of a key's holder (32 bytes): SECRET or READER; empty when the holder may not come in."""
        with self._lock:
            until, gets = self._issued.get(key, (0.0, ""))
        return gets if until > time.monotonic() else ""

    def revoke(self) -> int:
        """Forget all of them; returns their number."""
        with self._lock:
            count = len(self._issued)
            self._issued.clear()
        return count
