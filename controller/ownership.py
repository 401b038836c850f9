"""Gives the nodes of a cluster in ZooKeeper to the holders of other keys, while others use them."""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from riprap.codec.errors import RiprapError
from riprap.codec.trust.keys import Authority
from riprap.controller import paths, session
from riprap.controller.election import Leader


def give_to(client: KazooClient, *owners: Authority) -> None:
    """Have all nodes belong to these alone. The session must have the identities of whom they belong to now.

    From the top: once a folder is theirs, nobody else adds to it, so that no node is missed that is read after that.
    Runs on the ensemble keep the keys with which they began. RiprapError when ZooKeeper does not do it.
    """
    waiting = [paths.ROOT]
    while waiting:
        path = waiting.pop()
        rights = session.acl_with_readers if path == paths.LEADER else session.acl_of
        try:
            client.retry(client.set_acls, path, rights(*owners))
            if path != paths.RUNS:
                waiting += [f"{path}/{name}" for name in client.retry(client.get_children, path)]
        except NoNodeError:
            continue  # gone meanwhile
        except KazooException as error:
            raise _refused(path, error) from error


def depose_others(client: KazooClient, owner: Authority) -> None:
    """Depose every leader that has other keys, a controller of another host that stood by, say. RiprapError as above.

    It cannot come back, and its successor has a higher term, so that nobody listens to it any more.
    """
    try:
        client.retry(client.set_acls, paths.ROOT, session.acl_of(owner))
        data, stat = client.retry(client.get, paths.LEADER)
        if Leader.read(data).keys != owner.id:
            client.delete(paths.LEADER, stat.version)
    except NoNodeError:
        return  # whoever is elected now has our keys
    except KazooException as error:
        raise _refused(paths.ROOT, error) from error


def _refused(path: str, error: KazooException) -> RiprapError:
    return RiprapError(f"ZooKeeper does not give {path} to other keys: {error!r}", "give the command again")
