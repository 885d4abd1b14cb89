"""Loads that feed a dot: the roots of the producer.

A load feeds a dot when its tile reaches operand A or B of one, through layouts, views, casts and elementwise work,
without passing another dot. How it gets there decides what a slot of a ring holds and how long it is read:

    shared     load → local_alloc (the layout in which TMA delivers) → views → wgmma: the slot replaces the allocation
    registers  anything else: the consumer reads the slot into registers first
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.effects import is_pure
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import DOTS, DescriptorLoadOp
from tawa.dialects.ttg import VIEWS, LocalAllocOp
from tawa.ir import MemDescType, Module, Operation, ScalarType, Value, parse_type
from tawa.ir.attributes import read_int
from tawa.ir.text import match_bracket, parse_dictionary, print_dictionary


@dataclass(frozen=True, slots=True, eq=False)
class DotLoadInfo:
    """One TMA load that feeds dots inside a loop. `payload` is the slot buffer; `allocations` are replaced by it."""

    load: DescriptorLoadOp
    dots: tuple[Operation, ...]
    payload: MemDescType
    allocations: tuple[Operation, ...]

    @property
    def through_registers(self) -> bool:
        """Whether some user needs the tile in registers."""
        return len(self.allocations) < len(self.load.op.result.users)


def find_dots(module: Module) -> list[Operation]:
    """Every dot, in textual order."""
    return [op for op in module.walk() if op.name in DOTS]


def find_dot_loads(module: Module) -> list[DotLoadInfo]:
    """Every TMA load inside a loop that feeds a dot, in textual order."""
    found: list[DotLoadInfo] = []
    for op in module.walk():
        load = DescriptorLoadOp.of(op)
        if load is None or not enclosing_loops(op):
            continue
        dots = dots_fed_by(op.result)
        if not dots:
            continue
        payload = slot_type(module, load)
        allocations = tuple(user for user in op.result.users if _is_slot_like(module, user, payload))
        found.append(DotLoadInfo(load, tuple(dots), payload, allocations))
    return found


def is_persistent(loads: list[DotLoadInfo]) -> bool:
    """Whether some load stands in a loop inside a loop: a program that works on one tile after another."""
    return any(len(enclosing_loops(info.load.op)) > 1 for info in loads)


def operand_bits(loads: list[DotLoadInfo]) -> int:
    """Bits of the widest element that a moved load brings."""
    elements = [parse_type(info.payload.element) for info in loads]
    return max(element.bits for element in elements if isinstance(element, ScalarType))


def dots_fed_by(tile: Value) -> list[Operation]:
    """Dots whose A or B comes from `tile`, in the order in which they are met."""
    dots: list[Operation] = []
    seen: set[Value] = set()
    work = [tile]
    while work:
        value = work.pop(0)
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            user = use.op
            if user.name in DOTS:
                if use.index < 2 and user not in dots:
                    dots.append(user)
            elif is_pure(user) or LocalAllocOp.of(user) or user.name == "ttg.local_load":
                work += user.results
    return dots


def operand_source(value: Value) -> Operation | None:
    """The load at the far end of a dot operand, through layouts, views and casts of one tile; None if there is none."""
    passing = VIEWS | {
        "ttg.local_alloc",
        "ttg.local_load",
        "ttg.convert_layout",
        "tt.trans",
        "tt.fp_to_fp",
        "tt.reshape",
    }
    passing |= {"arith.extf", "arith.truncf", "arith.sitofp", "tt.bitcast"}
    op = value.defining_op
    while op is not None and op.name in passing and op.operands:
        op = op.operands[0].defining_op
    return op


def slot_type(module: Module, load: DescriptorLoadOp) -> MemDescType:
    """The buffer TMA fills for `load`: its tile in the descriptor's layout, of the tile's rank."""
    tile = load.tile
    encoding = load.encoding
    for user in load.op.result.users:
        view = parse_type(user.results[0].type) if LocalAllocOp.of(user) else None
        if isinstance(view, MemDescType) and same_layout(module, view.encoding, encoding):
            encoding = view.encoding
            break
    else:
        encoding = _of_rank(module, encoding, len(tile.shape))
    return MemDescType(tile.shape, tile.element, encoding, "#smem", mutable=True)


def same_layout(module: Module, first: str, second: str) -> bool:
    """Whether two shared encodings place a tile alike; the rank of a batched descriptor does not count."""
    return first == second or _layout(module, first) == _layout(module, second)


def _is_slot_like(module: Module, user: Operation, payload: MemDescType) -> bool:
    if LocalAllocOp.of(user) is None:
        return False
    type = parse_type(user.result.type)
    return (
        isinstance(type, MemDescType)
        and type.shape == payload.shape
        and same_layout(module, type.encoding, payload.encoding)
    )


def _layout(module: Module, encoding: str) -> tuple[str, dict[str, str]]:
    text = module.aliases.get(encoding, encoding)
    start = text.find("<{")
    if start < 0:
        return text, {}
    fields = parse_dictionary(text[start + 2 : match_bracket(text, start) - 2])
    fields.pop("rank", None)
    return text[:start], fields


def _of_rank(module: Module, encoding: str, rank: int) -> str:
    """`encoding` for a tile of `rank` dimensions: unchanged where it already is of that rank."""
    text = module.aliases.get(encoding, encoding)
    start = text.find("<{")
    if start < 0:
        return encoding
    fields = parse_dictionary(text[start + 2 : match_bracket(text, start) - 2])
    if read_int(fields.pop("rank", "2")) == rank:
        return encoding
    if rank != 2:
        fields["rank"] = str(rank)
    return f"{text[:start]}<{{{print_dictionary(fields)}}}>"
