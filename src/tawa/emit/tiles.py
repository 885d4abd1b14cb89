"""Tiles in registers that are split or multiplied there, and loads and stores by pointers."""

from __future__ import annotations

from tawa.dialects import tt
from tawa.dialects.declare.declaration import by_name
from tawa.emit.body import Body, Writer, statement
from tawa.emit.extras import MMA_V2
from tawa.emit.values.expressions import integers
from tawa.ir import Operation

PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


def _split(body: Body, op: Operation) -> None:
    body.results(op, f"gl.split({body.of(op.operands[0])})")


def _dot(body: Body, op: Operation) -> None:
    """A dot by mma instructions on registers, for tiles that are too small for wgmma."""
    precision = integers(op.properties.get("inputPrecision", "0 : i32"))[0]
    more = f', input_precision="{PRECISIONS[precision]}"' if precision else ""
    body.file.extras.use(MMA_V2)
    body.results(op, f"mma_v2({', '.join(body.of(it) for it in op.operands)}{more})")


def pointer_options(op: Operation) -> str:
    """The cache modifier and eviction policy of a load, a store or a copy, as arguments."""
    cache = integers(op.properties.get("cache", "1 : i32"))[0]
    evict = integers(op.properties.get("evict", "1 : i32"))[0]
    modifiers = {1: "", 2: ".ca", 3: ".cg", 4: ".wb", 5: ".cs", 6: ".wt", 7: ".cv"}
    policies = {1: "", 2: "evict_first", 3: "evict_last"}
    more = f', cache_modifier="{modifiers[cache]}"' if modifiers[cache] else ""
    return more + (f', eviction_policy="{policies[evict]}"' if policies[evict] else "")


def _load(body: Body, op: Operation) -> None:
    pointer, *rest = op.operands
    segments = integers(op.properties["operandSegmentSizes"])
    more = f", mask={body.of(rest[0])}" if segments[1] else ""
    more += f", other={body.of(rest[segments[1]])}" if segments[2] else ""
    if op.properties.get("isVolatile", "false") == "true":
        more += ", volatile=True"
    body.results(op, f"gl.load({body.of(pointer)}{more}{pointer_options(op)})")


def _store(body: Body, op: Operation) -> str:
    pointer, value, *mask = op.operands
    more = f", mask={body.of(mask[0])}" if mask else ""
    return f"gl.store({body.of(pointer)}, {body.of(value)}{more}{pointer_options(op)})"


WRITERS: dict[str, Writer] = by_name(
    {
        tt.SplitOp: _split,
        tt.DotOp: _dot,
        tt.LoadOp: _load,
        tt.StoreOp: statement(_store),
    }
)
