"""The peers of a controller, and the way in which another host becomes one."""

from __future__ import annotations

from typing import Any

from riprap.codec.errors import FrameError, RiprapError
from riprap.codec.trust.doorkeeper import roles_of
from riprap.codec.trust.keys import AGENT, CLIENT, CONTROLLER, EVERYBODYS, FOLDER_VARIABLE, OFF, Authority
from riprap.codec.trust.reader import READER, ReaderKeys
from riprap.codec.trust.rotation import keyring
from riprap.codec.trust.tokens import JOINER, SECRET, Token, Tokens
from riprap.controller import ensemble, messages
from riprap.controller.messages import Message

LIFETIME_S_MAX = 24 * 3600
REQUESTS = ("token", "revoke", "join")
QUESTIONS = ("status", "jobs", "list", "agents")
"""The requests that readers may make."""


class Welcome:
    """The roles of a controller's peers, and the tokens that it has issued."""

    def __init__(self, authority: Authority, zookeeper: str) -> None:
        self._authority, self._zookeeper = authority, zookeeper
        self._role = roles_of(authority, AGENT, CLIENT, READER)
        self._tokens = Tokens()

    def admits(self, key: bytes) -> str:
        """The role of a key's holder; called by the doorkeeper."""
        return self._role(key) or (f"{JOINER} {key.hex()}" if self._tokens.gets(key) else "")

    def may(self, role: str, kind: str) -> bool:
        """True when a peer let in under that role may send messages of that kind."""
        role, _, token = role.partition(" ")
        if role == JOINER and not self._tokens.gets(bytes.fromhex(token)):
            return False  # it has expired, or was revoked, since its holder came
        if role == READER:
            return kind in QUESTIONS
        return {"report": AGENT, "join": JOINER}.get(kind, CLIENT) == role

    def answer(self, role: str, message: Message, endpoint: str) -> Any:
        """The result of one of `REQUESTS` of that role, at the leader that listens at `endpoint`; FrameError."""
        if message["type"] == "join":
            return self._keys_for(role) | {"zookeeper": self._zookeeper, "secured": bool(ensemble.file_in_use())}
        if message["type"] == "revoke":
            return self._tokens.revoke()
        if self._authority.secret == EVERYBODYS:
            raise RiprapError("security is off here, so there are no keys to be handed out", f"{FOLDER_VARIABLE}={OFF}")
        lifetime_s = messages.count(message, "lifetime_s")
        if not 1 <= lifetime_s <= LIFETIME_S_MAX:
            raise FrameError(f"lifetime_s must be 1 to {LIFETIME_S_MAX}")
        secret = self._tokens.issue(lifetime_s, READER if message.get("reader") is True else SECRET)
        return Token(endpoint, self._authority.pair(CONTROLLER).public, secret).text()

    def _keys_for(self, joiner: str) -> dict[str, Any]:
        """The keys that the token of `joiner` gives."""
        match self._tokens.gets(bytes.fromhex(joiner.partition(" ")[2])):
            case "":
                raise FrameError("the token has just expired")
            case gets if gets == READER:
                return {"reader": ReaderKeys.of(self._authority).fields()}
        return {"secret": self._authority.secret, "former": [authority.id for authority in keyring().former]}
