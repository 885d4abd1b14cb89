"""The parameters of an emitted kernel: arguments of the kernel's function in TTGIR that it uses.

A descriptor is one parameter, though TTGIR has its sizes and strides, too. What Tawa's launcher adds is named after
what it is: the descriptor of what `a_ptr` points to is `a_desc`.

Numbers of TTGIR have no sign, and Gluon's have that of the argument. The body is written for numbers with a sign, so
that a parameter without one begins as one with it: ``n = n.to(gl.int32)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tawa.dialects.parameters import GRID_SIZE, PROGRAMS, SEMAPHORES, TILE_COUNTER, WORKSPACE, parameter_name
from tawa.dialects.tt import FuncOp
from tawa.emit.python.names import Names
from tawa.emit.rings.recognised import bare
from tawa.ir import Module, Value
from tawa.ir.types import TRITON_NAMES, PointerType, ScalarType, TensorDescType, parse_type

ADDED = {
    PROGRAMS: "programs", TILE_COUNTER: "tile_counter", WORKSPACE: "workspace", SEMAPHORES: "semaphores",
    **{f"{GRID_SIZE}{axis}": f"grid_{letter}" for axis, letter in enumerate("xyz")},
}  # fmt: skip
"""Names of arguments that Tawa added, by their names in TTGIR."""
ELEMENTS = {**TRITON_NAMES, "i1": "u1"}
"""Triton's names of types, by MLIR's; the others are the same."""
_INTEGER = re.compile(r"(?P<sign>[iu])(?P<bits>8|16|32|64)")
_UNSIGNED = re.compile(r"(?P<pointer>\*k?)?u(?P<bits>8|16|32|64)")


@dataclass(frozen=True, slots=True)
class Box:
    """What a descriptor moves. layout: the name of the constant that has its layout in shared memory."""

    block: tuple[int, ...]
    element: str
    layout: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter. index: of the argument of the kernel's function. type: in Triton's notation, without a layout.

    divisible: by 16. added: the name of what Tawa added, in TTGIR; empty for an argument of the user's.
    """

    name: str
    index: int
    type: str
    divisible: bool = False
    box: Box | None = None
    added: str = ""

    @property
    def source(self) -> str:
        """Its declaration. An integer is annotated: Triton would specialise a plain argument of value 1."""
        found = _INTEGER.fullmatch(self.type)
        return f"{self.name}: gl.{found['sign'].strip('i')}int{found['bits']}" if found else self.name

    @property
    def signed(self) -> str:
        """The statement that makes a parameter without a sign one with it; empty for others."""
        found = _UNSIGNED.fullmatch(self.type)
        if found is None:
            return ""
        type = f"gl.int{found['bits']}"
        return f"{self.name} = {self.name}.to({f'tl.pointer_type({type})' if found['pointer'] else type})"


def find_parameters(
    module: Module, function: FuncOp, names: Names, layout_of: Callable[[str], str],
    types: Mapping[int, str] = MappingProxyType({}),
) -> tuple[Parameter, ...]:  # fmt: skip
    """Names the arguments of the kernel's function, and what is inside of descriptors.

    layout_of: as `Body.layout`. types: of arguments of launches, by index, in Triton's notation, where they are known.
    """
    found: list[Parameter] = []
    arguments = list(function.body.args)
    said = {argument: parameter_name(module, argument) for argument in arguments}
    at = 0
    while at < len(arguments):
        argument, type = arguments[at], parse_type(arguments[at].type)
        rank = len(type.block.shape) if isinstance(type, TensorDescType) else 0
        parts = arguments[at : at + 1 + 2 * rank]
        if any(it.uses for it in parts):
            box = None
            if isinstance(type, TensorDescType):
                layout = layout_of(type.block.encoding)
                box = Box(tuple(type.block.shape), type.block.element, layout)
            base = function.memory_of(argument)
            wish = descriptor_name(said[base], said.values()) if base else ADDED.get(said[argument], said[argument])
            added = said[argument] if wish != said[argument] else ""
            name = names.fresh(wish)
            names.give(argument, name, function.body if box is None else None)
            divisible = "tt.divisibility" in function.attributes_of(argument)
            given = types.get(at, "")
            type_of = given if _UNSIGNED.fullmatch(given) else _type_of(argument)
            found.append(Parameter(name, at, type_of, divisible, box, added))
            inside = [f"{name}.{field}[{dim}]" for field in ("shape", "strides") for dim in range(rank)]
            names.sources.update(zip(parts[1:], inside, strict=True))
        at += len(parts)
    return tuple(found)


def descriptor_name(base: str, taken: Collection[str]) -> str:
    """The name of a descriptor of what `base` points to, or of memory that the descriptor `base` describes."""
    stem = bare(base) or base
    return f"{stem}_desc" if f"{stem}_desc" not in taken else f"{stem}_tiles"


def _type_of(argument: Value) -> str:
    match parse_type(argument.type):
        case TensorDescType(block=block, described=element):
            return f"tensordesc<{ELEMENTS.get(element, element)}{list(block.shape)}>"
        case PointerType(pointee=element):
            return f"*{ELEMENTS.get(element, element)}"
        case ScalarType(name=name):
            return ELEMENTS.get(name, name)
        case other:
            raise AssertionError(f"a kernel's argument of type {other}")
