"""Live ranges of allocations in shared memory, as Triton's back end computes them.

    b = local_alloc(x);  d = dot(a, b) {isAsync};  c = local_alloc(y);  wait d      c may overlap b, which d still reads

Source: Triton's Allocation analysis.
"""

from __future__ import annotations

from tawa.dialects import tt
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.inline.code import ExternElementwiseOp
from tawa.dialects.scf import CONTROL
from tawa.dialects.ttg import VIEWS, LocalAllocOp, LocalDeallocOp, LocalLoadOp, LocalStoreOp, WarpReturnOp, WarpYieldOp
from tawa.dialects.ttng import TensormapCreateOp
from tawa.ir import Block, Operation


def freed_behind(block: Block) -> dict[Operation, list[Operation]]:
    """The allocations of a block whose bytes may be reused, by the operation after which that may happen.

    Triton's back end frees an allocation after the last operation that uses it, even if an asynchronous operation still
    reads it; a longer live range needs a later use. The next operation that needs shared memory may get the bytes, so
    an allocation is listed under the operation before that one, or under the last operation of a nested block, because
    unknown operations follow. Allocations with a ``local_dealloc``, or with uses in another block, are left out.
    """
    places = {op: place for place, op in enumerate(block.ops)}
    nested = block.parent_op is not None and block.parent_op.name in CONTROL
    found: dict[Operation, list[Operation]] = {}
    for op in block.ops:
        if op.name != LocalAllocOp.NAME:
            continue
        users = [user.within(block) for user in users_of(op)]
        if not op.result.uses or any(user is None or LocalDeallocOp.matches(user) for user in users):
            continue
        last = max(places[user] for user in users if user is not None)
        following = range(last + 1, len(block.ops))
        asks = next((place for place in following if _asks_for_memory(block.ops[place])), None)
        if asks is not None or nested:
            found.setdefault(block.ops[(len(block.ops) - 1 if asks is None else asks) - 1], []).append(op)
    return found


_FRUGAL = ("arith.", "math.", "scf.", "cf.", "aref.", "warp.", "llvm.intr.", "ttng.", "ttg.memdesc_", "ttg.async_")
_FRUGAL_ONES = op_names(
    LocalLoadOp,
    LocalStoreOp,
    LocalDeallocOp,
    WarpYieldOp,
    WarpReturnOp,
    tt.SplatOp,
    tt.BroadcastOp,
    tt.ExpandDimsOp,
    tt.AddPtrOp,
    tt.LoadOp,
    tt.StoreOp,
    tt.MakeRangeOp,
    tt.GetProgramIdOp,
    tt.GetNumProgramsOp,
    tt.TransOp,
    tt.BitcastOp,
    tt.ReturnOp,
    tt.FpToFpOp,
    tt.ClampFOp,
    ExternElementwiseOp,
    tt.MulhiUIOp,
    tt.PreciseSqrtOp,
    tt.PreciseDivFOp,
    tt.IntToPtrOp,
    tt.PtrToIntOp,
)


def _asks_for_memory(op: Operation) -> bool:
    """Whether Triton's back end may allocate shared memory for the result or the scratch of an operation."""
    if not (op.name in _FRUGAL_ONES or op.name.startswith(_FRUGAL)) or TensormapCreateOp.matches(op):
        return True
    return any(_asks_for_memory(inner) for region in op.regions for block in region.blocks for inner in block.ops)


def users_of(op: Operation) -> list[Operation]:
    """The users of an allocation and of its views."""
    users = op.result.users
    return [it for user in users for it in (users_of(user) if user.name in VIEWS else ()) or (user,)]
