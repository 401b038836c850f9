"""Checks that a checkpoint is a consistent cut (ABS 4.2.1), link by link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explore_actors import Left
from explore_plan import Plan


class NoCut(AssertionError):
    """A checkpoint that is none."""


def check_cut(plan: Plan, number: int, parts: Sequence[Left]) -> None:
    """C1 and C2 of each link: all that its sender's part says was sent, and nothing else, is in its receiver's part as
    processed, or in one of the parts as on its way; in order.
    """
    metas = [{record.number: record for record in left.disk}[number].block.meta for left in parts]
    for at, layout in enumerate(plan.layouts):
        for joint in layout.outputs:
            for to in joint.workers:
                sender, receiver = metas[at], metas[plan.index[to]]
                there, here = (joint.edge.index, layout.me.index), (joint.edge.index, to.index)
                sent = next((count for *link, count, _ in sender["progress"]["sent"] if tuple(link) == here), 0)
                done = next((heard[0] for *link, heard in receiver["progress"]["done"] if tuple(link) == there), 0)
                moving = _moving(receiver, there, True) + _moving(sender, here, False)
                if [*range(done + 1, sent + 1)] != moving:
                    raise NoCut(
                        f"checkpoint {number}, {joint.edge.name} of {layout.me} to {to}: sent {sent}, done {done},"
                        f" on the way {moving}"
                    )


def _moving(meta: Mapping[str, Any], link: tuple[int, int], came: bool) -> list[int]:
    """The numbers of the blocks that a part has of a link: of those that had come, or of those that were to leave."""
    blocks = meta["moving"][: meta["came"]] if came else meta["moving"][meta["came"] :]
    return [fields[1][2] for name, _, _, *fields in blocks if tuple(name) == link]
