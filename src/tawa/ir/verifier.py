"""Structural verifier: the invariants of every program at every level, independent of dialects.

Checked: each operand is defined before its use and in an enclosing region (dominance); regions of an operation that is
isolated from above use nothing from outside; uses and operands agree; blocks end in a terminator; terminators pass
as many values, and of the same types, as the enclosing operation takes; ``operandSegmentSizes`` add up. `tawa.dialects`
supplies the terminators, the isolated operations and the check of each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tawa.ir.attributes import read_array
from tawa.ir.core import Block, Module, Operation, Value
from tawa.ir.worklist import Worklist

OpCheck = Callable[[Operation], str | None]


@dataclass(frozen=True, slots=True)
class StructureRules:
    """What the verifier needs from the dialects: terminators, isolated operations, and one check per operation."""

    terminators: frozenset[str] = frozenset()
    isolated: frozenset[str] = frozenset()
    checks: tuple[tuple[str, OpCheck], ...] = ()


@dataclass(frozen=True, slots=True)
class StructureError:
    """One violation, with the operation it was found at."""

    reason: str
    op: Operation

    def __str__(self) -> str:
        return f"{self.op.name}: {self.reason}"


def verify_structure(module: Module, rules: StructureRules) -> list[StructureError]:
    """All violations, in textual order; an empty list means the module is well formed."""
    return list(_Verifier(rules).operation(module.op, set()))


def _total(segments: str) -> int | None:
    """The operands of all segments; None if the text is no array of numbers."""
    try:
        return sum(read_array(segments))
    except ValueError:
        return None


class _Verifier:
    def __init__(self, rules: StructureRules) -> None:
        self.rules = rules
        self.checks = dict(rules.checks)

    def operation(self, op: Operation, visible: set[Value]) -> Iterator[StructureError]:
        for index, operand in enumerate(op.operands):
            if operand not in visible:
                yield StructureError(f"operand {index} ({operand.type}) is not defined before its use", op)
            if not any(use.op is op and use.index == index for use in operand.uses):
                yield StructureError(f"operand {index} does not list this use", op)
        segments = op.properties.get("operandSegmentSizes")
        if segments is not None and _total(segments) != len(op.operands):
            yield StructureError(f"operandSegmentSizes {segments} for {len(op.operands)} operands", op)
        reason = self.reason(op)
        if reason:
            yield StructureError(reason, op)
        for region in op.regions:
            inner = set[Value]() if op.name in self.rules.isolated else set(visible)
            if len(region.blocks) == 1:
                yield from self.block(op, region.blocks[0], inner)
            else:
                yield from self.blocks(op, region.blocks, inner)
        visible.update(op.results)

    def reason(self, op: Operation) -> str | None:
        """The error of the dialect's check; a check may raise if operands, types or regions are missing."""
        check = self.checks.get(op.name)
        try:
            return check(op) if check else None
        except (IndexError, ValueError) as error:
            return f"incomplete or of the wrong type: {error}"

    def block(self, op: Operation, block: Block, visible: set[Value]) -> Iterator[StructureError]:
        visible.update(block.args)
        for position, nested in enumerate(block.ops):
            if nested.parent is not block:
                yield StructureError("its parent link points elsewhere", nested)
            last = position + 1 == len(block.ops)
            if nested.name in self.rules.terminators and not last:
                yield StructureError("a terminator in the middle of a block", nested)
            if last and op.name != "builtin.module" and nested.name not in self.rules.terminators:
                yield StructureError("the block does not end in a terminator", nested)
            yield from self.operation(nested, visible)

    def blocks(self, op: Operation, blocks: list[Block], visible: set[Value]) -> Iterator[StructureError]:
        """Several blocks: dominance is approximated by 'defined in some block that can reach this one'."""
        predecessors: dict[Block, list[Block]] = {block: [] for block in blocks}
        for block in blocks:
            for successor in block.terminator.successors if block.ops else ():
                predecessors[successor].append(block)
        for block in blocks:
            reaching = set(visible)
            work = Worklist(predecessors[block])
            for before in work:
                work += predecessors[before]
                reaching.update(before.args)
                reaching.update(result for nested in before.ops for result in nested.results)
            yield from self.block(op, block, reaching)
