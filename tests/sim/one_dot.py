"""One product by tcgen05 in generic form: A and B by TMA, the product in tensor memory, the result by a TMA store."""

from __future__ import annotations

from collections.abc import Sequence

from tawa.ir import Module, parse_module
from tests.cases.programs.ttgir import op

M, N, K = 128, 32, 32
BARRIER = "!ttg.memdesc<1xi64, #shared1, #smem, mutable>"
TOKEN = "!ttg.async.token"
COMMIT = op("ttng.tc_gen5_commit", "%done", BARRIER)
WAIT = op(
    "ttng.wait_barrier", "%done, %zero", f"{BARRIER}, i32", properties="operandSegmentSizes = array<i32: 1, 1, 0, 0>"
)
_ALIASES = "".join(
    f"#tmem{stride} = #ttng.tensor_memory_encoding<blockM = 128, blockN = 32, colStride = {stride}>\n"
    for stride in (1, 2)
)


def buffer(rows: int, columns: int, element: str) -> str:
    """The type of a buffer in shared memory."""
    return f"!ttg.memdesc<{rows}x{columns}x{element}, #shared, #smem, mutable>"


def tensor(rows: int, columns: int, element: str, stride: int = 1) -> str:
    """The type of a buffer in tensor memory."""
    return f"!ttg.memdesc<{rows}x{columns}x{element}, #tmem{stride}, #ttng.tensor_memory, mutable>"


def tile(rows: int, columns: int, element: str) -> str:
    """The type of a tile."""
    return f"tensor<{rows}x{columns}x{element}, #blocked>"


def mma(
    a: str, b: str, types: tuple[str, str, str], d: str = "%d", use_d: str = "%no", predicate: str = "%yes",
    commits: Sequence[tuple[str, str]] = (), more: str = "is_async", token: str = "",
) -> str:  # fmt: skip
    """An mma. types: of A, B and D. commits: barriers and their predicates. token: of the state of D that it reads."""
    sizes = f"1, 1, 1, {int(bool(token))}, 1, 1, {len(commits)}, {len(commits)}"
    properties = f"operandSegmentSizes = array<i32: {sizes}>{', ' if more else ''}{more}"
    tokens = [token] * bool(token)
    values = ", ".join([a, b, d, *tokens, use_d, predicate, *(it for it, _ in commits), *(it for _, it in commits)])
    kinds = ", ".join([*types, *[TOKEN] * len(tokens), "i1", "i1", *[BARRIER] * len(commits), *["i1"] * len(commits)])
    results, to = (f"{token}_next", TOKEN) if token else ("", "()")
    return op("ttng.tc_gen5_mma", values, kinds, results, to, properties=properties)


def load(result: str = "%t", source: str = "%d", element: str = "f32", stride: int = 1, columns: int = N) -> str:
    """A load of a tile from tensor memory."""
    return op("ttng.tmem_load", source, tensor(M, columns, element, stride), result, tile(M, columns, element))


def store(value: str, target: str = "%d", element: str = "f32", predicate: str = "%yes", columns: int = N) -> str:
    """A store of a tile to tensor memory."""
    types = f"{tensor(M, columns, element)}, {tile(M, columns, element)}, i1"
    return op("ttng.tmem_store", f"{target}, {value}, {predicate}", types)


def program(*lines: str, last: Sequence[str] = (), a: str = "f16", b: str = "f16", c: str = "f32") -> Module:
    """A kernel around `lines` with the parameters a (M x K), b (K x N) and c (M x N).

    The lines find A and B in the buffers %a_tile and %b_tile, the tile %given of c, a barrier %done, the numbers %zero,
    %yes, %no and %n, and leave the result in %t. last: the lines after the store of the result.
    """
    boxes = {"a": (M, K, a), "b": (K, N, b), "c": (M, N, c)}
    types = {name: f"!tt.tensordesc<tensor<{m}x{n}x{element}, #shared>>" for name, (m, n, element) in boxes.items()}
    begin = [
        op("arith.constant", "", "", "%zero", "i32", properties="value = 0 : i32"),
        op("arith.constant", "", "", "%yes", "i1", properties="value = true"),
        op("arith.constant", "", "", "%no", "i1", properties="value = false"),
        *(op("ttg.local_alloc", "", "", f"%{name}", BARRIER) for name in ("ready", "done")),
        *(op("ttng.init_barrier", f"%{it}", BARRIER, properties="count = 1 : i32") for it in ("ready", "done")),
    ]
    copy = "cache = 1 : i32, evict = 1 : i32, isVolatile = false"
    for name in ("a", "b"):
        rows, columns, element = boxes[name]
        kind = buffer(rows, columns, element)
        size = rows * columns * {"f32": 4, "f16": 2, "bf16": 2}.get(element, 1)
        begin += [
            op("ttg.local_alloc", "", "", f"%{name}_tile", kind),
            op("ttng.barrier_expect", "%ready, %yes", f"{BARRIER}, i1", properties=f"size = {size} : i32"),
            op(
                "ttng.async_tma_copy_global_to_local", f"%{name}, %zero, %zero, %ready, %{name}_tile, %yes",
                f"{types[name]}, i32, i32, {BARRIER}, {kind}, i1", properties=copy,
            ),
            op(
                "ttng.wait_barrier", f"%ready, %{'zero' if name == 'a' else 'one'}", f"{BARRIER}, i32",
                properties="operandSegmentSizes = array<i32: 1, 1, 0, 0>",
            ),
        ]  # fmt: skip
    begin.insert(0, op("arith.constant", "", "", "%one", "i32", properties="value = 1 : i32"))
    result = tile(M, N, c)
    begin.append(op("tt.descriptor_load", "%c, %zero, %zero", f"{types['c']}, i32, i32", "%given", result))
    stored = op("tt.descriptor_store", "%c, %t, %zero, %zero", f"{types['c']}, {result}, i32, i32")
    end = [stored, *last, op("tt.return", "", "")]
    parameters = ", ".join(f"%{name}: {type}" for name, type in (*types.items(), ("n", "i1")))
    kinds = ", ".join([*types.values(), "i1"])
    body = "\n".join([*begin, *lines, *end])
    attributes = '"ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"'
    head = f'"tt.func"() <{{function_type = ({kinds}) -> (), sym_name = "kernel"}}> ({{\n^bb0({parameters}):'
    return parse_module(
        f'{_ALIASES}"builtin.module"() ({{\n{head}\n{body}\n}}) : () -> ()\n}}) {{{attributes}}} : () -> ()\n'
    )
