"""Global memory: loads, stores and atomics through pointers, and the boxes of TMA copies.

Every access is checked against the bounds of its tensor. A masked-off lane without `other` is undefined in Triton; here
it is NaN (integers: all bits set), which makes its uses visible in the results. Outside the tensor, a TMA box reads
zero, or NaN if the descriptor is set so, and writes nothing (PTX ISA, "Tensor data movement: out-of-bound access").

The PTX ISA does not state the following. It was measured on an H200, for every element size and swizzle tried:

- The innermost coordinate of a box must be a multiple of 16 bytes, and in a store or a reduction 0 or more.
- A store or a reduction changes whole chunks of 16 bytes. Where a row ends within a chunk, the elements behind it up to
  the end of the chunk are changed, too. Loads have no such effect.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tawa.dialects.declare.declaration import by_name
from tawa.dialects.tt import AddPtrOp, AtomicCASOp, AtomicRMWOp, DescriptorLoadOp, DescriptorStoreOp, LoadOp, StoreOp
from tawa.ir import Operation, PointerType, TensorDescType, TensorType, parse_type
from tawa.ir.attributes import read_array, read_int
from tawa.machine.nvidia import TMA_CHUNK_BYTES
from tawa.sim.errors import MisalignedBox, OutOfBounds, StoreBeforeRow, UnsupportedOp
from tawa.sim.machine.values import Context, Handler, Pointer, TensorDescriptor
from tawa.sim.numbers import Array, decode, encode, is_float, register_dtype, round_to, wrap
from tawa.sim.ops import arithmetic
from tawa.sim.ops.elementwise import element_of
from tawa.sim.ops.tiles import shape_of

_PAD_NAN = 2


def block_shape(type: str) -> tuple[int, ...]:
    """The box shape of a descriptor type."""
    kind = parse_type(type)
    if not isinstance(kind, TensorDescType):
        raise UnsupportedOp(f"a descriptor of type {type}")
    return kind.block.shape


def read_box(descriptor: TensorDescriptor, at: list[int]) -> Array:
    """The bits of the block at `at` (elements); zero or NaN outside the tensor."""
    bits = descriptor.pointer.tensor.bits
    # All bits set is a NaN in every format that TMA fills with NaN.
    box = np.full(descriptor.block, np.iinfo(bits.dtype).max if descriptor.nan_outside else 0, bits.dtype)
    inner, outer = _overlap(descriptor, at, descriptor.shape)
    box[inner] = bits[_elements(descriptor, outer)]
    return box


def write_box(
    descriptor: TensorDescriptor, at: list[int], bits: Array, combined: Callable[[Array, Array], Array] | None = None
) -> None:
    """Writes the part of the block at `at` that lies inside the tensor, and what follows it in its chunks of 16 bytes.

    combined: of the old bits and the new ones, for a reduction.
    """
    if at[-1] < 0:
        name = descriptor.pointer.tensor.name
        raise StoreBeforeRow(f"a box that is stored to {name} begins at element {at[-1]} of its rows")
    chunk = TMA_CHUNK_BYTES // descriptor.pointer.tensor.bits.itemsize
    *outside, length = descriptor.shape
    inner, outer = _overlap(descriptor, at, (*outside, -(-length // chunk) * chunk))
    memory, places, new = descriptor.pointer.tensor.bits, _elements(descriptor, outer), bits.reshape(descriptor.block)
    memory[places] = new[inner] if combined is None else combined(memory[places], new[inner])


def _overlap(
    descriptor: TensorDescriptor, at: list[int], shape: tuple[int, ...]
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The part of the block inside a tensor of this shape, as slices of the block and of the tensor."""
    width = descriptor.pointer.tensor.bits.itemsize
    if at[-1] * width % TMA_CHUNK_BYTES:
        name = descriptor.pointer.tensor.name
        raise MisalignedBox(f"a box of {name} begins at element {at[-1]} of its rows, at {at[-1] * width} bytes")
    inner: list[slice] = []
    outer: list[slice] = []
    for start, size, block in zip(at, shape, descriptor.block, strict=True):
        low, high = min(max(start, 0), size), min(max(start + block, 0), size)
        high = max(low, high)
        inner.append(slice(low - start, high - start) if high > low else slice(0, 0))
        outer.append(slice(low, high))
    return tuple(inner), tuple(outer)


def _elements(descriptor: TensorDescriptor, part: tuple[slice, ...]) -> Array:
    """Memory offsets of a part of the tensor. Only this part is bounds-checked: the declared shape may be larger."""
    places: Array = np.full((1,) * len(part), int(descriptor.pointer.offset), np.int64)
    for dim, (extent, stride) in enumerate(zip(part, descriptor.strides, strict=True)):
        along = [-1 if at == dim else 1 for at in range(len(part))]
        steps: Array = np.arange(extent.start, extent.stop, dtype=np.int64) * int(stride)
        places = places + steps.reshape(along)
    held = descriptor.pointer.tensor.bits.size
    if places.size and not (places.min() >= 0 and places.max() < held):
        name = descriptor.pointer.tensor.name
        raise OutOfBounds(f"a box of {name} has the elements {places.min()} to {places.max()} of {held}")
    return places


def _offsets(pointer: Pointer, mask: Any) -> tuple[Array, Array]:
    """Flat offsets of the active lanes, and the broadcast mask; raises OutOfBounds."""
    offset = np.asarray(pointer.offset, np.int64)
    active = np.broadcast_to(np.asarray(True if mask is None else mask, np.bool_), offset.shape)
    chosen = offset[active]
    size = pointer.tensor.bits.size
    if chosen.size and (chosen.min() < 0 or chosen.max() >= size):
        bad = chosen[(chosen < 0) | (chosen >= size)][0]
        raise OutOfBounds(f"element {bad} of {pointer.tensor.name}, which has {size} elements")
    return chosen, active


def _value(tile: Array, type: str) -> Any:
    """The tile, or its element if the type is scalar."""
    if isinstance(parse_type(type), TensorType):
        return tile
    return tile[()] if is_float(type) else wrap(int(tile), type)


def _pointer(value: Any) -> Pointer:
    if not isinstance(value, Pointer):
        raise UnsupportedOp("a pointer that is not an offset from an argument")
    return value


def gather(address: Any, mask: Any, other: Any, element: str) -> Array:
    """The values at an address or a tile of addresses; `other` in masked-off lanes."""
    pointer = _pointer(address)
    chosen, active = _offsets(pointer, mask)
    tile = np.array(np.broadcast_to(np.asarray(other, register_dtype(element)), active.shape))
    tile[active] = decode(pointer.tensor.bits[chosen], element)
    return tile


def _load(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    pointer, mask, other = optional(op, args, 3)
    element = element_of(op.result.type)
    missing = np.nan if is_float(element) else -1
    return [_value(gather(pointer, mask, missing if other is None else other, element), op.result.type)]


def _store(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    pointer, value, mask = (*args, None)[:3]
    pointer = _pointer(pointer)
    chosen, active = _offsets(pointer, mask)
    bits = encode(np.broadcast_to(np.asarray(value), active.shape), element_of(StoreOp(op).source.type))
    pointer.tensor.bits[chosen] = bits[active]
    return []


def optional(op: Operation, args: list[Any], count: int) -> list[Any]:
    """Operands by position, None for absent ones: from operandSegmentSizes if present, otherwise in order."""
    sizes = op.properties.get("operandSegmentSizes")
    if sizes is None:
        return [*args, *([None] * (count - len(args)))]
    rest = list(args)
    return [rest.pop(0) if size else None for size in read_array(sizes)]


def _magnitude(value: Any) -> int:
    """The unsigned value of an integer."""
    return int(value) & ((1 << (8 * value.dtype.itemsize)) - 1)


def _unsigned_maximum(old: Any, new: Any) -> Any:
    return max(old, new, key=_magnitude)


def _unsigned_minimum(old: Any, new: Any) -> Any:
    return min(old, new, key=_magnitude)


def _exchange(old: Any, new: Any) -> Any:
    return new


_RMW: dict[int, Callable[[Any, Any], Any]] = {
    1: arithmetic.bitwise_and,
    2: arithmetic.bitwise_or,
    3: arithmetic.bitwise_xor,
    4: operator.add,
    5: operator.add,
    6: max,
    7: min,
    8: _unsigned_maximum,
    9: _unsigned_minimum,
    10: _exchange,
}
"""By the number of Triton's enum."""


def _atomic_rmw(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    kind = read_int(op.properties["atomic_rmw_op"])
    pointer, value, mask = (*args, None)[:3]
    if kind not in _RMW:
        raise UnsupportedOp(f"atomic operation number {kind}")

    operands = np.asarray(value, register_dtype(element_of(AtomicRMWOp(op).source.type)))

    def change(old: Any, index: int) -> Any:
        return _RMW[kind](old, operands.flat[index])

    return [_update(op, _pointer(pointer), mask, change)]


def _atomic_cas(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    pointer, expected, value = args

    def swap(old: Any, index: int) -> Any:
        return np.asarray(value).flat[index] if old == np.asarray(expected).flat[index] else old

    return [_update(op, _pointer(pointer), None, swap)]


def _update(op: Operation, pointer: Pointer, mask: Any, change: Callable[[Any, int], Any]) -> Any:
    """Reads, modifies and writes lane by lane; returns the old values."""
    element = pointer.tensor.element
    _, active = _offsets(pointer, mask)
    before = np.zeros(active.shape, register_dtype(element))
    offsets, bits = np.asarray(pointer.offset, np.int64), pointer.tensor.bits
    for index in np.flatnonzero(active):
        at = offsets.flat[index]
        old = decode(bits[at : at + 1], element)[0]
        before.flat[index] = old
        with np.errstate(over="ignore"):
            new = change(old, int(index))
        bits[at] = encode(round_to(new, element) if is_float(element) else new, element)[()]
    return _value(before, op.results[0].type) if op.results else before


def _addptr(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    pointer, offset = _pointer(args[0]), args[1]
    kind = parse_type(element_of(op.result.type))
    if isinstance(kind, PointerType) and kind.pointee != pointer.tensor.element:
        raise UnsupportedOp(f"a pointer to {pointer.tensor.element} used as {kind}")
    moved = np.asarray(pointer.offset, np.int64) + np.asarray(offset, np.int64)
    return [Pointer(pointer.tensor, moved if shape_of(op.result.type) else int(moved))]


def make_descriptor(op: Operation, args: list[Any]) -> TensorDescriptor:
    """The result of a ``tt.make_tensor_descriptor``."""
    base = _pointer(args[0])
    nan = read_int(op.properties.get("padding", "1 : i32")) == _PAD_NAN
    rank = len(block_shape(op.result.type))
    shape, strides = args[1 : 1 + rank], args[1 + rank : 1 + 2 * rank]
    return TensorDescriptor(base, tuple(shape), tuple(strides), block_shape(op.result.type), nan, op)


def _descriptor_load(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    kind = parse_type(op.result.type)
    assert isinstance(kind, TensorType)
    return [decode(read_box(args[0], args[1:]), kind.element).reshape(kind.shape)]


def _descriptor_store(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    write_box(args[0], args[2:], encode(args[1], element_of(DescriptorStoreOp(op).source.type)))
    return []


MEMORY: dict[str, Handler] = by_name(
    {
        LoadOp: _load,
        StoreOp: _store,
        AtomicRMWOp: _atomic_rmw,
        AtomicCASOp: _atomic_cas,
        AddPtrOp: _addptr,
        DescriptorLoadOp: _descriptor_load,
        DescriptorStoreOp: _descriptor_store,
    }
)
"""Handlers, by operation name."""
