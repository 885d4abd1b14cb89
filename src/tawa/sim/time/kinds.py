"""Kinds of operations and roles of partitions in a timeline.

An operation belongs to the epilogue if its results reach only stores: all their users belong to the epilogue. The
epilogue of a loop therefore starts after its last operation.
"""

from __future__ import annotations

from typing import Literal

from tawa.dialects.aref import PutOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.tcgen05 import ISSUED_BY_ONE_THREAD, TCGen5CommitOp, TMEMLoadOp, TMEMStoreOp
from tawa.dialects.tt import GetProgramIdOp, ReduceOp
from tawa.dialects.ttg import VIEWS, ConvertLayoutOp, LocalAllocOp, LocalDeallocOp, LocalLoadOp, LocalStoreOp, whole_of
from tawa.dialects.ttng import (
    ArriveBarrierOp,
    AsyncTMAStoreWaitOp,
    BarrierExpectOp,
    FenceAsyncSharedOp,
    InitBarrierOp,
    WaitBarrierOp,
    WarpGroupDotWaitOp,
)
from tawa.ir import Operation, Value
from tawa.machine.classes import DOTS, LOADS, STORES, TMA_LOADS
from tawa.sim.machine.trace import Recorder

Kind = Literal["tma", "load", "wgmma", "tensor memory", "cuda core", "epilogue", "barrier", "wait"]
"""wgmma: the work of the tensor cores, also that of tcgen05. tensor memory: loads and stores of it by threads."""
Role = Literal["producer", "mma", "converter", "storer", "correction", "consumer", "all warps"]

_BARRIERS = op_names(WaitBarrierOp, ArriveBarrierOp, BarrierExpectOp, InitBarrierOp, TCGen5CommitOp)
_TENSOR_MEMORY = op_names(TMEMLoadOp, TMEMStoreOp)
_BARRIER_DIALECTS = ("aref.", "gpu.")
_WORK_FOR_STORES = VIEWS | op_names(
    ConvertLayoutOp, LocalAllocOp, LocalLoadOp, LocalStoreOp, FenceAsyncSharedOp, TMEMLoadOp
)
_WORK_DIALECTS = ("tt.", "arith.", "math.")
_SOURCES = LOADS | DOTS | ISSUED_BY_ONE_THREAD | op_names(GetProgramIdOp)


class Kinds:
    """Kinds of operations, cached."""

    def __init__(self) -> None:
        self._kinds: dict[Operation, Kind] = {}
        self._serves: dict[Operation, bool] = {}

    def of(self, op: Operation) -> Kind:
        """The kind of `op`."""
        kind = self._kinds.get(op)
        if kind is None:
            kind = self._kinds[op] = self._classify(op)
        return kind

    def _classify(self, op: Operation) -> Kind:
        name = op.name
        if name == PutOp.NAME:
            loads = [it.name for it in op.regions[0].block.ops if it.name in LOADS]
            return ("tma" if set(loads) <= TMA_LOADS else "load") if loads else "barrier"
        if name in DOTS or name in ISSUED_BY_ONE_THREAD or name == WarpGroupDotWaitOp.NAME:
            return "wgmma"
        if name in STORES or name == AsyncTMAStoreWaitOp.NAME:
            return "epilogue"
        if name in LOADS:
            return "tma" if name in TMA_LOADS else "load"
        if name in _BARRIERS or name.startswith(_BARRIER_DIALECTS):
            return "barrier"
        if self.serves_stores(op):
            return "epilogue"
        return "tensor memory" if name in _TENSOR_MEMORY else "cuda core"

    def serves_stores(self, op: Operation) -> bool:
        """Whether the results of `op` reach only stores."""
        found = self._serves.get(op)
        if found is None:
            self._serves[op] = False  # loop-carried values are not part of the epilogue
            found = self._serves[op] = self._find_serves_stores(op)
        return found

    def _find_serves_stores(self, op: Operation) -> bool:
        if op.name in STORES:
            return True
        if op.name in _SOURCES or (op.regions and not ReduceOp.matches(op)):
            return False
        if op.name not in _WORK_FOR_STORES and not op.name.startswith(_WORK_DIALECTS):
            return False
        if LocalStoreOp.matches(op):
            return _is_stored(LocalStoreOp(op).buffer)
        users = [user for value in op.results for user in value.users if not LocalDeallocOp.matches(user)]
        return bool(users) and all(self.serves_stores(user) for user in users)


def _is_stored(view: Value) -> bool:
    """Whether a TMA store reads the buffer, directly or through a view."""
    todo = [whole_of(view)]
    while todo:
        for user in todo.pop().users:
            if user.name in STORES:
                return True
            if user.name in VIEWS:
                todo += user.results
    return False


def role_of(recorders: list[Recorder], alone: bool) -> Role | None:
    """The role of an agent, from its traces; None if it has neither loads nor dots. alone: it is the only agent.

    mma: it issues tcgen05 operations; those that read the results in tensor memory are consumers, or corrections if
    they get all else that they need from slots.
    """
    names = {step.op.name for recorder in recorders for step in recorder.steps if step.op}
    if alone:
        return "all warps"
    if names & ISSUED_BY_ONE_THREAD:
        return "mma"
    if names & _TENSOR_MEMORY and LocalLoadOp.NAME in names and ReduceOp.NAME not in names:
        return "correction"
    if names & DOTS or TMEMLoadOp.NAME in names:
        return "consumer"
    if AsyncTMAStoreWaitOp.NAME in names and not names & (LOADS | op_names(LocalStoreOp, PutOp)):
        return "storer"
    if LocalStoreOp.NAME in names and not names & LOADS:
        return "converter"
    return "producer" if names & (LOADS | op_names(PutOp)) else None
