"""A part of the user's ZooKeeper for one attempt of a `riprap run`, so that clusters beside it and it do not meet."""

from __future__ import annotations

from kazoo.exceptions import KazooException

from riprap.codec.errors import ConfigError, RiprapError
from riprap.controller import paths, session
from riprap.engine.services.cluster import quiet_kazoo


class OwnPart:
    """The folder /riprap/runs/RUN/ATTEMPT of an ensemble, from `make` until `remove`.

    `run` names the job apart from all others; `attempt` keeps what is left of a launcher that was killed apart.
    """

    def __init__(self, zookeeper: str, run: str, attempt: int) -> None:
        self._zookeeper = zookeeper.rstrip("/")
        self._run = paths.run(run)
        self._path = f"{self._run}/{attempt}"
        self._made = False

    @property
    def connect_string(self) -> str:
        """The connect string for the services and clients of the run."""
        return f"{self._zookeeper}{self._path}"

    def make(self) -> None:
        """Make it, without what earlier attempts left; ConfigError when ZooKeeper does not answer or refuses."""
        quiet_kazoo()
        client = session.open_client(self._zookeeper)
        try:
            session.make_folders(client, self._zookeeper, paths.RUNS)
            client.delete(self._run, recursive=True)
            client.ensure_path(self._path)
            self._made = True
        except KazooException as error:
            raise ConfigError(
                f"ZooKeeper at {self._zookeeper} refuses to hold {self._path}: {error!r}",
                "let its access control admit us, or create the chroot that you name (HOST:PORT/PATH)",
            ) from error
        finally:
            session.disconnect(client)

    def remove(self) -> None:
        """Leave nothing behind; RiprapError when it cannot be removed now. No effect when it was not made."""
        if not self._made:
            return
        client = session.open_client(self._zookeeper)
        try:
            client.delete(self._run, recursive=True)
        except KazooException as error:
            raise RiprapError(f"{self._run} is left in ZooKeeper: {error!r}", "delete that folder") from error
        finally:
            session.disconnect(client)
