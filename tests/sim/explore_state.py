"""Copies of workers and of the controller, and names of their states: equal names, equal behaviour.

A state's name is made of all that an object holds, but for what refers to other objects that are named too, and for
statistics, which nothing is decided by. What is added to a class later is part of it.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from explore_controller import Controller
from explore_worker import Grave, Node

from riprap.engine.schemes.barrier import Cut, Line

Actor = Node | Grave | Controller
REFERENCES: dict[str, frozenset[str]] = {
    "task": frozenset({
        "layout", "port", "operator", "outlet", "pace", "reader", "journal", "threads", "progress", "scheme", "_inputs",
        "_replies", "_closer", "_answers", "_on_take", "_may_come_next", "_ahead",
    }),
    "answers": frozenset(("_layout", "_port", "_progress")),
    "scheme": frozenset({"bench", "_chain"}),
    "chain": frozenset({"_state", "_copies"}),
    "copies": frozenset({"_state"}),
    "receipts": frozenset({"_port"}),
    "outlet": frozenset(("layout", "port", "progress", "links", "scheme", "on_put", "_files", "_forward", "_back")),
    "link": frozenset({"joint", "to"}),
    "links": frozenset({"wire", "window"}),
    "controller": frozenset({"out", "coordinator"}),
    "coordinator": frozenset({"pending"}),
}  # fmt: skip
STATISTICS = frozenset(("items", "lost", "_recovery", "duplicates", "fenced", "replayed", "overruns", "_stands_by"))


def copied(actor: Actor) -> bytes:
    """From which `pickle.loads` makes another one."""
    return pickle.dumps(actor, pickle.HIGHEST_PROTOCOL)


def named(actor: Actor) -> bytes:
    """The name of its state."""
    file = io.BytesIO()
    pickler = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL)
    pickler.fast = True  # without regard to which of its parts are the same object
    pickler.dump(list(_parts(actor)))
    return blake2b(file.getbuffer(), digest_size=16).digest()


def _parts(actor: Actor) -> Iterator[Any]:
    if isinstance(actor, Controller):
        yield _held("controller", actor)
        pending = actor.coordinator.pending
        yield _held("coordinator", actor.coordinator)
        yield (pending.number, sorted(pending.saved)) if pending is not None else None
    elif isinstance(actor, Grave):
        yield from ("grave", actor.at, actor.life, actor.disk, actor.announced)
    else:
        yield from ("node", actor.at, actor.life, actor.disk, actor.announced, actor.unsaved, actor.told)
        yield actor.saves, actor.durable, actor.rings_in
        yield from _parts_of_links(actor)
        yield from _parts_of_task(actor)


def _parts_of_links(node: Node) -> Iterator[Any]:
    links = node.links
    yield _held("links", links)
    yield sorted(links._incarnations.items())
    yield sorted(links._up)
    for place, out in sorted(links._out.items()):
        yield place, out.sent, out.acked, list(out.kept)
    for place, link in sorted(links._in.items()):
        yield place, link.received, link.safe, link.acked, link.asked


def _parts_of_task(node: Node) -> Iterator[Any]:
    task = node.task
    scheme, outlet = task.scheme, task.outlet
    yield node.membership.revision
    yield _held("task", task)
    yield list(task._ahead.entries)
    yield _held("answers", task._answers)
    yield _held("scheme", scheme)
    yield _held("chain", scheme._chain)
    yield _held("copies", scheme._chain._copies)
    yield _held("receipts", scheme.bench.receipts)
    yield _held("outlet", outlet)
    for key, link in outlet.links.items():
        yield key, _held("link", link), any(block is link.last for block in link.waiting)
    yield from (task.progress.pack(), sorted((link, heard.pack()) for link, heard in task.progress.heard.items()))
    yield task.operator
    yield (task.reader.epoch, task.reader.position) if task.reader is not None else None
    yield (task.journal.last, task.journal.pending) if task.journal is not None else None


def _held(what: str, thing: Any) -> list[tuple[str, Any]]:
    """All that it holds, but for references and statistics."""
    left_out = REFERENCES[what] | STATISTICS
    return [(name, _plain(value)) for name, value in sorted(vars(thing).items()) if name not in left_out]


def _plain(value: Any) -> Any:
    """The same where it has no sets in it, whose order depends on what they held before."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Line | Cut):
        return [(name, _plain(one)) for name, one in vars(value).items()]
    return value
