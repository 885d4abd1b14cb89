"""What sort of work an operation is in a timeline, and who does it.

The epilogue is what serves nothing but stores: an operation belongs to it if all users of its results do, so it starts
behind the last operation of a loop.
"""

from __future__ import annotations

from typing import Literal

from tawa.ir import Operation, Value
from tawa.sim.machine.trace import Recorder
from tawa.sim.time.cost import DOTS, LOADS, STORES, TMA_LOADS

Kind = Literal["tma", "load", "wgmma", "cuda core", "epilogue", "barrier", "wait"]
Role = Literal["producer", "consumer", "all warps"]

_BARRIERS = ("ttng.wait_barrier", "ttng.arrive_barrier", "ttng.barrier_expect", "ttng.init_barrier", "aref.", "gpu.")
_WORK_FOR_STORES = ("tt.", "arith.", "math.", "ttg.convert_layout", "ttg.local_", "ttg.memdesc", "ttng.fence")
_SOURCES = LOADS | DOTS | {"tt.get_program_id"}


class Kinds:
    """Kinds of operations, worked out once each."""

    def __init__(self) -> None:
        self._kinds: dict[Operation, Kind] = {}
        self._serves: dict[Operation, bool] = {}

    def of(self, op: Operation) -> Kind:
        """The kind of `op`."""
        kind = self._kinds.get(op)
        if kind is None:
            kind = self._kinds[op] = self._work_out(op)
        return kind

    def _work_out(self, op: Operation) -> Kind:
        name = op.name
        if name == "aref.put":
            loads = [it.name for it in op.regions[0].block.ops if it.name in LOADS]
            return ("tma" if set(loads) <= TMA_LOADS else "load") if loads else "barrier"
        if name in DOTS or name == "ttng.warp_group_dot_wait":
            return "wgmma"
        if name in STORES or name == "ttng.async_tma_store_wait":
            return "epilogue"
        if name in LOADS:
            return "tma" if name in TMA_LOADS else "load"
        if name.startswith(_BARRIERS):
            return "barrier"
        return "epilogue" if self.serves_stores(op) else "cuda core"

    def serves_stores(self, op: Operation) -> bool:
        """Whether nothing but stores comes of `op`."""
        found = self._serves.get(op)
        if found is None:
            self._serves[op] = False  # a cycle through a loop is no epilogue
            found = self._serves[op] = self._look(op)
        return found

    def _look(self, op: Operation) -> bool:
        if op.name in STORES:
            return True
        if op.name in _SOURCES or (op.regions and op.name != "tt.reduce") or not op.name.startswith(_WORK_FOR_STORES):
            return False
        if op.name == "ttg.local_store":
            return _is_stored(op.operands[1])
        users = [user for value in op.results for user in value.users if user.name != "ttg.local_dealloc"]
        return bool(users) and all(self.serves_stores(user) for user in users)


def _is_stored(view: Value) -> bool:
    """Whether a buffer, through any of its views, is what a TMA store reads."""
    while (owner := view.defining_op) and owner.name.startswith("ttg.memdesc"):
        view = owner.operands[0]
    todo = [view]
    while todo:
        for user in todo.pop().users:
            if user.name in STORES:
                return True
            if user.name.startswith("ttg.memdesc"):
                todo += user.results
    return False


def role_of(recorders: list[Recorder], alone: bool) -> Role | None:
    """What the warps of these traces are for; None where neither loads nor dots say it. alone: no others."""
    names = {step.op.name for recorder in recorders for step in recorder.steps if step.op}
    if alone:
        return "all warps"
    if names & DOTS:
        return "consumer"
    return "producer" if names & (LOADS | {"aref.put"}) else None
