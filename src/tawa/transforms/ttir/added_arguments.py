"""Added arguments: appends a host descriptor, in the form that Triton's launcher passes, a number or a pointer.

    (…) →  (…, !tt.tensordesc<tensor<128x64xf16>> {tawa.base = 0 : i32}, i32, i32, i64, i64)

The descriptor is followed by its sizes (i32) and its strides (i64), slowest dimension first.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.dialects.parameters import ADDED_BASE
from tawa.dialects.tt import FuncOp
from tawa.ir import TensorDescType, TensorType, Value
from tawa.ir.text import split_top_level
from tawa.symbolic.host.launch_spec import DescriptorSpec


def add_descriptor(function: FuncOp, spec: DescriptorSpec, number: int, nested: bool) -> Value:
    """Appends the arguments for one descriptor; returns the descriptor."""
    rank = len(spec.block)
    types = (descriptor_type(spec.block, spec.element, nested), *("i32",) * rank, *("i64",) * rank)
    attributes = [f"{{{ADDED_BASE} = {spec.base} : i32}}", *["{}"] * (2 * rank)]
    return _add(function, f"tawa_desc_{number}", types, attributes)


def add_number(function: FuncOp, name: str) -> Value:
    """Appends an i32."""
    return _add(function, name, ("i32",), ["{}"])


def add_pointer(function: FuncOp, name: str, element: str, aligned: bool = False) -> Value:
    """Appends a pointer to elements of a type. aligned: to 16 bytes."""
    return _add(function, name, (f"!tt.ptr<{element}>",), ["{tt.divisibility = 16 : i32}" if aligned else "{}"])


def _add(function: FuncOp, name: str, types: Sequence[str], attributes: Sequence[str]) -> Value:
    """Appends arguments that share a name; returns the first."""
    block = function.body
    before = len(block.args)
    for type in types:
        block.add_arg(type, name, f'"{name}"({function.op.loc})')
    properties = function.op.properties
    known = split_top_level(properties.get("arg_attrs", "[]")[1:-1]) or ["{}"] * before
    properties["arg_attrs"] = f"[{', '.join((*known, *attributes))}]"
    _, arrow, results = properties["function_type"].rpartition(" -> ")
    properties["function_type"] = f"({', '.join(arg.type for arg in block.args)}){arrow}{results}"
    return block.args[before]


def descriptor_type(block: tuple[int, ...], element: str, nested: bool) -> str:
    """The type of a descriptor. nested: in the spelling of Triton 3.6 and 3.7, with a tensor type inside."""
    sign = "s" if element.startswith("i") else ""
    return str(TensorDescType(TensorType(block, element), nested, sign))
