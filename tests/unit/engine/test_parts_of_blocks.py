"""A block that is processed in parts, as where an operator stops at theta: all that these put out comes once."""

from __future__ import annotations

import numpy as np
import pytest
from dataflow_parts import chain, data
from task_parts import hosted_task
from test_approximate import IN, Table

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.outlet import PLACES
from riprap.engine.flow.progress import Heard
from riprap.engine.worker.build import Hosted
from riprap.operators.dataflow import DataflowOperator, Emitter, Items


class OneByOne(DataflowOperator):
    """Hands items on, and stops behind each."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        out.send((items.arrays[0][first : first + 1],), 1)
        return first + 1


def test_a_receiver_that_begins_anew_between_two_parts_gets_the_second() -> None:
    task, port = hosted_task(chain(("a", 1), ("b", 1), ("c", 1)), WorkerId("b", 0), Hosted(OneByOne(), None))
    task.entries_max = 1
    (into,), (out,), (a, c) = task.layout.inputs, task.layout.outputs, (WorkerId("a", 0), WorkerId("c", 0))
    heard = Heard()

    def placed() -> None:
        task.on_block(out.reply, c, Block(Kind.REPLY, Epoch(0), meta={"heard": heard.pack()}))

    task.start()
    placed()
    task.on_block(into.edge, a, data(1, items=2))
    task.work()
    task.outlet.flush()
    ((_, block),) = port.sent_on(out.edge)
    heard.note(block)
    port.receive_ack(out.edge, c)
    port.kill(c)
    task.on_worker_failed(c)
    port.renew(c)
    task.on_worker_restored(c)
    placed()
    while task.work():
        pass
    assert [block.arrays[0].tolist() for _, block in port.sent_on(out.edge)] == [[0.0], [1.0]]


@pytest.mark.parametrize(("reached", "sent"), [(0, [3, 5]), (3, [])])
def test_the_rest_of_a_block_is_put_out_unless_a_former_life_went_on_with_it(reached: int, sent: list[int]) -> None:
    """The state includes three items of a block. Behind them the former life may have stopped elsewhere."""
    table, heard = Table(), Heard(causes={IN: (1, reached * PLACES)})
    link = next(iter(table.outlet.links.values()))
    table.progress.partial[IN, (1,)] = 3
    table.outlet.place(link, heard)
    table.scheme.on_placed(link, heard, ())
    for first in (3, 5):
        table.outlet.begin(Epoch(1), IN, 1, first)
        table.outlet.send((np.zeros(1),), 1, to=link.to.index)
    table.outlet.flush()
    assert [block.meta["cause"][3] for _, _, block in table.port.sent] == [first * PLACES for first in sent]
