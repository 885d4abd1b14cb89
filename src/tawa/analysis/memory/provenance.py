"""Which argument of the kernel a pointer or descriptor comes from, and where a descriptor is made.

Two accesses that come from different arguments are taken to touch different memory, as Triton's own pipeliner does;
two that come from the same argument, or from an unknown place, may touch the same. What is reached through addresses
that lie in the memory of an argument is memory of its own: a grouped GEMM has one table of addresses for each operand,
and no table leads to itself or to what another one leads to. Tables that break this are like tensors that overlap:
programs of the grid have no order among them, so that it can only matter where one program loads what itself stored;
and there Triton keeps an order among threads behind a barrier only, with which a kernel is declined.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects import tt
from tawa.dialects.arith import SelectOp
from tawa.dialects.builtin import AssumeOp
from tawa.dialects.control_flow import incoming
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import effects_of, gives_order
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import ATOMICS, DescriptorLoadOp, FuncOp, LoadOp, releases
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Block, Module, Operation, PointerType, TensorDescType, Value, parse_type

_MAKE_DESCRIPTOR = tt.MakeTensorDescOp.NAME
# What reads or writes global memory; the address is operand 0.
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
    tt.UnsplatOp.NAME: 0,
    ConvertLayoutOp.NAME: 0,
}


@dataclass(frozen=True, slots=True)
class Root:
    """Memory that an argument of the kernel leads to: its own, or `behind` it what addresses stored there lead to."""

    argument: Value
    behind: bool = False

    @property
    def name(self) -> str:
        """The name of the argument, or its number."""
        return repr(self.argument.hint or self.argument.index)


def memory_roots(address: Value) -> list[Root] | None:
    """The memory that `address` may lie in; None when one of the places that it may come from is unknown."""
    roots: list[Root] = []
    seen: set[tuple[Value, bool]] = set()
    work = [(address, False)]
    while work:
        value, behind = work.pop()
        if (value, behind) in seen:
            continue
        seen.add((value, behind))
        load = LoadOp.of(value.defining_op)
        sources = [load.pointers] if load else _sources(value)
        if sources is None:
            return None
        work += [(source, behind or load is not None) for source in sources]
        if load and load.other is not None:
            work.append((load.other, behind))
        if not sources:
            roots.append(Root(value, behind))
    return roots


def _sources(value: Value) -> list[Value] | None:
    """Where `value` comes from: an empty list for a kernel argument, None for an unknown place."""
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
    """The operation in a loop that may have made `descriptor`; None when there is none.

    Triton keeps such a descriptor in one place of global memory and writes it again in every iteration, while TMA
    copies of the iteration before may still be about to read it.
    """
    seen: set[Value] = set()
    work = [descriptor]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        op = value.defining_op
        if op is not None and op.name == _MAKE_DESCRIPTOR:
            if enclosing_loops(op):
                return op
            continue
        sources = _sources(value)
        if sources is None:  # it may be any
            return next((op for op in module.walk() if op.name == _MAKE_DESCRIPTOR and enclosing_loops(op)), None)
        work += sources
    return None


def remade_for(load: DescriptorLoadOp) -> Operation | None:
    """The operation that makes a load's own descriptor anew in a loop around the loop of the load; None for any other.

    Of such a descriptor all copies are known: nothing carries it on. Between two makings a producer can wait for them.
    """
    maker = own_maker(load.descriptor)
    return maker if maker and enclosing_loops(maker)[0] is not enclosing_loops(load.op)[0] else None


def own_maker(descriptor: Value) -> Operation | None:
    """The operation in a loop that makes `descriptor` itself; None where it is made elsewhere or carried."""
    op = descriptor.defining_op
    return op if op is not None and op.name == _MAKE_DESCRIPTOR and enclosing_loops(op) else None


def remakes_descriptors(module: Module) -> bool:
    """Whether a descriptor is made in a loop, so that its place in the program matters."""
    return any(op.results and own_maker(op.result) for op in module.walk() if op.name == _MAKE_DESCRIPTOR)


def stores_must_not_wait(module: Module) -> bool:
    """Whether a TMA store must have left before what stands behind it, and so may not be deferred.

    That is so where the kernel touches what it stores in another way too, where an atomic releases to others what
    stands before, and where the store's descriptor is written again in every iteration and carried from one to another.
    """
    accesses = [op for op in module.walk() if op.name in _ACCESSES]
    if not any(tt.DescriptorStoreOp.matches(op) for op in accesses):
        return False
    stored: list[Root] = []
    touched: list[Root] = []
    for op in accesses:
        if op.name in ATOMICS and releases(op):
            return True
        roots = memory_roots(op.operands[0])
        if roots is None:
            return True
        if not tt.DescriptorStoreOp.matches(op):
            touched += roots
        elif made_in_a_loop(module, op.operands[0]) and own_maker(op.operands[0]) is None:
            return True
        else:
            stored += roots
    return any(root in stored for root in touched)


def why_stored_in_order(module: Module, store: Operation) -> str:
    """Why a store must be seen before what stands behind it, which a TMA store is not; empty where nothing asks for it.

    A bulk store is waited for until it has read shared memory. Loads behind it may still see what was there, other
    stores may overtake it, and a release does not cover it.
    """
    own = memory_roots(store.operands[0])
    for op in module.walk():
        if gives_order(op):
            return f"{op.name} may tell others that it is done"
        if op is store or op.name not in _ACCESSES:
            continue
        roots = memory_roots(op.operands[0])
        if own is None or roots is None or any(root in own for root in roots):
            return "the kernel reads or writes that tensor elsewhere, too"
    return ""


def follows_addresses(module: Module) -> bool:
    """Whether an access goes to an address that itself lies in memory, or that may."""
    found = [memory_roots(op.operands[0]) for op in module.walk() if op.name in _ACCESSES]
    return any(roots is None or any(root.behind for root in roots) for roots in found)


def may_run_twice(module: Module) -> bool:
    """Whether a second run on the same arguments leaves memory as the first did: nothing is read that is written.

    False where the kernel has an atomic, prints, or has an address of unknown origin or from memory, which no launch
    compares with others.
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
