"""A loop of two dots in which a vector of the first result scales the accumulator of the second, as in attention."""

from __future__ import annotations

from tests.cases.programs import ttgir as programs
from tests.cases.programs.staged import kernel, register_dot
from tests.cases.programs.ttgir import ACC, op

ROW = "tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>"
COLUMN = "tensor<64x1xf32, #mma>"
_MAXIMUM = """({
^bb0(%u: f32, %v: f32):
  %w = "arith.maxnumf"(%u, %v) : (f32, f32) -> f32
  "tt.reduce.return"(%w) : (f32) -> ()
})"""


def corrected(factor: str = "%wide", weights: str = "%p") -> str:
    """The program. factor: what the accumulator is multiplied with. weights: the left operand of the second dot."""
    row = f'%row = "tt.reduce"(%s) <{{axis = 1 : i32}}> {_MAXIMUM} : ({ACC}) -> {ROW}'
    body = "\n".join(
        (
            programs.load("a", "a_desc", "%k, %zero"),
            programs.alloc("x", "a"),
            programs.dot("s", "x", "x", "zeros"),
            op("math.exp2", "%s", ACC, "%p", ACC),
            row,
            op("math.exp2", "%row", ROW, "%factor", ROW),
            op("tt.expand_dims", "%factor", ROW, "%column", COLUMN, properties="axis = 1 : i32"),
            op("tt.broadcast", "%column", COLUMN, "%wide", ACC),
            op("arith.mulf", f"%sum, {factor}", f"{ACC}, {ACC}", "%scaled", ACC),
            programs.load("b", "b_desc", "%k, %zero"),
            programs.alloc("y", "b"),
            register_dot("next", weights.removeprefix("%"), "y", "scaled"),
        )
    )
    loop = programs.for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    return kernel(f"{loop}\n{programs.store()}")


__all__ = ["corrected"]
