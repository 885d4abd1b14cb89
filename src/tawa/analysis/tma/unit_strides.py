"""Strides of one that Triton leaves open: arguments that tiles need to be 1, so that they are boxes.

    %a + rows·%sm + ks·%sk        sm divisible by 16, sk an argument that Triton does not specialise   →   sk

A tile is a box only if it lies in memory element by element along one dimension. Of most kernels Triton says where: a
stride that is 1 becomes a constant. It does not where the parameter is annotated (``stride_ak: int``) or named in
``do_not_specialize``.

A stride is one of them if loads that feed a dot in a loop are no boxes otherwise, and it is the only one of its tile
that may be: what is divisible by 2 is not 1, and of several the last dimension's is. Where loads need one, those that
the stores of tiles need follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tawa.analysis.host_sizes import HostSizes
from tawa.analysis.rings.loads import from_dots
from tawa.analysis.tma.accesses import is_operand_load, tile_of
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
    """Those arguments, of TTIR without layouts; none where a function is not structured, or there are several.

    may_be_one: names of the parameters whose value is not told when it is 1. The elements of a tuple share its name, so
    that only the place of an argument says which it is.
    """
    functions = [view for op in module.body.ops if (view := FuncOp.of(op))]
    if not may_be_one or len(functions) != 1 or not functions[0].structured:
        return ()
    units = _Units(module, functions[0], may_be_one)
    products = from_dots(module)
    chosen = dict.fromkeys(units.of(op for op in functions[0].op.walk() if is_operand_load(op, products=products)))
    if chosen:
        chosen |= dict.fromkeys(units.of(op for op in functions[0].op.walk() if _is_tile_store(op)))
    return tuple(Argument(it.index, units.host.name(it)) for it in chosen)


class _Units:
    """Which arguments of one function are strides of 1, if tiles are boxes."""

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
        """The strides that tiles need to be 1."""
        for access in accesses:
            address = self.affine.tile(global_address(access))
            if address is None or any(lane == ONE for lane in address.lanes.values()):
                continue
            lanes = [address.lanes[dim] for dim in sorted(address.lanes) if shape_of(tile_of(access))[dim] > 1]
            strides = [arg for lane in lanes for arg in self.open if lane == self.affine.poly(arg)]
            yield from strides[-1:]


def _is_tile_store(op: Operation) -> bool:
    return StoreOp.matches(op) and has_rows(tile_of(op))


__all__ = ["find_unit_strides"]
