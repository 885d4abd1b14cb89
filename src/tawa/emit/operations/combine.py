"""Reductions and scans, with their combine functions.

tt.reduce (x, index) {…}        def combine(value, index, value_2, index_2): …
                                x_2, index_3 = gl.reduce((x, index), 1, combine)
"""

from __future__ import annotations

from tawa.dialects import arith, tt
from tawa.dialects.declare.declaration import by_name
from tawa.emit.body import Body, Writer
from tawa.emit.python.names import Names
from tawa.emit.values.expressions import integers
from tawa.ir import Operation

REDUCTIONS: dict[str, str] = by_name({
    arith.MaxNumFOp: "gl.max", arith.AddFOp: "gl.sum", arith.MinNumFOp: "gl.min",
    arith.AddIOp: "gl.sum", arith.MaxSIOp: "gl.max", arith.MinSIOp: "gl.min",
})  # fmt: skip


def _reduce(body: Body, op: Operation) -> None:
    inner = [it.name for it in op.regions[0].block.ops[:-1]]
    axis = integers(op.properties["axis"])[0]
    if len(op.operands) == 1 and len(inner) == 1 and inner[0] in REDUCTIONS:
        body.keep(op, f"{REDUCTIONS[inner[0]]}({body.of(op.operands[0])}, {axis})")
        return
    body.results(op, f"gl.reduce({_operands(body, op)}, {axis}, {combine_function(body, op)})")


def _scan(body: Body, op: Operation) -> None:
    axis = integers(op.properties["axis"])[0]
    more = ", reverse=True" if op.properties.get("reverse", "false") == "true" else ""
    body.results(op, f"gl.associative_scan({_operands(body, op)}, {axis}, {combine_function(body, op)}{more})")


def _operands(body: Body, op: Operation) -> str:
    values = [body.of(it) for it in op.operands]
    return values[0] if len(values) == 1 else f"({', '.join(values)})"


def combine_function(body: Body, op: Operation) -> str:
    """Writes the combine function of a reduction or scan; returns its name."""
    block, extras = op.regions[0].block, body.file.extras
    names = Names({*extras.taken})
    for it in block.args:
        names.give(it, names.fresh("abcdefgh"[it.index] if it.index < len("abcdefgh") else "x"))
    parameters = ", ".join(names[it] for it in block.args)
    inner = Body(body.file, names)
    inner.current = block
    for some in block.ops[:-1]:
        inner.operation(some)
    inner.put(f"return {', '.join(inner.of(it) for it in block.ops[-1].operands)}")
    text = "\n".join(inner.lines)
    if text not in extras.combine:
        extras.combine[text] = name = Names({*extras.taken}).fresh("combine")
        extras.taken.add(name)
        body.file.functions.append(["@gluon.jit", f"def {name}({parameters}):", *inner.lines])
    return extras.combine[text]


WRITERS: dict[str, Writer] = by_name({tt.ReduceOp: _reduce, tt.ScanOp: _scan})
