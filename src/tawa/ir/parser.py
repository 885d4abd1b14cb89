"""Reader of MLIR's generic form.

    %0 = "arith.addi"(%a, %b) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32 loc(#loc3)

Everything that is not structure (types, properties, attributes, locations) stays text, with its aliases, so that
printing gives back what was read. The reader goes line by line, as MLIR prints: one operation a line, region ends on
lines of their own. Source: MLIR Language Reference, "Operations" (generic form).
"""

from __future__ import annotations

import functools
import re

from tawa.errors import ParseError
from tawa.ir.core import UNKNOWN_LOC, Block, Module, Operation, Region, Value
from tawa.ir.text import match_bracket, parse_dictionary, split_top_level

_HEAD = re.compile(r'\s*(?:(%[^=]*?) = )?"([^"]+)"\(([^)]*)\)(?:\[([^\]]*)\])?')
_ALIAS = re.compile(r"([#!][\w.$-]+) = (.*)")
_BLOCK = re.compile(r"\s*(\^[\w.$-]+)(?:\((.*)\))?:\s*(?://.*)?$")
_SUFFIXED = re.compile(r"^(.*?)_\d+$")
_NUMBERED = re.compile(r"^(?:arg)?\d+$")


def parse_module(text: str) -> Module:
    """Reads one module in generic form. Raises ParseError with the line that cannot be read."""
    return _Parser(text).parse()


class _Frame:
    """A region under construction: its operation, the rest of that operation's line comes behind the closing brace."""

    __slots__ = ("labels", "op", "pending", "region", "result_names")

    def __init__(self, op: Operation, region: Region, result_names: list[str]) -> None:
        self.op = op
        self.region = region
        self.result_names = result_names
        self.labels: dict[str, Block] = {}
        self.pending: list[tuple[Operation, list[str]]] = []


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.number = 0
        self.values: dict[str, Value] = {}
        self.module: Module | None = None
        self.aliases: dict[str, str] = {}
        self.locs: dict[str, str] = {}
        self.frames: list[_Frame] = []
        self.top: Operation | None = None

    def parse(self) -> Module:
        for number, line in enumerate(self.lines, start=1):
            self.number = number
            try:
                self._line(line)
            except ParseError:
                raise
            except (ValueError, KeyError, IndexError) as error:
                raise self._error(f"{type(error).__name__}: {error}") from error
        if self.top is None or self.frames:
            raise ParseError("the text ends inside a region" if self.frames else "the text holds no operation")
        return Module(self.top, self.aliases, self.locs)

    def _error(self, reason: str) -> ParseError:
        return ParseError(f"line {self.number}: {reason}\n  {self.lines[self.number - 1].strip()[:200]}")

    # -- lines ---------------------------------------------------------------------------------------------------

    def _line(self, line: str) -> None:
        stripped = line.lstrip()
        if not stripped or stripped.startswith("//"):
            return
        first = stripped[0]
        if first in '%"':
            self._operation(line)
        elif first == "}":
            self._close(stripped)
        elif first == "^":
            self._block(line)
        elif first in "#!":
            self._alias(stripped)
        elif first == "{" and stripped.startswith("{-#"):
            raise self._error("resource sections are not supported")
        else:
            raise self._error("not MLIR generic form")

    def _alias(self, line: str) -> None:
        found = _ALIAS.fullmatch(line.rstrip())
        if found is None:
            raise self._error("bad alias")
        name, value = found.groups()
        (self.locs if value.startswith("loc(") else self.aliases)[name] = value

    def _operation(self, line: str) -> None:
        found = _HEAD.match(line)
        if found is None:
            raise self._error("not an operation in generic form")
        targets, name, operands, successors = found.groups()
        op = Operation(name)
        for operand in operands.split(",") if operands else ():
            op.add_operand(self._use(operand.strip()))
        if successors:
            op.successors = [self._label(label.strip()) for label in successors.split(",")]
        names = _result_names(targets) if targets else []
        rest = line[found.end() :].strip()
        if rest.startswith("<{"):
            end = match_bracket(rest, 0)
            op.properties = parse_dictionary(rest[2 : end - 2])
            rest = rest[end:].lstrip()
        if rest == "({":
            self._open(op, names)
        else:
            self._finish(op, names, rest)

    def _open(self, op: Operation, names: list[str]) -> None:
        region = Region()
        op.add_region(region)
        self.frames.append(_Frame(op, region, names))

    def _close(self, line: str) -> None:
        if not self.frames:
            raise self._error("a region ends that never began")
        frame = self.frames.pop()
        for label, block in frame.labels.items():
            if block.parent is None:
                raise self._error(f"a branch goes to {label}, which is not in this region")
        if not frame.region.blocks:
            frame.region.append(Block())
        if line == "}, {":
            self._open(frame.op, frame.result_names)
        elif line.startswith("})"):
            self._finish(frame.op, frame.result_names, line[2:].lstrip())
        else:
            raise self._error("a region ends in an unknown way")

    def _block(self, line: str) -> None:
        body, _, _ = line.partition("//") if "//" in line and "loc(" not in line else (line, "", "")
        found = _BLOCK.match(body.rstrip())
        if found is None or not self.frames:
            raise self._error("bad block label")
        label, args = found.groups()
        block = self._label(label)
        self.frames[-1].region.append(block)
        for arg in split_top_level(args) if args else ():
            name, _, type = arg.partition(":")
            type, loc = _split_loc(type.strip())
            name = name.strip()
            self.values[name] = block.add_arg(type, _hint(name), loc)

    # -- pieces --------------------------------------------------------------------------------------------------

    def _finish(self, op: Operation, names: list[str], rest: str) -> None:
        """Reads ``{attributes} : (types) -> types loc(…)`` and puts `op` where it belongs."""
        if rest.startswith("{"):
            end = match_bracket(rest, 0)
            op.attributes = parse_dictionary(rest[1 : end - 1])
            rest = rest[end:].lstrip()
        if not rest.startswith(":"):
            raise self._error("the function type is missing")
        signature, op.loc = _split_loc(rest[1:].strip())
        inputs, types = _signature(signature)
        if len(inputs) != len(op.operands):
            raise self._error(f"{len(op.operands)} operands but {len(inputs)} operand types")
        if len(types) != len(names) and names:
            raise self._error(f"{len(names)} result names but {len(types)} result types")
        for index, type in enumerate(types):
            hint = _hint(names[index]) if names else ""
            value = Value(type, op, index, hint)
            op.results.append(value)
            if names:
                self.values[names[index]] = value
        if self.frames:
            region = self.frames[-1].region
            if not region.blocks:
                region.append(Block())
            region.blocks[-1].append(op)
        elif self.top is None:
            self.top = op
        else:
            raise self._error("more than one top operation")

    def _use(self, name: str) -> Value:
        value = self.values.get(name)
        if value is None:
            raise self._error(f"{name} is used before it is defined")
        return value

    def _label(self, name: str) -> Block:
        labels = self.frames[-1].labels
        if name not in labels:
            labels[name] = Block()
        return labels[name]


@functools.lru_cache(4096)  # a program has a few signatures, and is read several times
def _signature(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``(i32, i32) -> i32`` → the types of the operands and those of the results."""
    end = match_bracket(text, 0)
    outputs = text[end:].strip().removeprefix("->").strip()
    if outputs.startswith("(") and match_bracket(outputs, 0) == len(outputs):
        outputs = outputs[1:-1]
    return tuple(split_top_level(text[1 : end - 1])), tuple(split_top_level(outputs))


def _result_names(targets: str) -> list[str]:
    """``%a:2, %b`` → [%a#0, %a#1, %b], with ``%a`` itself for a single result."""
    names: list[str] = []
    for target in targets.split(","):
        name, colon, count = target.strip().partition(":")
        names += [f"{name}#{index}" for index in range(int(count))] if colon else [name]
    return names


def _hint(name: str) -> str:
    """The user's name in ``%acc_12`` (`acc`); nothing for numbered values."""
    base = name[1:].partition("#")[0]
    if _NUMBERED.match(base):
        return ""
    found = _SUFFIXED.match(base)
    return found.group(1) if found else base


def _split_loc(text: str) -> tuple[str, str]:
    """Splits a trailing ``loc(…)``; the location is returned without its ``loc()``."""
    if not text.endswith(")"):
        return text, UNKNOWN_LOC
    start = text.rfind(" loc(")
    while start >= 0:
        inside = text[start + 5 : -1]
        if (inside[:1] == "#" and inside[1:].isalnum()) or match_bracket(text, start + 4) == len(text):  # mostly #loc12
            return text[:start].rstrip(), inside
        start = text.rfind(" loc(", 0, start)
    return text, UNKNOWN_LOC
