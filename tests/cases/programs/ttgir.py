"""The smallest TTGIR programs: text in generic form, put together from one-line pieces.

Every program is one kernel over 64×64 fp16 tiles with the arguments

    %a_desc %b_desc %c_desc   TMA descriptors            %out    pointer to f16
    %n                        trips of the first loop    %m      another number

and the constants %zero, %one, %two (i32), %flag (i1, true), %zeros (an empty accumulator).
"""

from __future__ import annotations

from collections.abc import Mapping

from tawa.ir import Module, Operation, parse_module

DESC = "!tt.tensordesc<tensor<64x64xf16, #shared>>"
TILE = "tensor<64x64xf16, #blocked>"
OPERAND = "tensor<64x64xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>"
BUFFER = "!ttg.memdesc<64x64xf16, #shared, #smem>"
SLOT = "!ttg.memdesc<64x64xf16, #shared, #smem, mutable>"
TRANSPOSED = "!ttg.memdesc<64x64xf16, #shared_t, #smem>"
ACC = "tensor<64x64xf32, #mma>"
POINTERS = "tensor<64x64x!tt.ptr<f16>, #blocked>"
TILE_BYTES = 64 * 64 * 2

_ALIASES = """\
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#shared_t = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#smem = #ttg.shared_memory
#loc = loc("kernel.py":1:0)
"""

_ARGUMENTS: Mapping[str, str] = {
    "a_desc": DESC,
    "b_desc": DESC,
    "c_desc": DESC,
    "out": "!tt.ptr<f16>",
    "n": "i32",
    "m": "i32",
}

LOCK = {"lock": "!tt.ptr<i32>"}
"""An argument to read numbers from."""


def op(
    name: str, operands: str, types: str, results: str = "", to: str = "()", *, line: int = 0, properties: str = ""
) -> str:
    """One operation. `line` is its line in kernel.py."""
    target = f"{results} = " if results else ""
    inside = f" <{{{properties}}}>" if properties else ""
    place = f' loc("kernel.py":{line}:4)' if line else ""
    return f'{target}"{name}"({operands}){inside} : ({types}) -> {to}{place}'


def load(result: str, desc: str, at: str = "%k, %zero", *, line: int = 0) -> str:
    """A TMA load of one tile."""
    properties = "cache = 1 : i32, evict = 1 : i32"
    operands = f"%{desc}, {at}"
    return op("tt.descriptor_load", operands, f"{DESC}, i32, i32", f"%{result}", TILE, line=line, properties=properties)


def alloc(result: str, tile: str) -> str:
    """Copies a loaded tile to shared memory."""
    return op("ttg.local_alloc", f"%{tile}", TILE, f"%{result}", BUFFER)


def dot(result: str, a: str, b: str, acc: str, *, line: int = 0) -> str:
    """A synchronous wgmma."""
    properties = "inputPrecision = 0 : i32, isAsync = false, maxNumImpreciseAcc = 0 : i32"
    operands, types = f"%{a}, %{b}, %{acc}", f"{BUFFER}, {BUFFER}, {ACC}"
    return op("ttng.warp_group_dot", operands, types, f"%{result}", ACC, line=line, properties=properties)


def binary(result: str, name: str, left: str, right: str, type: str = "i32") -> str:
    """Arithmetic on two values of one type."""
    return op(f"arith.{name}", f"%{left}, %{right}", f"{type}, {type}", f"%{result}", type)


def compare(result: str, left: str, right: str, predicate: int) -> str:
    """An integer comparison: 0 is equal, 2 is less than."""
    operands, text = f"%{left}, %{right}", f"predicate = {predicate} : i64"
    return op("arith.cmpi", operands, "i32, i32", f"%{result}", "i1", properties=text)


def store(acc: str = "acc", desc: str = "c_desc", at: str = "%zero, %zero", *, line: int = 0) -> str:
    """Narrows an accumulator, converts its layout, and stores it by TMA."""
    narrow = "tensor<64x64xf16, #mma>"
    return "\n".join(
        (
            op("arith.truncf", f"%{acc}", ACC, f"%{acc}_narrow", narrow),
            op("ttg.convert_layout", f"%{acc}_narrow", narrow, f"%{acc}_tile", TILE),
            op("tt.descriptor_store", f"%{desc}, %{acc}_tile, {at}", f"{DESC}, {TILE}, i32, i32", line=line),
        )
    )


def store_tile(pointer: str) -> str:
    """A store of 64 ones through one pointer to i32, an argument."""
    pointers = "tensor<64x!tt.ptr<i32>, #ttg.slice<{dim = 1, parent = #blocked}>>"
    tile = pointers.replace("!tt.ptr<i32>", "i32")
    return "\n".join(
        (
            op("tt.splat", f"%{pointer}", "!tt.ptr<i32>", "%all", pointers),
            op("tt.splat", "%one", "i32", "%ones", tile),
            op("tt.store", "%all, %ones", f"{pointers}, {tile}", properties="cache = 1 : i32, evict = 1 : i32"),
        )
    )


def for_loop(
    body: str,
    *,
    induction: str = "k",
    lower: str = "zero",
    upper: str = "n",
    step: str = "one",
    carried: Mapping[str, tuple[str, str, str]] | None = None,
    results: str = "",
    line: int = 0,
) -> str:
    """``for induction in range(lower, upper, step)``. carried: name inside → (initial value, value yielded, type)."""
    carried = carried or {}
    types = [type for _, _, type in carried.values()]
    inits = "".join(f", %{init}" for init, _, _ in carried.values())
    args = "".join(f", %{name}: {type}" for name, (_, _, type) in carried.items())
    target = f"{results} = " if results else ""
    place = f' loc("kernel.py":{line}:4)' if line else ""
    returned = types[0] if len(types) == 1 else f"({', '.join(types)})"
    return (
        f'{target}"scf.for"(%{lower}, %{upper}, %{step}{inits}) ({{\n'
        f"^bb0(%{induction}: i32{args}):\n"
        f"{body}\n"
        f'"scf.yield"({", ".join(f"%{value}" for _, value, _ in carried.values())}) : ({", ".join(types)}) -> ()\n'
        f"}}) : ({', '.join(['i32'] * 3 + types)}) -> {returned}{place}"
    )


def branch(then: str, other: str | None = None, *, condition: str = "flag", result: str = "", type: str = "") -> str:
    """``if condition``. With a `result`, each branch must define ``%<result>_then`` or ``%<result>_else``."""

    def block(body: str, suffix: str) -> str:
        value = f"%{result}_{suffix}" if result else ""
        return f'{body}\n"scf.yield"({value}) : ({type}) -> ()'

    target = f"%{result} = " if result else ""
    otherwise = block(other, "else") if other is not None else ""
    return (
        f'{target}"scf.if"(%{condition}) ({{\n{block(then, "then")}\n}}, {{\n{otherwise}\n}}) : (i1) -> {type or "()"}'
    )


def while_loop(body: str, *, counter: str = "t", upper: str = "m") -> str:
    """``while counter < upper``, with a step of one."""
    return (
        f'%{counter}_last = "scf.while"(%zero) ({{\n^bb0(%{counter}_before: i32):\n'
        f"{compare(f'{counter}_more', f'{counter}_before', upper, 2)}\n"
        f'"scf.condition"(%{counter}_more, %{counter}_before) : (i1, i32) -> ()\n}}, {{\n^bb0(%{counter}: i32):\n'
        f"{body}\n"
        f"{binary(f'{counter}_next', 'addi', counter, 'one')}\n"
        f'"scf.yield"(%{counter}_next) : (i32) -> ()\n}}) : (i32) -> i32'
    )


def kernel(body: str, *, arguments: Mapping[str, str] | None = None, num_ctas: int = 1, num_warps: int = 4) -> str:
    """A module with one kernel of the usual arguments and constants."""
    given = {**_ARGUMENTS, **(arguments or {})}
    args = ", ".join(f"%{name}: {type}" for name, type in given.items())
    types = ", ".join(given.values())
    return (
        f'{_ALIASES}"builtin.module"() ({{\n'
        f'"tt.func"() <{{function_type = ({types}) -> (), sym_name = "kernel", sym_visibility = "public"}}> ({{\n'
        f"^bb0({args}):\n"
        '%zero = "arith.constant"() <{value = 0 : i32}> : () -> i32\n'
        '%one = "arith.constant"() <{value = 1 : i32}> : () -> i32\n'
        '%two = "arith.constant"() <{value = 2 : i32}> : () -> i32\n'
        '%flag = "arith.constant"() <{value = true}> : () -> i1\n'
        f'%zeros = "arith.constant"() <{{value = dense<0.000000e+00> : {ACC}}}> : () -> {ACC}\n'
        f'{body}\n"tt.return"() : () -> ()\n'
        "}) {noinline = false} : () -> () loc(#loc)\n"
        f'}}) {{"ttg.num-ctas" = {num_ctas} : i32, "ttg.num-warps" = {num_warps} : i32, '
        'ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} : () -> () loc(#loc)\n'
    )


# -- whole kernels ----------------------------------------------------------------------------------------------------


def iteration(acc: str = "sum", result: str = "next", tag: str = "", at: str = "%k, %zero", line: int = 10) -> str:
    """Two loads, two allocations, one dot."""
    a, b, x, y = (f"{name}{tag}" for name in "abxy")
    return "\n".join(
        (
            load(a, "a_desc", at, line=line),
            load(b, "b_desc", at, line=line + 1),
            alloc(x, a),
            alloc(y, b),
            dot(result, x, y, acc, line=line + 2),
        )
    )


def column(tile: str) -> str:
    """The column of tile number %`tile`: a TMA box begins at a multiple of 16 bytes."""
    eight = op("arith.constant", "", "", "%eight", "i32", properties="value = 8 : i32")
    return f"{eight}\n{binary('column', 'muli', tile, 'eight')}"


def gemm_loop(result: str = "acc", tag: str = "", *, upper: str = "n", init: str = "zeros", at: str = "") -> str:
    """One loop with one dot."""
    inside = f"sum{tag}"
    body = iteration(inside, f"next{tag}", tag, at or f"%k{tag}, %zero")
    carried = {inside: (init, f"next{tag}", ACC)}
    return for_loop(body, induction=f"k{tag}", upper=upper, carried=carried, results=f"%{result}", line=9)


def summed(result: str, tile: str = "zeros") -> str:
    """``result = sum(int(tile))`` of an accumulator: a number that takes all warps."""
    integers, rows = ACC.replace("f32", "i32"), "tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>"
    fold = (
        '({{\n^bb0(%l: i32, %r: i32):\n%p = "arith.addi"(%l, %r) : (i32, i32) -> i32\n'
        '"tt.reduce.return"(%p) : (i32) -> ()\n}}) : ({}) -> {}'
    )
    return "\n".join(
        (
            op("arith.fptosi", f"%{tile}", ACC, f"%{result}_tile", integers),
            f'%{result}_rows = "tt.reduce"(%{result}_tile) <{{axis = 1 : i32}}> {fold.format(integers, rows)}',
            f'%{result} = "tt.reduce"(%{result}_rows) <{{axis = 0 : i32}}> {fold.format(rows, "i32")}',
        )
    )


def scalar_load(result: str, pointer: str, *, volatile: bool = False, line: int = 0) -> str:
    """A number that is loaded from memory."""
    properties = (
        f"boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = {str(volatile).lower()}, "
        "operandSegmentSizes = array<i32: 1, 0, 0>"
    )
    return op("tt.load", f"%{pointer}", "!tt.ptr<i32>", f"%{result}", "i32", line=line, properties=properties)


def tile_gemm() -> str:
    """One tile per program."""
    return kernel(f"{gemm_loop()}\n{store(line=20)}")


def persistent_gemm(waves: int = 2) -> str:
    """A loop over `waves` tiles; the first has %n iterations, the others %m."""
    body = "\n".join(
        (
            compare("is_first", "tile", "zero", 0),
            op("arith.select", "%is_first, %n, %m", "i1, i32, i32", "%trips", "i32"),
            column("tile"),
            gemm_loop(upper="trips", at="%k, %column"),
            store(at="%tile, %zero"),
        )
    )
    count = op("arith.constant", "", "", "%waves", "i32", properties=f"value = {waves} : i32")
    return kernel(f"{count}\n{for_loop(body, induction='tile', upper='waves')}")


def two_loops() -> str:
    """Two consecutive loops: the second continues with the accumulator of the first."""
    return kernel("\n".join((gemm_loop("half"), gemm_loop("acc", "_2", upper="m", init="half"), store())))


def one_more_operand(longer_first: bool = True) -> str:
    """Two consecutive loops: one multiplies two tiles, the other one a tile with itself."""
    begin, end = ("zeros", "half"), ("half", "acc")
    first, second = (begin, end) if longer_first else (end, begin)
    square = "\n".join((load("c", "a_desc", "%k_2, %zero"), alloc("z", "c"), dot("next_2", "z", "z", "sum_2")))
    carried = {"sum_2": (second[0], "next_2", ACC)}
    loops = (
        gemm_loop(first[1], init=first[0]),
        for_loop(square, induction="k_2", upper="m", carried=carried, results=f"%{second[1]}"),
    )
    return kernel("\n".join((*(loops if longer_first else loops[::-1]), store())))


def gate_up() -> str:
    """Two dots per iteration that share A: two accumulators, three loads."""
    body = "\n".join(
        (
            load("a", "a_desc"),
            load("b", "b_desc"),
            load("c", "c_desc"),
            alloc("x", "a"),
            alloc("y", "b"),
            alloc("z", "c"),
            dot("next_gate", "x", "y", "gate"),
            dot("next_up", "x", "z", "up"),
        )
    )
    carried = {"gate": ("zeros", "next_gate", ACC), "up": ("zeros", "next_up", ACC)}
    loop = for_loop(body, carried=carried, results="%acc:2")
    stores = "\n".join((store("sum", "d_desc"), ""))
    total = op("arith.addf", "%acc#0, %acc#1", f"{ACC}, {ACC}", "%sum", ACC)
    return kernel("\n".join((loop, total, stores)), arguments={"d_desc": DESC})


def branching_gemm() -> str:
    """Loops in both branches of an ``if`` in a loop over %m tiles: one for even tiles, the other for odd tiles."""
    body = "\n".join(
        (
            binary("odd", "remsi", "tile", "two"),
            compare("is_even", "odd", "zero", 0),
            branch(
                gemm_loop("acc_then", "_1"),
                gemm_loop("acc_else", "_2", upper="m"),
                condition="is_even",
                result="acc",
                type=ACC,
            ),
            store(),
        )
    )
    return kernel(for_loop(body, induction="tile", upper="m"))


def while_gemm() -> str:
    """A ``while`` over %m tiles around the usual loop of %n trips."""
    return kernel(while_loop(f"{column('t')}\n{gemm_loop(at='%k, %column')}\n{store(at='%t, %zero')}"))


BASES = {"p": "!tt.ptr<f16>", "q": "!tt.ptr<f16>"}
"""Arguments to make descriptors of."""


EXTENTS = "\n".join(
    op("arith.constant", "", "", f"%{name}", type, properties=f"value = {value} : {type}")
    for name, value, type in (("wide", 64, "i32"), ("row", 64, "i64"), ("element", 1, "i64"))
)
"""The operands of `made`."""


def made(result: str, pointer: str, *, line: int = 0) -> str:
    """A descriptor of 64 × 64 elements, made in the kernel."""
    operands, types = f"%{pointer}, %wide, %wide, %row, %element", "!tt.ptr<f16>, i32, i32, i64, i64"
    padding = "padding = 1 : i32"
    return op("tt.make_tensor_descriptor", operands, types, f"%{result}", DESC, line=line, properties=padding)


def remade_gemm() -> str:
    """A loop over %m tiles that makes the descriptors of A and B for each; a loop of %n iterations loads from them."""
    loop = gemm_loop().replace("%a_desc", "%own_a").replace("%b_desc", "%own_b")
    tile = "\n".join((made("own_a", "p", line=6), made("own_b", "q", line=7), loop, store(at="%tile, %zero")))
    return kernel(f"{EXTENTS}\n{for_loop(tile, induction='tile', upper='m')}", arguments=BASES)


def remade_store() -> str:
    """A loop over %m tiles that makes the descriptor of C for each."""
    tile = "\n".join((made("own_c", "p", line=6), gemm_loop(), store(desc="own_c", at="%tile, %zero")))
    return kernel(f"{EXTENTS}\n{for_loop(tile, induction='tile', upper='m')}", arguments=BASES)


def guarded_gemm() -> str:
    """One tile per program; programs without work (%m <= 0) store zeros."""
    go = compare("go", "zero", "m", 2)
    work = f"{column('n')}\n{gemm_loop()}\n{store()}"
    return kernel(f"{go}\n{branch(work, store('zeros'), condition='go')}")


def given_sum() -> str:
    """As many trips as the sum of a tile says."""
    return kernel("\n".join((summed("trips"), gemm_loop(upper="trips"), store())))


def while_sum() -> str:
    """A ``while`` of %n iterations that carries the accumulator and an unused number."""
    last = compare("more", "t_before", "n", 2)
    counted = (binary("t_next", "addi", "t", "one"), binary("idle_next", "addi", "idle", "two"))
    types = f"({ACC}, i32, i32)"
    loop = (
        f'%acc:3 = "scf.while"(%zeros, %zero, %m) ({{\n^bb0(%sum_before: {ACC}, %t_before: i32, %idle_before: i32):\n'
        f'{last}\n"scf.condition"(%more, %sum_before, %t_before, %idle_before) : (i1, {types[1:]} -> ()\n}}, {{\n'
        f"^bb0(%sum: {ACC}, %t: i32, %idle: i32):\n{column('t')}\n{iteration(at='%column, %zero')}\n"
        + "\n".join(counted)
        + f'\n"scf.yield"(%next, %t_next, %idle_next) : {types} -> ()\n}}) : {types} -> {types}'
    )
    return kernel(f"{loop}\n{store('acc#0')}".replace("%acc#0_", "%acc_"))


def while_listed() -> str:
    """A ``while`` that continues as long as the numbers of a list in memory are positive."""
    first = scalar_load("first", "lock")
    following = op("tt.addptr", "%lock, %t_next", "!tt.ptr<i32>, i32", "%there", "!tt.ptr<i32>")
    types = f"({ACC}, i32, i32)"
    body = (
        column("block"),
        iteration(at="%column, %zero"),
        binary("t_next", "addi", "t", "one"),
        following,
        scalar_load("block_next", "there"),
    )
    loop = (
        f'%acc:3 = "scf.while"(%zeros, %zero, %first) ({{\n^bb0(%sum_before: {ACC}, %t_before: i32, %at: i32):\n'
        f'{compare("more", "zero", "at", 2)}\n"scf.condition"(%more, %sum_before, %t_before, %at) : '
        f"(i1, {types[1:]} -> ()\n}}, {{\n^bb0(%sum: {ACC}, %t: i32, %block: i32):\n"
        + "\n".join(body)
        + f'\n"scf.yield"(%next, %t_next, %block_next) : {types} -> ()\n}}) : {types} -> {types}'
    )
    text = f"{first}\n{loop}\n{store('acc#0')}".replace("%acc#0_", "%acc_")
    return kernel(text, arguments=LOCK)


def search(result: str = "found", *, above: str = "m") -> str:
    """The first place in a list of %n ascending numbers in memory where the number is larger than `above`."""
    one_more = f'{binary("up", "addi", "mid", "one")}\n"scf.yield"(%up) : (i32) -> ()'
    body = (
        binary("both", "addi", "low", "high"),
        binary("mid", "divsi", "both", "two"),
        op("tt.addptr", "%lock, %mid", "!tt.ptr<i32>, i32", "%there", "!tt.ptr<i32>"),
        scalar_load("number", "there"),
        compare("less", "number", above, 3),
        f'%low_next = "scf.if"(%less) ({{\n{one_more}\n}}, {{\n"scf.yield"(%low) : (i32) -> ()\n}}) : (i1) -> i32',
        op("arith.select", "%less, %high, %mid", "i1, i32, i32", "%high_next", "i32"),
    )
    return (
        f'%{result}, %{result}_high = "scf.while"(%zero, %n) ({{\n^bb0(%low_before: i32, %high_before: i32):\n'
        f'{compare("more", "low_before", "high_before", 2)}\n"scf.condition"(%more, %low_before, %high_before) : '
        "(i1, i32, i32) -> ()\n}, {\n^bb0(%low: i32, %high: i32):\n"
        + "\n".join(body)
        + '\n"scf.yield"(%low_next, %high_next) : (i32, i32) -> ()\n}) : (i32, i32) -> (i32, i32)'
    )


def searched() -> str:
    """As many trips as a binary search finds: a ``while`` without accesses, with a branch on what is in memory."""
    return kernel("\n".join((search(), gemm_loop(upper="found"), store())), arguments=LOCK)


COUNTER = {"counter": "!tt.ptr<i32>"}
"""An argument of a kernel that takes its tiles from a counter."""


def atomic(
    result: str, value: str, mask: str = "flag", *, pointer: str = "counter", kind: int = 4, sem: int = 1, line: int = 0
) -> str:
    """An atomic on one number. kind: 4 adds, 10 exchanges. sem: 1 is relaxed, 4 acquires and releases."""
    properties = f"atomic_rmw_op = {kind} : i32, scope = 1 : i32, sem = {sem} : i32"
    operands, types = f"%{pointer}, %{value}, %{mask}", "!tt.ptr<i32>, i32, i1"
    return op("tt.atomic_rmw", operands, types, f"%{result}", "i32", line=line, properties=properties)


def dynamic_gemm(*, by_tile: bool = False, ticket: str = "") -> str:
    """A ``while`` over %m tiles, of which the next is what a counter says; the last one resets it.

    by_tile: a tile has as many trips as its number says, instead of %n. ticket: the text of the atomic.
    """
    trips = op("arith.minsi", "%tile, %n", "i32, i32", "%trips", "i32") if by_tile else ""
    body = (
        trips,
        column("tile"),
        gemm_loop(upper="trips" if by_tile else "n", at="%k, %column"),
        store(at="%tile, %zero"),
        ticket or atomic("ticket", "one", line=30),
        compare("is_last", "ticket", "last", 0),
        atomic("old", "zero", "is_last", kind=10),
        binary("next_tile", "addi", "ticket", "one"),
    )
    more = compare("more", "tile_before", "m", 2)
    loop = (
        f'%behind = "scf.while"(%zero) ({{\n^bb0(%tile_before: i32):\n{more}\n'
        '"scf.condition"(%more, %tile_before) : (i1, i32) -> ()\n}, {\n^bb0(%tile: i32):\n'
        + "\n".join(filter(None, body))
        + '\n"scf.yield"(%next_tile) : (i32) -> ()\n}) : (i32) -> i32'
    )
    return kernel(f"{binary('last', 'subi', 'm', 'one')}\n{loop}", arguments=COUNTER)


def nested_loops() -> str:
    """A loop of %n iterations with a dot and an inner loop of %m iterations after it, each with its accumulator."""
    inner = for_loop(
        iteration("low", "low_more", "_2", "%k_2, %zero"),
        induction="k_2",
        upper="m",
        carried={"low": ("all_low", "low_more", ACC)},
        results="%low_next",
    )
    carried = {"high": ("zeros", "high_next", ACC), "all_low": ("zeros", "low_next", ACC)}
    loop = for_loop(f"{iteration('high', 'high_next')}\n{inner}", carried=carried, results="%acc:2")
    total = op("arith.addf", "%acc#0, %acc#1", f"{ACC}, {ACC}", "%total", ACC)
    return kernel("\n".join((loop, total, store("total"))))


# -- reading -----------------------------------------------------------------------------------------------------------


def parse(text: str) -> Module:
    """The module of `text`."""
    return parse_module(text)


def ops_named(module: Module, name: str) -> list[Operation]:
    """Every operation of that name, in textual order."""
    return [found for found in module.walk() if found.name == name]


def the(module: Module, name: str) -> Operation:
    """The only operation of that name."""
    (found,) = ops_named(module, name)
    return found
