"""TMA descriptors as values: made on the device, in scratch memory, and what they do besides plain copies.

Rows are gathered and scattered one box each; a reduction reads, changes and writes the box, element by element, inside
the tensor only (PTX ISA, "cp.reduce.async.bulk.tensor").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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
    6: arithmetic.both,
    7: arithmetic.either,
    8: arithmetic.differ,
}
"""By Triton's numbers; 4 and 5, which count up and down to a bound, Triton's front end does not make."""
_FILL_WITH_NAN = 1


def reduce_box(op: Operation, descriptor: TensorDescriptor, at: list[int], bits: Array) -> None:
    """Combines the block at `at` with `bits`, as the kind of `op` says."""
    function = _REDUCTIONS.get(read_int(op.properties["kind"]))
    if function is None:
        raise UnsupportedOp(f"a reduction of kind {op.properties['kind']}")
    element = descriptor.pointer.tensor.element
    old, new = decode(read_box(descriptor, at), element), decode(bits.reshape(descriptor.block), element)
    kind = parse_type(op.operands[0].type)
    if isinstance(kind, TensorDescType) and kind.block.element.startswith("u"):
        old, new = as_unsigned(old, element), as_unsigned(new, element)
    with np.errstate(all="ignore"):
        result = function(old, new)
    write_box(descriptor, at, encode(round_to(result, element) if is_float(element) else result, element))


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
    """Sizes and strides come innermost first, strides in bytes and without the innermost, which is one element."""
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
        raise UnsupportedOp("a descriptor that no ttng.tensormap_create of this kernel made")
    block = block_shape(op.result.type)
    return [TensorDescriptor(found.pointer, found.shape, found.strides, block, found.nan_outside)]


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
    }
)
"""The meaning of each operation, by name."""
