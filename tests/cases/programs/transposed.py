"""A GEMM on 8-bit tiles of 64×64 whose B is stored as rows, so that it is transposed on the way to the dot."""

from __future__ import annotations

from dataclasses import replace

from tawa.analysis.rings.channels import ChannelInfo, find_channels
from tawa.analysis.rings.loads import find_dot_loads
from tawa.analysis.rings.transposed import TransposedInfo, find_transposed, free_order
from tawa.ir import Module
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import BUFFER, TILE, TRANSPOSED, op

_NARROW = (("xf16", "xf8E4M3FN"), ("elementBitWidth = 16", "elementBitWidth = 8"), ("Width = 128", "Width = 64"))


def gemm(*, moves: bool = False, chained: bool = False) -> str:
    """The loop of `programs.gemm_loop`. moves: B is a transposed view of rows of columns, and so is its tile.

    chained: A is the result of another dot, which became an operand in registers.
    """
    body = programs.iteration()
    if moves:
        transpose = op("tt.trans", "%b", TILE, "%t", TILE, properties="order = array<i32: 1, 0>")
        body = body.replace(programs.alloc("y", "b"), f"{transpose}\n{programs.alloc('y', 't')}")
    else:
        body = body.replace(programs.alloc("y", "b"), op("ttg.local_alloc", "%b", TILE, "%y", TRANSPOSED))
        body = body.replace(f"({BUFFER}, {BUFFER}, {programs.ACC})", f"({BUFFER}, {TRANSPOSED}, {programs.ACC})")
    if chained:
        body = _chained(body)
    loop = programs.for_loop(body, carried={"sum": ("zeros", "next", programs.ACC)}, results="%acc", line=9)
    return narrowed(programs.kernel(f"{loop}\n{programs.store(line=20)}"))


def narrowed(text: str) -> str:
    """The same program on elements of 8 bits."""
    for wide, narrow in _NARROW:
        text = text.replace(wide, narrow)
    return text


def _chained(body: str) -> str:
    """The dot takes the result of a dot of A with itself, as an operand in registers, in place of A."""
    operand = "tensor<64x64xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 4}>>"
    result = "tensor<64x64xf16, #mma>"
    first = programs.dot("scores", "x", "x", "zeros", line=11)
    convert = "\n".join(
        (
            first,
            op("arith.truncf", "%scores", programs.ACC, "%weights", result),
            op("ttg.convert_layout", "%weights", result, "%left", operand),
        )
    )
    before, dot = body.rsplit("\n", 1)
    dot = dot.replace("(%x, ", "(%left, ").replace(f"({BUFFER}, ", f"({operand}, ")
    return f"{before}\n{convert}\n{dot}"


def channels_with_converter(module: Module, reordered: bool = False) -> tuple[ChannelInfo, ...]:
    """The channels of a program if a converter transposes every tile that it can. reordered: in the free order."""
    loads = find_dot_loads(module)
    for at, info in enumerate(loads):
        found = find_transposed(module, info.load, info.payload)
        if isinstance(found, TransposedInfo):
            order = free_order(found) if reordered else None
            found = replace(found, order=order) if order else found
            loads[at] = replace(info, transposed=found, allocations=())
    return tuple(find_channels(loads))
