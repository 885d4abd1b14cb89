"""TTIR programs for the analyses of addresses, put together operation by operation.

program = TileProgram(a="!tt.ptr<f16>", m="i32")
rows = program.add(program.splat(program.mul(program.pid(), program.number(64)), 64), program.range(64))
"""

from __future__ import annotations

from collections.abc import Callable

from tawa.dialects.tt import FuncOp
from tawa.ir import Block, Builder, Module, Operation, Region, TensorType, Value, parse_type
from tawa.ir.attributes import array_attr, int_attr

_LOAD = {"boundaryCheck": "array<i32>", "cache": "1 : i32", "evict": "1 : i32", "isVolatile": "false"}
EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = range(6)


class TileProgram:
    """One function; `divisible` names the arguments that 16 divides. Operations go where `block` is."""

    def __init__(self, divisible: tuple[str, ...] = (), **arguments: str) -> None:
        self.block = Block()
        self.args = {name: self.block.add_arg(type, name, f'"{name}"(unknown)') for name, type in arguments.items()}
        marks = ", ".join("{tt.divisibility = 16 : i32}" if name in divisible else "{}" for name in arguments)
        types = ", ".join(arguments.values())
        properties = {"function_type": f"({types}) -> ()", "sym_name": '"kernel"', "sym_visibility": '"public"'}
        function = Operation("tt.func", properties={"arg_attrs": f"[{marks}]", **properties})
        function.add_region(Region([self.block]))
        top = Operation("builtin.module")
        top.add_region(Region([Block()]))
        top.regions[0].block.append(function)
        self.module = Module(top)
        self.function = FuncOp(function)
        self._entry = self.block

    def op(self, name: str, operands: list[Value], type: str, **properties: str) -> Value:
        return Builder.at_end(self.block).create(name, operands, (type,), properties=properties).result

    def effect(self, name: str, operands: list[Value], **properties: str) -> Operation:
        return Builder.at_end(self.block).create(name, operands, (), properties=properties)

    def finish(self) -> Module:
        self.block = self._entry
        self.effect("tt.return", [])
        return self.module

    # -- scalars ---------------------------------------------------------------------------------------------------

    def number(self, value: int, type: str = "i32") -> Value:
        return self.op("arith.constant", [], type, value=int_attr(value, type))

    def pid(self, axis: int = 0) -> Value:
        return self.op("tt.get_program_id", [], "i32", axis=int_attr(axis))

    def binary(self, name: str, left: Value, right: Value) -> Value:
        return self.op(f"arith.{name}", [left, right], left.type)

    def add(self, left: Value, right: Value) -> Value:
        pointer = "!tt.ptr" in left.type
        return self.op("tt.addptr" if pointer else "arith.addi", [left, right], left.type)

    def mul(self, left: Value, right: Value) -> Value:
        return self.binary("muli", left, right)

    def scalar_load(self, pointer: Value) -> Value:
        return self.op("tt.load", [pointer], "i32", operandSegmentSizes=array_attr([1, 0, 0]), **_LOAD)

    # -- tiles -----------------------------------------------------------------------------------------------------

    def range(self, size: int, start: int = 0) -> Value:
        return self.op("tt.make_range", [], f"tensor<{size}xi32>", start=int_attr(start), end=int_attr(start + size))

    def splat(self, value: Value, *shape: int) -> Value:
        return self.op("tt.splat", [value], f"tensor<{'x'.join(map(str, shape))}x{value.type}>")

    def expand(self, value: Value, axis: int) -> Value:
        kind = tensor(value)
        shape = (*kind.shape[:axis], 1, *kind.shape[axis:])
        return self.op("tt.expand_dims", [value], str(TensorType(shape, kind.element)), axis=int_attr(axis))

    def broadcast(self, value: Value, *shape: int) -> Value:
        return self.op("tt.broadcast", [value], str(TensorType(shape, tensor(value).element)))

    def spread(self, value: Value, axis: int, *shape: int) -> Value:
        """A vector as a tile of `shape` that changes along the other axis."""
        return self.broadcast(self.expand(value, axis), *shape)

    def compare(self, left: Value, right: Value, predicate: int = LESS) -> Value:
        kind = parse_type(left.type)
        type = str(TensorType(kind.shape, "i1")) if isinstance(kind, TensorType) else "i1"
        return self.op("arith.cmpi", [left, right], type, predicate=int_attr(predicate, "i64"))

    def both(self, left: Value, right: Value) -> Value:
        return self.binary("andi", left, right)

    def zeros(self, like: Value, text: str = "0.000000e+00") -> Value:
        """A constant tile of the elements that `like` points to."""
        kind = tensor(like)
        element = kind.element.removeprefix("!tt.ptr<").rstrip(">")
        type = str(TensorType(kind.shape, element))
        return self.op("arith.constant", [], type, value=f"dense<{text}> : {type}")

    def load(
        self,
        pointers: Value,
        mask: Value | None = None,
        other: Value | None = None,
        more: dict[str, str] | None = None,
    ) -> Value:
        kind = tensor(pointers)
        element = kind.element.removeprefix("!tt.ptr<").rstrip(">")
        operands = [value for value in (pointers, mask, other) if value is not None]
        sizes = array_attr([1, int(mask is not None), int(other is not None)])
        properties = {"operandSegmentSizes": sizes, **_LOAD, **(more or {})}
        return self.op("tt.load", operands, str(TensorType(kind.shape, element)), **properties)

    def store(self, pointers: Value, value: Value, mask: Value | None = None) -> Operation:
        operands = [pointers, value, *([mask] if mask is not None else [])]
        return self.effect("tt.store", operands, boundaryCheck="array<i32>", cache="1 : i32", evict="1 : i32")

    def dot(self, a: Value, b: Value) -> Value:
        (m, _), (_, n) = tensor(a).shape, tensor(b).shape
        type = f"tensor<{m}x{n}xf32>"
        zeros = self.op("arith.constant", [], type, value=f"dense<0.000000e+00> : {type}")
        return self.op("tt.dot", [a, b, zeros], type, inputPrecision="0 : i32", maxNumImpreciseAcc="0 : i32")

    # -- control flow ----------------------------------------------------------------------------------------------

    def loop(
        self, bounds: tuple[Value, Value, Value], inits: list[Value], body: Callable[[list[Value]], list[Value]]
    ) -> Operation:
        """A ``scf.for``; `body` gets the loop variable and what is carried, and returns what is carried on."""
        outer = self.block
        op = Builder.at_end(outer).create("scf.for", [*bounds, *inits], tuple(init.type for init in inits))
        self.block = Block([bounds[0].type, *(init.type for init in inits)])
        op.add_region(Region([self.block]))
        ends = body(self.block.args)
        self.effect("scf.yield", ends)
        self.block = outer
        return op


def tensor(value: Value) -> TensorType:
    kind = parse_type(value.type)
    assert isinstance(kind, TensorType)
    return kind
