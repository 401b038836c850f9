"""Scheme `optimistic` (ABS 6.0.4): checkpoints before and after loops, and none within; what a loop had found is kept.

As under `barrier` all tasks go back to the last whole checkpoint after a loss, and sources read on from there. But a
loop is never part of one: the tasks that live hand what they had found of its window to those that begin it once more,
which set a state from which it converges (`Iteration.compensate`). The lost task's part is found anew. So a loop costs
nothing while nobody dies, and ends at the same result, as far as it does so from whatever it begins with.
"""

from __future__ import annotations

from collections.abc import Sequence

from riprap.codec.blocks import Block
from riprap.engine.flow.entry import Entry
from riprap.engine.schemes.barrier import Barrier, Line
from riprap.operators.iteration.loop_state import Reached
from riprap.operators.iteration.supersteps import Iteration


class Optimistic(Barrier):
    """One task's half."""

    for_loops = True

    def _may_draw(self, line: Line) -> bool:
        return not self.bench.progress.iterating and super()._may_draw(line)

    def restore(self, state: Block | None, records: Sequence[Block]) -> list[Entry]:
        entries = super().restore(state, records)
        self.on_reached(None)  # all were rolled back, so all begin loops alike
        return entries

    @property
    def reached(self) -> Reached | None:
        operator = self.bench.operator
        return operator.reached if isinstance(operator, Iteration) else None

    def on_reached(self, reached: Reached | None) -> None:
        if isinstance(self.bench.operator, Iteration):
            self.bench.operator.go_on_from(reached)

    def on_window(self, epoch: int) -> None:
        operator = self.bench.operator
        if isinstance(operator, Iteration) and operator.compensated[0] == epoch:
            port, before = self.bench.port, operator.compensated[1]
            port.report("compensated", window=epoch, before=before, supersteps=operator.state.superstep)
            port.count("compensations")
