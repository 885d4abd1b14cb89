"""Provenance: which kernel argument a pointer or descriptor is derived from, and where a descriptor is made.

Accesses derived from different arguments are assumed not to alias, as in Triton's own pipeliner. Accesses derived from
the same argument, or of unknown origin, may alias. Memory that is reached through addresses stored in an argument is a
root of its own: a grouped GEMM has one table of addresses for each operand, and the memory behind one table is assumed
to alias neither the table nor the memory behind another table. A kernel that breaks this assumption is like one with
overlapping tensors. Programs of the grid are not ordered with each other, so that only a program that loads what it
stored itself could tell the difference; Triton orders such accesses of different threads only by a barrier, and kernels
with a barrier are declined.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects import tt
from tawa.dialects.arith import SelectOp
from tawa.dialects.builtin import AssumeOp, CastOp
from tawa.dialects.control_flow import incoming
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import effects_of, gives_order
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import ATOMICS, DescriptorLoadOp, FuncOp, LoadOp, releases
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Block, Module, Operation, PointerType, TensorDescType, Value, Worklist, parse_type
from tawa.symbolic.words import word_of

_MAKE_DESCRIPTOR = tt.MakeTensorDescOp.NAME
# The operations that access global memory; the address is operand 0.
_ACCESSES = ATOMICS | op_names(
    tt.DescriptorGatherOp,
    DescriptorLoadOp,
    tt.DescriptorReduceOp,
    tt.DescriptorScatterOp,
    tt.DescriptorStoreOp,
    LoadOp,
    tt.StoreOp,
)

_WRITES = op_names(tt.StoreOp, tt.DescriptorStoreOp, tt.DescriptorScatterOp)

# Operation -> index of the operand that carries the address.
_ADDRESS = {
    tt.AddPtrOp.NAME: 0,
    tt.AdvanceOp.NAME: 0,
    tt.BitcastOp.NAME: 0,
    tt.BroadcastOp.NAME: 0,
    tt.ExpandDimsOp.NAME: 0,
    tt.IntToPtrOp.NAME: 0,
    _MAKE_DESCRIPTOR: 0,
    tt.ReshapeOp.NAME: 0,
    tt.SplatOp.NAME: 0,
    tt.TransOp.NAME: 0,
    CastOp.NAME: 0,
    tt.UnsplatOp.NAME: 0,
    ConvertLayoutOp.NAME: 0,
}


@dataclass(frozen=True, slots=True)
class Root:
    """Memory that a kernel argument points to; with `behind`, memory that addresses stored in it point to."""

    argument: Value
    behind: bool = False

    @property
    def name(self) -> str:
        """The name of the argument, or its number."""
        return repr(self.argument.hint or self.argument.index)


def memory_roots(address: Value) -> list[Root] | None:
    """The roots that `address` may be derived from; None if one of its origins is unknown."""
    roots: list[Root] = []
    work = Worklist([(address, False)])
    for value, behind in work:
        load = LoadOp.of(value.defining_op)
        sources = [load.pointers] if load else _sources(value)
        if sources is None:
            return None
        work += [(source, behind or load is not None) for source in sources]
        if load and load.other is not None:
            work += [(load.other, behind)]
        if not sources:
            roots.append(Root(value, behind))
    return roots


def _sources(value: Value) -> list[Value] | None:
    """The values that `value` is derived from: an empty list for a kernel argument, None if unknown."""
    owner = value.owner
    if isinstance(owner, Block):
        function = FuncOp.of(owner.parent_op)
        if function and owner is function.body:
            return _argument_sources(function, value)
    elif owner.name in _ADDRESS:
        return [owner.operands[_ADDRESS[owner.name]]]
    elif SelectOp.matches(owner):
        return owner.operands[1:]
    return [use.value for use in incoming(value)] or None


def _argument_sources(function: FuncOp, value: Value) -> list[Value] | None:
    if not isinstance(parse_type(value.type), PointerType | TensorDescType):
        return None
    base = function.memory_of(value)
    return [base] if base is not None else []


def made_in_a_loop(module: Module, descriptor: Value) -> Operation | None:
    """The operation in a loop that may have made `descriptor`, or None.

    Triton keeps such a descriptor at one address in global memory and overwrites it in every iteration, while in-flight
    TMA copies of the previous iteration may still read it.
    """
    work = Worklist([descriptor])
    for value in work:
        op = value.defining_op
        if op is not None and op.name == _MAKE_DESCRIPTOR:
            if enclosing_loops(op):
                return op
            continue
        sources = _sources(value)
        if sources is None:  # it may be any descriptor
            return next((op for op in module.walk() if op.name == _MAKE_DESCRIPTOR and enclosing_loops(op)), None)
        work += sources
    return None


def remade_for(load: DescriptorLoadOp) -> Operation | None:
    """The operation that remakes the descriptor of a load in each iteration of an outer loop, or None.

    Such a descriptor is not loop-carried, so that all TMA copies that read it are known. The producer can wait for them
    before it remakes the descriptor.
    """
    maker = own_maker(load.descriptor)
    return maker if maker and enclosing_loops(maker)[0] is not enclosing_loops(load.op)[0] else None


def own_maker(descriptor: Value) -> Operation | None:
    """The operation in a loop that defines `descriptor`; None if it is defined outside of loops or loop-carried."""
    op = descriptor.defining_op
    return op if op is not None and op.name == _MAKE_DESCRIPTOR and enclosing_loops(op) else None


def remakes_descriptors(module: Module) -> bool:
    """Whether a descriptor is made in a loop, so that its making must not be hoisted."""
    return any(op.results and own_maker(op.result) for op in module.walk() if op.name == _MAKE_DESCRIPTOR)


def stores_must_not_wait(module: Module) -> bool:
    """Whether TMA stores must be complete before the operations that follow them, and so must not be deferred.

    That is the case if the kernel accesses the stored memory in another way too, if an atomic with release semantics
    publishes it, or if the store uses a loop-carried descriptor that is remade in every iteration.
    """
    accesses = [op for op in module.walk() if op.name in _ACCESSES]
    if not any(tt.tma_store(op) for op in accesses):
        return False
    stored: list[Root] = []
    touched: list[Root] = []
    for op in accesses:
        if op.name in ATOMICS and releases(op):
            return True
        roots = memory_roots(op.operands[0])
        if roots is None:
            return True
        if not tt.tma_store(op):
            touched += roots
        elif made_in_a_loop(module, op.operands[0]) and own_maker(op.operands[0]) is None:
            return True
        else:
            stored += roots
    return any(root in stored for root in touched)


def why_stored_in_order(module: Module, store: Operation) -> str:
    """Why a store must be visible before later operations, which rules out a TMA store; empty if it need not be.

    The wait for a bulk store ends when it has read shared memory. Later loads may still see the old contents, later
    stores may overtake it, and a release does not cover it.
    """
    own = memory_roots(store.operands[0])
    for op in module.walk():
        if gives_order(op):
            return f"{word_of(op)} may tell others that it is done"
        if op is store or op.name not in _ACCESSES:
            continue
        roots = memory_roots(op.operands[0])
        if own is None or roots is None or any(root in own for root in roots):
            return "the kernel reads or writes that tensor elsewhere, too"
    return ""


def follows_addresses(module: Module) -> bool:
    """Whether the address of some access is loaded from memory, or may be."""
    found = [memory_roots(op.operands[0]) for op in module.walk() if op.name in _ACCESSES]
    return any(roots is None or any(root.behind for root in roots) for roots in found)


def may_run_twice(module: Module) -> bool:
    """Whether the kernel is idempotent: a second run on the same arguments leaves memory as the first run did.

    That requires that it reads nothing that it writes. False if the kernel has an atomic, prints, or uses an address
    that is of unknown origin or loaded from memory, since the launcher cannot check such addresses for overlap.
    """
    read: list[Root] = []
    written: list[Root] = []
    for op in module.walk():
        if op.name in ATOMICS or tt.DescriptorReduceOp.matches(op):
            return False
        if op.name in _ACCESSES:
            roots = memory_roots(op.operands[0])
            if roots is None or any(root.behind for root in roots):
                return False
            (written if op.name in _WRITES else read).extend(roots)
        elif op.name != AssumeOp.NAME and not op.regions and any(it.kind in ("any", "order") for it in effects_of(op)):
            return False
    return not any(root in written for root in read)


def written_arguments(module: Module) -> tuple[int, ...] | None:
    """The numbers of the arguments whose memory the kernel writes; None if it may write other memory."""
    found: set[int] = set()
    for op in module.walk():
        if op.name not in _WRITES and op.name not in ATOMICS and not tt.DescriptorReduceOp.matches(op):
            continue
        roots = memory_roots(op.operands[0])
        if roots is None or any(root.behind for root in roots):
            return None
        found.update(root.argument.index for root in roots)
    return tuple(sorted(found))
