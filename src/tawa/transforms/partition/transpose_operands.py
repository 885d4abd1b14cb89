"""Transpose operands: a converter transposes 8-bit tiles between two rings.

    %v = aref.get %ring[%i]               %v = aref.get %ring[%i]
    %x = local_load %v                    aref.put %transposed[%j] { ^(%slot): transpose %v into %slot }
    aref.consumed %ring[%i]          →    aref.consumed %ring[%i]
    %b = local_alloc %x                   %b = aref.get %transposed[%j]
    dot %a, %b                            dot %a, %b
                                          aref.consumed %transposed[%j]

`partition` makes a partition of what stands between the two rings. `transpose_tile` has the code that transposes a
tile.

If the tile is reordered (`analysis.rings.transposed`), each place of the summed dimension has another element. The
other operand of its dots is then taken in the same order, which renames its registers:

    %o = convert_layout %p : #mma to #dot_op        %o = convert_layout (reshape (trans (reshape %p))) : … to #dot_op

Requires: `insert_arefs`; channels of this module, each with its depth in the Plan.
Ensures: the dots read the slots of the second ring, and nothing transposes these tiles in registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.rings.channels import ChannelInfo, SiteInfo
from tawa.analysis.rings.guards import find_guards
from tawa.analysis.rings.loads import DotLoadInfo
from tawa.analysis.rings.transposed import TransposedInfo, dots_of_transposed
from tawa.dialects.aref import ConsumedOp, FilledOp, GetOp, PutOp
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import LocalLoadOp
from tawa.ir import Block, Builder, Module, Operation, Region, TensorType, Value, parse_type
from tawa.machine.distribution import distribution_at
from tawa.plan import Plan
from tawa.plan.defaults import PRODUCER_REGISTERS, piece_bytes_of
from tawa.transforms.lowering.slots import make_mutable
from tawa.transforms.partition.insert_arefs import create_ring, thread_count
from tawa.transforms.partition.transpose_tile import reordered, transpose_tile
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class TransposeOperands:
    """Options: the channels found in the module, and the Plan that gives each ring its depth."""

    channels: tuple[ChannelInfo, ...]
    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Inserts the second ring of every tile that a converter transposes."""
        converted = [channel for channel in self.channels if channel.converted]
        depths = {ring.name: ring.slots for ring in self.plan.rings}
        function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
        puts = [op for op in function.op.walk() if PutOp.of(op)] if converted else []
        work = find_guards(function, puts).work
        registers = next((it.registers for it in self.plan.partitions if it.role == "converter"), None)
        piece_bytes = piece_bytes_of(registers or PRODUCER_REGISTERS)
        for channel in converted:
            ring, first = create_ring(work, function.op.loc, channel, depths[channel.name])
            sites = [_transpose_site(module, ring, first, site, piece_bytes) for site in channel.sites]
            thread_count(work, first, sites)
        return PassResult(changed=bool(converted))


def _transpose_site(
    module: Module, ring: Value, first: Value, site: SiteInfo, piece_bytes: int
) -> tuple[Operation, Operation, Operation]:
    """Puts the transposed tiles of a site into the second ring; returns the put, the get and the release."""
    filling = site.loads[0].load.op.parent_op
    assert filling is not None and PutOp.matches(filling)
    get, release = _reading(filling)
    builder = Builder.before(release)
    body = Block(site.payload, ["slot"] * len(site.payload))
    put = builder.create(PutOp.NAME, (ring, first), regions=[Region([body])])
    transposed_get = Builder.after(release).create(
        GetOp.NAME, (ring, first), site.payload, hints=[view.hint for view in get.results]
    )
    inside = Builder.at_end(body, put.loc)
    for info, source, slot, view in zip(site.loads, get.results, body.args, transposed_get.results, strict=True):
        assert info.transposed is not None
        if info.transposed.reordered:
            _reorder_operands(info.transposed)
        _replace(info, source, view)
        transpose_tile(inside, module, source, slot, info.transposed.order, piece_bytes)
    inside.create(FilledOp.NAME)
    consumed = Builder.after(site.last_use).create(ConsumedOp.NAME, (ring, first))
    return put, transposed_get, consumed


def _reading(put: Operation) -> tuple[Operation, Operation]:
    """The get and the release of the slot that a put fills, in its block."""
    assert put.parent is not None
    behind = put.parent.ops[put.parent.index_of(put) :]
    get = next(op for op in behind if (it := GetOp.of(op)) and it.ring is PutOp(put).ring)
    release = next(op for op in behind if (it := ConsumedOp.of(op)) and it.ring is PutOp(put).ring)
    return get, release


def _replace(info: DotLoadInfo, source: Value, view: Value) -> None:
    """Lets the dots read a transposed slot in place of what the consumer transposed in registers."""
    assert info.transposed is not None and view.defining_op is not None
    for allocation in info.transposed.allocations:
        allocation.result.replace_all_uses_with(view)
        allocation.erase()
    make_mutable(view, Builder.after(view.defining_op))
    for move in reversed(info.transposed.moves):
        move.erase()
    for load in [user for user in source.users if LocalLoadOp.matches(user)]:
        load.erase()


def _reorder_operands(transposed: TransposedInfo) -> None:
    """Takes the left operands of all dots of a transposed tile in its order."""
    for dot in dots_of_transposed(transposed):
        convert = dot.a.defining_op
        assert convert is not None
        source, builder = convert.operands[0], Builder.before(convert)
        tile, layout = parse_type(source.type), distribution_at(convert, source.type)
        assert isinstance(tile, TensorType) and layout is not None
        renamed, _ = reordered(builder, source, layout, transposed.order)
        operand = builder.create(convert.name, (renamed,), (convert.result.type,), hints=(convert.result.hint,)).result
        dot.op.set_operand(0, operand)
        if not convert.result.uses:
            convert.erase()
