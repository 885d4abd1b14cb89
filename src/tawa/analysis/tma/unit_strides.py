"""Unit strides: arguments that must be 1 so that tiles are boxes, but that Triton does not specialise.

    %a + rows·%sm + ks·%sk        sm divisible by 16, sk an argument that Triton does not specialise   →   sk

A tile is a box only if one of its dimensions is contiguous in memory. Triton usually turns a stride of 1 into a
constant; it does not if the parameter is annotated (``stride_ak: int``) or listed in ``do_not_specialize``.

An argument is a unit stride if a load that feeds a dot in a loop is not a box otherwise, and it is the only candidate
among the strides of the tile. A stride with a known divisor of 2 is not a candidate; of several candidates, the last
dimension's is chosen. If loads need unit strides, those that stores of tiles need are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tawa.analysis.rings.loads import from_dots
from tawa.analysis.tma.accesses import is_operand_load, tile_of
from tawa.analysis.tma.host_sizes import HostSizes
from tawa.dialects.control_flow import structured_kernel
from tawa.dialects.declare.declaration import global_address
from tawa.dialects.scalars import width_of
from tawa.dialects.tt import FuncOp, StoreOp
from tawa.ir import Module, Operation, Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.dim_relations import has_rows, shape_of
from tawa.symbolic.host.expr import Argument
from tawa.symbolic.polynomial import ONE
from tawa.symbolic.value_ranges import ValueRanges


def find_unit_strides(module: Module, may_be_one: frozenset[str]) -> tuple[Argument, ...]:
    """The unit strides of TTIR without layouts; none if the kernel is not a single structured function.

    may_be_one: names of the parameters that Triton does not specialise for 1. The elements of a tuple share its name,
    so that only the index of an argument identifies it.
    """
    function = structured_kernel(module)
    if not may_be_one or function is None:
        return ()
    units = _Units(module, function, may_be_one)
    products = from_dots(module)
    chosen = dict.fromkeys(units.of(op for op in function.op.walk() if is_operand_load(op, products=products)))
    if chosen:
        chosen |= dict.fromkeys(units.of(op for op in function.op.walk() if _is_tile_store(op)))
    return tuple(Argument(it.index, units.host.name(it)) for it in chosen)


class _Units:
    """The unit strides of one function."""

    def __init__(self, module: Module, function: FuncOp, may_be_one: frozenset[str]) -> None:
        self.affine = Affine()
        self.facts = ValueRanges(function, self.affine)
        self.host = HostSizes(module, function, self.affine)
        self.open = {
            arg
            for arg in function.body.args
            if width_of(arg.type) in (32, 64)
            and self.host.name(arg) in may_be_one
            and self.facts.value_multiple(arg) % 2
        }

    def of(self, accesses: Iterable[Operation]) -> Iterator[Value]:
        """The unit strides that the tiles of accesses need."""
        for access in accesses:
            address = self.affine.tile(global_address(access))
            if address is None or ONE in (*address.lanes.values(), *address.within.values()):
                continue
            lanes = [address.lanes[dim] for dim in sorted(address.lanes) if shape_of(tile_of(access))[dim] > 1]
            strides = [arg for lane in lanes for arg in self.open if lane == self.affine.poly(arg)]
            yield from strides[-1:]


def _is_tile_store(op: Operation) -> bool:
    return StoreOp.matches(op) and has_rows(tile_of(op))
