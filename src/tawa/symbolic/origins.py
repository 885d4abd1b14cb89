"""Origins: the backward slice of a value, through arithmetic and control flow.

    %n = load %counts[%pid / 8]; for %i in range(0, %n): … %x …        origins_of(%i, decisions=True):
                                                                       load, divsi, get_program_id, %counts, …

Data dependences run through operands, loop-carried values and yields. Control dependences ("decisions") are the bounds
of a loop and the condition of a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tawa.dialects.control_flow import deciding, holder_of, incoming
from tawa.dialects.scf import ForOp
from tawa.ir import Block, Operation, Use, Value, Worklist


@dataclass(frozen=True, slots=True)
class Origins:
    """The sources of values. operations: without control flow; arguments: of the function. In order of discovery."""

    operations: tuple[Operation, ...]
    arguments: tuple[Value, ...]


def _all(_: Operation) -> bool:
    return True


def origins_of(
    values: Iterable[Value], *, decisions: bool = False, follow: Callable[[Operation], bool] = _all
) -> Origins:
    """The operations and arguments that `values` are computed from.

    decisions: whether to include control dependences. follow: whether to continue with the operands of an operation;
    the operation itself is a source in any case.
    """
    operations: dict[Operation, None] = {}
    arguments: dict[Value, None] = {}
    work = Worklist(values)
    for value in work:
        holder, uses = holder_of(value), incoming(value)
        if uses or _is_induction(value):
            work += [use.value for use in (*uses, *_deciding(holder, decisions))]
        elif isinstance(value.owner, Block):
            arguments[value] = None
        elif value.owner not in operations:
            operations[value.owner] = None
            work += value.owner.operands if follow(value.owner) else ()
    return Origins(tuple(operations), tuple(arguments))


def _is_induction(value: Value) -> bool:
    return isinstance(value.owner, Block) and value.index == 0 and ForOp.of(value.owner.parent_op) is not None


def _deciding(holder: Operation | None, wanted: bool) -> list[Use]:
    return deciding(holder) if wanted and holder is not None else []
