"""Names of loads, stores and loops: the keys of a Plan's entries. They survive edits elsewhere in the kernel.

A name is an attribute of the operation, so that it survives when passes move, clone or wrap the operation:

    %k = tt.descriptor_load %K[…] {tawa.name = "K|0|1"}     the second load of K whose innermost loop is the first one
    scf.for … {tawa.loop = 0 : i32}                         the first loop

A load that Triton repeats for another layout has the name of the first one.

`name_module` writes the names; `drop_names` removes them before the module is printed.
"""

from __future__ import annotations

from tawa.analysis.memory.provenance import memory_roots
from tawa.dialects.declare.declaration import global_address, op_names
from tawa.dialects.parameters import STAYS, parameter_name
from tawa.dialects.scf import LOOPS, enclosing_loops
from tawa.dialects.tt import DescriptorLoadOp, DescriptorReduceOp, DescriptorStoreOp, FuncOp, LoadOp, StoreOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Module, Operation, Value
from tawa.ir.attributes import read_int, string_attr

Name = tuple[str | None, int | None, int]
"""Argument, loop, ordinal: the key of an operand or a store in a Plan."""

LOADS = op_names(LoadOp, DescriptorLoadOp)
STORES = op_names(StoreOp, DescriptorStoreOp, DescriptorReduceOp)
_NAME, _LOOP = "tawa.name", "tawa.loop"


def name_module(module: Module, *, persistent: bool = False) -> None:
    """Names every load, store and loop of the kernel, in program order.

    persistent: whether the outermost loop was added to make the kernel persistent; that loop gets no number.
    """
    function = next((view for op in module.body.ops if (view := FuncOp.of(op))), None)
    if function is None:
        return
    tiles = next((op for op in function.body.ops if op.name in LOOPS), None) if persistent else None
    fallbacks = _fallback_loops(function.op)
    loops = 0
    counts: dict[tuple[str, str, int | None], int] = {}
    before: dict[tuple[str, str, int | None], Operation] = {}
    for op in function.op.walk():
        if fallbacks and (op in fallbacks or any(loop in fallbacks for loop in enclosing_loops(op))):
            continue
        if op.name in LOOPS and op is not tiles:
            op.attributes[_LOOP] = f"{loops} : i32"
            loops += 1
        elif op.name in LOADS or op.name in STORES:
            kind = "load" if op.name in LOADS else "store"
            argument, loop = argument_of(module, global_address(op)), _loop_around(op)
            key = kind, argument, loop
            if key not in before or not _repeats(op, before[key]):
                counts[key] = counts.get(key, -1) + 1
            before[key] = op
            op.attributes[_NAME] = string_attr(f"{argument}|{'' if loop is None else loop}|{counts[key]}")


def _repeats(op: Operation, other: Operation) -> bool:
    """Whether two loads are copies of one, in different layouts."""
    if op.name not in LOADS or op.parent is not other.parent or op.result.type == other.result.type:
        return False
    return _equal(op, other, {})


def _equal(op: Operation, other: Operation, known: dict[tuple[Operation, Operation], bool]) -> bool:
    """Whether two operations compute the same from the same values, apart from layouts. known: earlier answers."""
    if op is other:
        return True
    if (op, other) not in known:
        operands = zip(map(_behind_layouts, op.operands), map(_behind_layouts, other.operands), strict=False)
        known[op, other] = _same_place(op, other) and all(_same(own, its, known) for own, its in operands)
    return known[op, other]


def _same(own: Value, its: Value, known: dict[tuple[Operation, Operation], bool]) -> bool:
    first, second = own.defining_op, its.defining_op
    return own is its or (first is not None and second is not None and _equal(first, second, known))


def _same_place(op: Operation, other: Operation) -> bool:
    if (op.name, op.loc, len(op.operands)) != (other.name, other.loc, len(other.operands)) or op.regions:
        return False
    own, its = (
        {name: text.partition(" : tensor")[0] for name, text in it.properties.items()} for it in (op, other)
    )  # the type of a constant has its layout
    return own == its


def _behind_layouts(value: Value) -> Value:
    while (op := value.defining_op) is not None and ConvertLayoutOp.matches(op):
        value = op.operands[0]
    return value


def _fallback_loops(function: Operation) -> frozenset[Operation]:
    """Fallback versions of loops, for rare launches (`tawa.transforms.ttir.version_loop`): they get no names."""
    return frozenset(loop for op in function.walk() if STAYS in op.attributes for loop in enclosing_loops(op)[:1])


def drop_names(module: Module) -> None:
    """Removes the names."""
    for op in module.walk():
        if op.attributes:
            op.attributes.pop(_NAME, None)
            op.attributes.pop(_LOOP, None)


def name_of(op: Operation) -> Name:
    """The name of a load or store; ``(None, None, 0)`` if it has none."""
    text = op.attributes.get(_NAME)
    if text is None:
        return None, None, 0
    argument, loop, ordinal = text.strip('"').rsplit("|", 2)
    return argument, int(loop) if loop else None, int(ordinal)


def loop_number(loop: Operation) -> int | None:
    """The number of a loop; None if it has none."""
    text = loop.attributes.get(_LOOP)
    return None if text is None else read_int(text)


def name_text(name: Name) -> str:
    """A name for messages: ``K, loop 0``, followed by the ordinal unless that is 0."""
    argument, loop, ordinal = name
    where = "outside of loops" if loop is None else f"loop {loop}"
    return f"{argument}, {where}" + (f", number {ordinal}" if ordinal else "")


def argument_of(module: Module, address: Value) -> str:
    """The parameter that an address or a descriptor is derived from: ``a``, or ``a|b`` for several, ``?`` for unknown.

    ``a[]`` stands for memory that is reached through addresses stored in `a`.
    """
    roots = memory_roots(address)
    if roots is None:
        return "?"
    names = [
        parameter_name(module, it.argument, f"argument {it.argument.index}") + ("[]" if it.behind else "")
        for it in roots
    ]
    return "|".join(dict.fromkeys(names))


def _loop_around(op: Operation) -> int | None:
    """The number of the innermost numbered loop around an operation."""
    return next((number for loop in enclosing_loops(op) if (number := loop_number(loop)) is not None), None)
