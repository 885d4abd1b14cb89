"""Printer of MLIR's generic form: what `tawa.ir.parser` reads and stock Triton parses.

Value names are unique over the whole module, also across sibling regions: Triton's own parser demands that for the
regions of ``ttg.warp_specialize``. A value keeps the user's name as its prefix (``%acc_12``).
"""

from __future__ import annotations

import re

from tawa.ir.core import UNKNOWN_LOC, Block, Module, Operation, Value
from tawa.ir.text import print_dictionary

_NAME = re.compile(r"[A-Za-z_][\w$.-]*\Z")


def print_module(module: Module, *, locations: bool = True) -> str:
    """The whole module as text. `locations=False` leaves them out, for people and for tests."""
    printer = Printer(locations)
    lines = [f"{name} = {value}" for name, value in module.aliases.items()]
    if locations:
        lines += [f"{name} = {value}" for name, value in module.locs.items()]
    printer.operation(module.op, "", lines)
    return "\n".join(lines) + "\n"


def print_op(op: Operation) -> str:
    """One operation with its regions, for messages and tests; operands get names as they are met."""
    lines: list[str] = []
    Printer(locations=False).operation(op, "", lines)
    return "\n".join(lines)


class Printer:
    """Keeps the names given so far."""

    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.names: dict[Value, str] = {}
        self.counts: dict[str, int] = {}
        self.labels: dict[Block, str] = {}

    def name(self, value: Value) -> str:
        """The name of `value`, given at its first mention."""
        known = self.names.get(value)
        if known is None:
            owner = value.owner
            if isinstance(owner, Operation) and len(owner.results) > 1:
                base = self._fresh(owner.results[0].hint)
                for result in owner.results:
                    self.names[result] = f"{base}#{result.index}"
                return self.names[value]
            known = self.names[value] = self._fresh(value.hint)
        return known

    def _fresh(self, hint: str) -> str:
        if not _NAME.match(hint):
            hint = ""
        count = self.counts.get(hint, 0)
        self.counts[hint] = count + 1
        return f"%{hint}_{count}" if hint else f"%{count}"

    def operation(self, op: Operation, indent: str, lines: list[str]) -> None:
        """Appends the lines of `op`."""
        text = indent
        if op.results:
            first = self.name(op.results[0])
            text += f"{first.partition('#')[0]}:{len(op.results)} = " if len(op.results) > 1 else f"{first} = "
        text += f'"{op.name}"({", ".join([self.name(value) for value in op.operands])})'
        if op.successors:
            text += f"[{', '.join(self._label(block) for block in op.successors)}]"
        if op.properties:
            text += f" <{{{print_dictionary(op.properties)}}}>"
        if op.regions:
            text += " ({"
            for index, region in enumerate(op.regions):
                lines.append(text)
                for position, block in enumerate(region.blocks):
                    if block.args or position > 0:
                        lines.append(self._header(block, indent))
                    for nested in block.ops:
                        self.operation(nested, indent + "  ", lines)
                text = f"{indent}}}, {{" if index + 1 < len(op.regions) else f"{indent}}})"
        if op.attributes:
            text += f" {{{print_dictionary(op.attributes)}}}"
        inputs = ", ".join([value.type for value in op.operands])
        outputs = [value.type for value in op.results]
        single = len(outputs) == 1 and not outputs[0].startswith("(")
        text += f" : ({inputs}) -> {outputs[0] if single else '(' + ', '.join(outputs) + ')'}"
        if self.locations:
            text += f" loc({op.loc})"
        lines.append(text)

    def _header(self, block: Block, indent: str) -> str:
        args = ", ".join(
            f"{self.name(arg)}: {arg.type}" + (f" loc({arg.loc})" if self.locations else "") for arg in block.args
        )
        return f"{indent}{self._label(block)}({args}):" if args else f"{indent}{self._label(block)}:"

    def _label(self, block: Block) -> str:
        if block not in self.labels:
            self.labels[block] = f"^bb{len(self.labels)}"
        return self.labels[block]


__all__ = ["UNKNOWN_LOC", "print_module", "print_op"]
