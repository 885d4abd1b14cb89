"""TTIR programs for the model of time: a matrix product by descriptors, one by pointers, and a loop of chained dots."""

from __future__ import annotations

from tawa.analysis.work.workload import Workload, find_workload
from tawa.ir import Module, Value
from tests.analysis.tile_programs import TileProgram

_DOT = {"inputPrecision": "0 : i32", "maxNumImpreciseAcc": "0 : i32"}
_TMA = {"cache": "1 : i32", "evict": "1 : i32"}


def box(p: TileProgram, name: str, rows: int, columns: int, at: tuple[Value, Value], element: str = "f16") -> Value:
    """A load of a tile by the descriptor that is the argument `name`."""
    return p.op("tt.descriptor_load", [p.args[name], *at], f"tensor<{rows}x{columns}x{element}>", **_TMA)


def zeros(p: TileProgram, rows: int, columns: int, element: str = "f32") -> Value:
    """A tile of zeros."""
    type = f"tensor<{rows}x{columns}x{element}>"
    return p.op("arith.constant", [], type, value=f"dense<0.000000e+00> : {type}")


def descriptor(rows: int, columns: int, element: str = "f16") -> str:
    """The type of a descriptor."""
    return f"!tt.tensordesc<tensor<{rows}x{columns}x{element}>>"


def by_descriptors(
    bm: int = 128, bn: int = 256, bk: int = 64, element: str = "f16", transposed: bool = False
) -> Module:
    """C = A · B: programs of two axes, a loop over %k. transposed: B is stored as N x K, and transposed."""
    shape = (bn, bk) if transposed else (bk, bn)
    p = TileProgram(
        a=descriptor(bm, bk, element), b=descriptor(*shape, element), c=descriptor(bm, bn),
        m="i32", n="i32", k="i32",
    )  # fmt: skip
    row, column = p.mul(p.pid(), p.number(bm)), p.mul(p.pid(1), p.number(bn))

    def body(args: list[Value]) -> list[Value]:
        a = box(p, "a", bm, bk, (row, args[0]), element)
        b = box(p, "b", *shape, (column, args[0]) if transposed else (args[0], column), element)
        if transposed:
            b = p.op("tt.trans", [b], f"tensor<{bk}x{bn}x{element}>", order="array<i32: 1, 0>")
        return [p.op("tt.dot", [a, b, args[1]], f"tensor<{bm}x{bn}xf32>", **_DOT)]

    loop = p.loop((p.number(0), p.args["k"], p.number(bk)), [zeros(p, bm, bn)], body)
    half = p.op("arith.truncf", [loop.results[0]], f"tensor<{bm}x{bn}xf16>")
    p.effect("tt.descriptor_store", [p.args["c"], half, row, column])
    return p.finish()


def by_pointers(bm: int = 128, bn: int = 256, bk: int = 64, stride: int = 1, masked: bool = False) -> Module:
    """The same with pointers that are computed in the loop, and a grid of one axis.

    stride: between neighbours of a row. masked: the mask of A is read from memory.
    """
    p = TileProgram(("a", "b", "k"), a="!tt.ptr<f16>", b="!tt.ptr<f16>", c="!tt.ptr<f32>", k="i32")
    first = p.mul(p.pid(), p.number(bm))

    def tile(name: str, rows: int, columns: int, start: Value) -> Value:
        at = p.mul(p.expand(p.add(p.splat(start, rows), p.range(rows)), 1), p.splat(p.args["k"], rows, 1))
        along = p.range(columns)
        along = along if stride == 1 else p.mul(along, p.splat(p.number(stride), columns))
        offsets = p.add(p.broadcast(at, rows, columns), p.spread(along, 0, rows, columns))
        return p.add(p.splat(p.args[name], rows, columns), offsets)

    def body(args: list[Value]) -> list[Value]:
        pointers = tile("a", bm, bk, first)
        mask = p.op("arith.cmpf", [p.load(pointers), zeros(p, bm, bk, "f16")], f"tensor<{bm}x{bk}xi1>",
                    predicate="2 : i64") if masked else None  # fmt: skip
        a, b = p.load(pointers, mask), p.load(tile("b", bk, bn, args[0]))
        return [p.op("tt.dot", [a, b, args[1]], f"tensor<{bm}x{bn}xf32>", **_DOT)]

    loop = p.loop((p.number(0), p.args["k"], p.number(bk)), [zeros(p, bm, bn)], body)
    p.store(tile("c", bm, bn, first), loop.results[0])
    return p.finish()


def chained(rows: int = 128, columns: int = 128, depth: int = 128) -> Module:
    """Attention without its sums: exp2(Q · Kᵀ) · V, in blocks of `columns` keys; a grid of two axes."""
    p = TileProgram(
        q=descriptor(rows, depth), k=descriptor(depth, columns), v=descriptor(columns, depth),
        o=descriptor(rows, depth), s="i32",
    )  # fmt: skip
    row, head = p.mul(p.pid(), p.number(rows)), p.pid(1)
    q = box(p, "q", rows, depth, (row, head))

    def body(args: list[Value]) -> list[Value]:
        k = box(p, "k", depth, columns, (head, args[0]))
        scores = p.op("tt.dot", [q, k, zeros(p, rows, columns)], f"tensor<{rows}x{columns}xf32>", **_DOT)
        powers = p.op("math.exp2", [scores], f"tensor<{rows}x{columns}xf32>")
        weights = p.op("arith.truncf", [powers], f"tensor<{rows}x{columns}xf16>")
        v = box(p, "v", columns, depth, (args[0], head))
        return [p.op("tt.dot", [weights, v, args[1]], f"tensor<{rows}x{depth}xf32>", **_DOT)]

    loop = p.loop((p.number(0), p.args["s"], p.number(columns)), [zeros(p, rows, depth)], body)
    half = p.op("arith.truncf", [loop.results[0]], f"tensor<{rows}x{depth}xf16>")
    p.effect("tt.descriptor_store", [p.args["o"], half, row, head])
    return p.finish()


def outside(rows: int = 128, columns: int = 128, depth: int = 64) -> Module:
    """Sums of products of one tile, which is loaded before the loop, with tiles that the loop loads."""
    p = TileProgram(q=descriptor(rows, depth), k=descriptor(depth, columns), o=descriptor(rows, columns), s="i32")
    row = p.mul(p.pid(), p.number(rows))
    q = box(p, "q", rows, depth, (row, row))

    def body(args: list[Value]) -> list[Value]:
        k = box(p, "k", depth, columns, (row, args[0]))
        return [p.op("tt.dot", [q, k, args[1]], f"tensor<{rows}x{columns}xf32>", **_DOT)]

    loop = p.loop((p.number(0), p.args["s"], p.number(columns)), [zeros(p, rows, columns)], body)
    half = p.op("arith.truncf", [loop.results[0]], f"tensor<{rows}x{columns}xf16>")
    p.effect("tt.descriptor_store", [p.args["o"], half, row, row])
    return p.finish()


def straight(rows: int = 64, columns: int = 64, depth: int = 64) -> Module:
    """A product of two tiles: the dot is in no loop."""
    p = TileProgram(a=descriptor(rows, depth), b=descriptor(depth, columns), c=descriptor(rows, columns))
    row, column = p.mul(p.pid(), p.number(rows)), p.mul(p.pid(1), p.number(columns))
    a, b = box(p, "a", rows, depth, (row, p.number(0))), box(p, "b", depth, columns, (p.number(0), column))
    sums = p.op("tt.dot", [a, b, zeros(p, rows, columns)], f"tensor<{rows}x{columns}xf32>", **_DOT)
    half = p.op("arith.truncf", [sums], f"tensor<{rows}x{columns}xf16>")
    p.effect("tt.descriptor_store", [p.args["c"], half, row, column])
    return p.finish()


def many_tiles(at_program: bool = True) -> Module:
    """A matrix product in a loop over tiles, which starts at the program's own number, or else at 0."""
    p = TileProgram(a=descriptor(64, 64), b=descriptor(64, 64), c=descriptor(64, 64), n="i32", k="i32")

    def tiles(args: list[Value]) -> list[Value]:
        def body(inner: list[Value]) -> list[Value]:
            a, b = box(p, "a", 64, 64, (args[0], inner[0])), box(p, "b", 64, 64, (inner[0], args[0]))
            return [p.op("tt.dot", [a, b, inner[1]], "tensor<64x64xf32>", **_DOT)]

        loop = p.loop((p.number(0), p.args["k"], p.number(64)), [zeros(p, 64, 64)], body)
        half = p.op("arith.truncf", [loop.results[0]], "tensor<64x64xf16>")
        p.effect("tt.descriptor_store", [p.args["c"], half, args[0], args[0]])
        return []

    step = p.op("tt.get_num_programs", [], "i32", axis="0 : i32")
    p.loop((p.pid() if at_program else p.number(0), p.args["n"], step), [], tiles)
    return p.finish()


def workload(module: Module) -> Workload:
    """Its workload."""
    found = find_workload(module)
    assert found is not None
    return found
