"""TMA descriptors: construction on the device in scratch memory, gathers, scatters and reductions.

A gather or scatter accesses one box per row. A reduction reads, combines and writes the elements that a store of the
box writes (PTX ISA, "cp.reduce.async.bulk.tensor"; `tawa.sim.ops.global_memory`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tawa.dialects.builtin import CastOp
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.tt import DescriptorGatherOp, DescriptorReduceOp, DescriptorScatterOp
from tawa.dialects.ttg import GlobalScratchAllocOp
from tawa.dialects.ttng import ReinterpretTensorDescOp, TensormapCreateOp, TensormapFenceproxyAcquireOp
from tawa.ir import Operation, TensorDescType, TensorType, parse_type
from tawa.ir.attributes import read_array, read_int
from tawa.sim.errors import UnsupportedOp
from tawa.sim.machine.values import Context, GlobalTensor, Handler, Pointer, TensorDescriptor
from tawa.sim.numbers import Array, decode, encode, is_float, round_to
from tawa.sim.ops import arithmetic
from tawa.sim.ops.elementwise import as_unsigned, element_of
from tawa.sim.ops.global_memory import block_shape, read_box, write_box

_REDUCTIONS: dict[int, Callable[[Any, Any], Any]] = {
    1: np.add,
    2: np.minimum,
    3: np.maximum,
    6: arithmetic.bitwise_and,
    7: arithmetic.bitwise_or,
    8: arithmetic.bitwise_xor,
}
"""By the number of Triton's enum. Triton's front end does not generate 4 (increment) and 5 (decrement)."""
_FILL_WITH_NAN = 1


def reduce_box(op: Operation, descriptor: TensorDescriptor, at: list[int], bits: Array) -> None:
    """Combines the block at `at` with `bits` by the reduction kind of `op`."""
    function = _REDUCTIONS.get(read_int(op.properties["kind"]))
    if function is None:
        raise UnsupportedOp(f"a reduction of kind {op.properties['kind']}")
    element, kind = descriptor.pointer.tensor.element, parse_type(op.operands[0].type)
    unsigned = isinstance(kind, TensorDescType) and kind.sign == "u"

    def combined(before: Array, given: Array) -> Array:
        old, new = decode(before, element), decode(given, element)
        if unsigned:
            old, new = as_unsigned(old, element), as_unsigned(new, element)
        with np.errstate(all="ignore"):
            result = function(old, new)
        return encode(round_to(result, element) if is_float(element) else result, element)

    write_box(descriptor, at, bits, combined)


def _descriptor_reduce(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    reduce_box(op, args[0], args[2:], encode(args[1], element_of(DescriptorReduceOp(op).source.type)))
    return []


def _descriptor_gather(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    descriptor, rows, column = args
    kind = parse_type(op.result.type)
    assert isinstance(kind, TensorType)
    boxes = [decode(read_box(descriptor, [int(row), column]), kind.element) for row in rows]
    return [np.concatenate(boxes).reshape(kind.shape)]


def _descriptor_scatter(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    descriptor, rows, column, tile = args
    bits = encode(tile, element_of(DescriptorScatterOp(op).source.type))
    for row, line in zip(rows, bits, strict=True):
        write_box(descriptor, [int(row), column], line)
    return []


def _scratch(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    bits = np.zeros(read_int(op.properties["nbytes"]), np.uint8)
    return [Pointer(GlobalTensor("scratch memory", bits, "i8"), 0)]


def _tensormap_create(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    """Operands are innermost first. Strides are in bytes and omit the innermost stride, which is one element."""
    sizes = read_array(op.properties["operandSegmentSizes"])
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    where, base = args[0], args[1]
    shape, strides = (args[starts[place] : starts[place] + sizes[place]] for place in (3, 4))
    width = base.tensor.bits.itemsize
    where.tensor.descriptors[int(where.offset)] = TensorDescriptor(
        base,
        tuple(reversed(shape)),
        (*(int(stride) // width for stride in reversed(strides)), 1),
        (),
        nan_outside=read_int(op.properties["fill_mode"]) == _FILL_WITH_NAN,
    )
    return []


def _reinterpret_tensor_descriptor(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    found = args[0].tensor.descriptors.get(int(args[0].offset))
    if found is None:
        raise UnsupportedOp("a descriptor that was not created by a ttng.tensormap_create of this kernel")
    block = block_shape(op.result.type)
    return [TensorDescriptor(found.pointer, found.shape, found.strides, block, found.nan_outside)]


def _cast(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    """The same descriptor, for other blocks."""
    if not isinstance(args[0], TensorDescriptor):
        raise UnsupportedOp("a cast of something that is no descriptor")
    return [replace(args[0], block=block_shape(op.result.type))]


def _fence(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    return []


DESCRIPTORS: dict[str, Handler] = by_name(
    {
        DescriptorReduceOp: _descriptor_reduce,
        DescriptorGatherOp: _descriptor_gather,
        DescriptorScatterOp: _descriptor_scatter,
        GlobalScratchAllocOp: _scratch,
        TensormapCreateOp: _tensormap_create,
        TensormapFenceproxyAcquireOp: _fence,
        ReinterpretTensorDescOp: _reinterpret_tensor_descriptor,
        CastOp: _cast,
    }
)
"""Handlers, by operation name."""
