"""`join_loads`: two loads of one tile in the branches of an `if` become one; simulated before and after."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.dialects import structure_rules
from tawa.ir import Module, copy_module, parse_module, print_module, verify_structure
from tawa.sim import simulate
from tawa.transforms.ttir.kernel.join_loads import JoinLoads

NUMBERS, MASK, TILE, POINTERS = "tensor<8xi32>", "tensor<8xi1>", "tensor<8xf32>", "tensor<8x!tt.ptr<f32>>"
HINTS = "boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32"


def address(name: str, to: str = "%p") -> str:
    return f"""
        %all_{name} = "tt.splat"({to}) : (!tt.ptr<f32>) -> {POINTERS}
        %at_{name} = "tt.addptr"(%all_{name}, %lanes) : ({POINTERS}, {NUMBERS}) -> {POINTERS}"""


def load(name: str, mask: str = "", hints: str = HINTS) -> str:
    operands, types = (f", {mask}, %zeros", f", {MASK}, {TILE}") if mask else ("", "")
    sizes = f"operandSegmentSizes = array<i32: 1, {bool(mask):d}, {bool(mask):d}>"
    given = f"%at_{name}{operands}"
    return f'\n        %t_{name} = "tt.load"({given}) <{{{hints}, {sizes}}}> : ({POINTERS}{types}) -> {TILE}'


INSIDE = f"""
        %most = "tt.splat"(%n) : (i32) -> {NUMBERS}
        %inside = "arith.cmpi"(%lanes, %most) <{{predicate = 2 : i64}}> : ({NUMBERS}, {NUMBERS}) -> {MASK}"""
MASKED, PLAIN = f"{INSIDE}{address('a')}{load('a', '%inside')}", f"{address('b')}{load('b')}"


def kernel(then: str = MASKED, other: str = PLAIN, names: str = "ab") -> Module:
    """Loads eight numbers: if `n` is below 8, only the first `n`. Stores them to q."""
    one, two = names
    return parse_module(f"""
"builtin.module"() ({{
  "tt.func"() <{{function_type = (!tt.ptr<f32>, !tt.ptr<f32>, i32) -> (), sym_name = "k"}}> ({{
  ^bb0(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>, %n: i32):
    %lanes = "tt.make_range"() <{{start = 0 : i32, end = 8 : i32}}> : () -> {NUMBERS}
    %zeros = "arith.constant"() <{{value = dense<0.0> : {TILE}}}> : () -> {TILE}
    %eight = "arith.constant"() <{{value = 8 : i32}}> : () -> i32
    %c = "arith.cmpi"(%n, %eight) <{{predicate = 2 : i64}}> : (i32, i32) -> i1
    %t = "scf.if"(%c) ({{{then}
        "scf.yield"(%t_{one}) : ({TILE}) -> ()
    }}, {{{other}
        "scf.yield"(%t_{two}) : ({TILE}) -> ()
    }}) : (i1) -> {TILE}
    %out = "tt.splat"(%q) : (!tt.ptr<f32>) -> {POINTERS}
    %to = "tt.addptr"(%out, %lanes) : ({POINTERS}, {NUMBERS}) -> {POINTERS}
    "tt.store"(%to, %t) <{{{HINTS}}}> : ({POINTERS}, {TILE}) -> ()
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
""")


def stored(module: Module, n: int) -> list[float]:
    out = np.full(8, np.nan, np.float32)
    simulate(module, {"p": np.arange(1, 9, dtype=np.float32), "q": out, "n": n}, (1,))
    return out.tolist()


def names(module: Module) -> list[str]:
    return [op.name for op in module.walk()]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_load_with_a_mask_and_one_without_become_one(swapped: bool) -> None:
    module = kernel(PLAIN, MASKED, "ba") if swapped else kernel()
    before = copy_module(module)
    assert JoinLoads().run(module).changed
    assert not verify_structure(module, structure_rules())
    assert names(module).count("tt.load") == 1 and "scf.if" not in names(module)
    for n in (0, 3, 7, 8, 9):
        assert stored(module, n) == stored(before, n), n
    assert stored(kernel(), 3) == [1, 2, 3, 0, 0, 0, 0, 0]


DIVIDED = f"""
        %share = "arith.divsi"(%eight, %n) : (i32, i32) -> i32
        %most = "tt.splat"(%share) : (i32) -> {NUMBERS}
        %inside = "arith.cmpi"(%lanes, %most) <{{predicate = 2 : i64}}> : ({NUMBERS}, {NUMBERS}) -> {MASK}"""
DIVIDED_INSIDE = DIVIDED.replace(
    '%share = "arith.divsi"(%eight, %n) : (i32, i32) -> i32',
    '%share = "scf.if"(%c) ({\n%d = "arith.divsi"(%eight, %n) : (i32, i32) -> i32\n"scf.yield"(%d) : (i32) -> ()\n}, '
    '{\n"scf.yield"(%n) : (i32) -> ()\n}) : (i1) -> i32',
)
ENDLESS = DIVIDED.replace(
    '%share = "arith.divsi"(%eight, %n) : (i32, i32) -> i32',
    """%share = "scf.while"(%n) ({
        ^bb0(%x: i32):
          %other = "arith.cmpi"(%x, %eight) <{predicate = 1 : i64}> : (i32, i32) -> i1
          "scf.condition"(%other, %x) : (i1, i32) -> ()
        }, {
        ^bb0(%y: i32):
          %twice = "arith.addi"(%y, %y) : (i32, i32) -> i32
          "scf.yield"(%twice) : (i32) -> ()
        }) : (i32) -> i32""",
)
assert ENDLESS != DIVIDED != DIVIDED_INSIDE
VOLATILE = f"{HINTS}, isVolatile = true"
STREAMED = HINTS.replace("cache = 1", "cache = 3")
UNLIKE = {
    "another address": (MASKED, f"{address('b', '%q')}{load('b')}"),
    "two masks": (MASKED, f"{INSIDE.replace('%inside', '%within')}{address('b')}{load('b', '%within')}"),
    "no mask": (f"{address('a')}{load('a')}", PLAIN),
    "a volatile load": (
        f"{INSIDE}{address('a')}{load('a', '%inside', VOLATILE)}", f"{address('b')}{load('b', '', VOLATILE)}"
    ),
    "another way through the caches": (MASKED, f"{address('b')}{load('b', '', STREAMED)}"),
    "a division that a branch guards": (f"{DIVIDED}{address('a')}{load('a', '%inside')}", PLAIN),
    "a division in a nested branch": (f"{DIVIDED_INSIDE}{address('a')}{load('a', '%inside')}", PLAIN),
    "a loop that may not end": (f"{ENDLESS}{address('a')}{load('a', '%inside')}", PLAIN),
    "a store": (MASKED, f'{PLAIN}\n        "tt.store"(%at_b, %t_b) <{{{HINTS}}}> : ({POINTERS}, {TILE}) -> ()'),
}  # fmt: skip


@pytest.mark.parametrize("what", UNLIKE)
def test_branches_that_differ_in_more_stay(what: str) -> None:
    module = kernel(*UNLIKE[what])
    before = print_module(module)
    assert not JoinLoads().run(module).changed and print_module(module) == before


def test_addresses_that_use_each_of_their_operands_twice_are_compared_once() -> None:
    def twice(name: str) -> str:
        lines = [f'%d_{name}0 = "tt.splat"(%n) : (i32) -> {NUMBERS}']
        lines += [
            f'%d_{name}{at + 1} = "arith.addi"(%d_{name}{at}, %d_{name}{at}) : ({NUMBERS}, {NUMBERS}) -> {NUMBERS}'
            for at in range(60)
        ]
        return "\n".join(("", *lines, address(name).replace("%lanes", f"%d_{name}60")))

    module = kernel(f"{INSIDE}{twice('a')}{load('a', '%inside')}", f"{twice('b')}{load('b')}")
    assert JoinLoads().run(module).changed
