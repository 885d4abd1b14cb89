"""`structure_flow`: kernels with early returns and forward branches become one block; simulated before and after."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tawa.dialects import structure_rules
from tawa.dialects.tt import FuncOp
from tawa.ir import Module, parse_module, print_module, verify_structure
from tawa.sim import simulate
from tawa.transforms.ttir.kernel.structure_flow import StructureFlow
from tests.support.sample import seeds

FUNCTION = """"builtin.module"() ({
  "tt.func"() <{function_type = (!tt.ptr<i32>, i32) -> (), sym_name = "k", sym_visibility = "public"}> ({
  ^bb0(%p: !tt.ptr<i32>, %n: i32):
BODY
  }) : () -> ()
}) : () -> ()
"""
RETURN = '    "tt.return"() : () -> ()'


def module_of(body: str) -> Module:
    return parse_module(FUNCTION.replace("BODY", body))


def function_of(module: Module) -> FuncOp:
    return next(view for op in module.body.ops if (view := FuncOp.of(op)))


def names(module: Module) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith(("scf.", "cf.", "tt."))]


def branch(condition: str, yes: str, no: str, given: tuple[list[str], list[str]] = ([], [])) -> str:
    operands = [condition, *given[0], *given[1]]
    types = ", ".join(["i1", *("i32" for _ in operands[1:])])
    sizes = f"operandSegmentSizes = array<i32: 1, {len(given[0])}, {len(given[1])}>"
    return f'    "cf.cond_br"({", ".join(operands)})[{yes}, {no}] <{{{sizes}}}> : ({types}) -> ()'


def jump(target: str, given: list[str]) -> str:
    return f'    "cf.br"({", ".join(given)})[{target}] : ({", ".join("i32" for _ in given)}) -> ()'


def store(tag: int, value: str) -> list[str]:
    """Stores `value` plus a tag at p[tag], so that executed blocks are observable."""
    return [
        f'    %t{tag} = "arith.constant"() <{{value = {tag} : i32}}> : () -> i32',
        f'    %q{tag} = "tt.addptr"(%p, %t{tag}) : (!tt.ptr<i32>, i32) -> !tt.ptr<i32>',
        f'    %s{tag} = "arith.addi"({value}, %t{tag}) <{{overflowFlags = #arith.overflow<none>}}> : (i32, i32) -> i32',
        f'    "tt.store"(%q{tag}, %s{tag}) <{{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}}> '
        ": (!tt.ptr<i32>, i32) -> ()",
    ]


def bit(name: str, tag: int, at: int) -> list[str]:
    """An i1: bit `at` of n."""
    return [
        f'    %{name}m = "arith.constant"() <{{value = {1 << at} : i32}}> : () -> i32',
        f'    %{name}z = "arith.constant"() <{{value = 0 : i32}}> : () -> i32',
        f'    %{name}a = "arith.andi"(%n, %{name}m) : (i32, i32) -> i32',
        f'    %{name} = "arith.cmpi"(%{name}a, %{name}z) <{{predicate = 1 : i64}}> : (i32, i32) -> i1',
    ]


def results(module: Module, n: int, cells: int = 64) -> bytes:
    memory: Any = np.full(cells, -1, np.int32)
    simulate(module, {"p": memory, "n": n}, grid=(1, 1, 1))
    return memory.tobytes()


def test_a_return_at_the_top_becomes_an_if_around_the_rest() -> None:
    body = [*bit("c", 0, 0), branch("%c", "^bb1", "^bb2"), "  ^bb1:", RETURN, "  ^bb2:", *store(1, "%n"), RETURN]
    module = module_of("\n".join(body))
    assert StructureFlow().run(module).changed
    assert names(module) == ["tt.func", "scf.if", "tt.addptr", "tt.store", "scf.yield", "tt.return"]
    assert verify_structure(module, structure_rules()) == []


def test_a_function_without_jumps_stays_as_it_is() -> None:
    module = module_of("\n".join([*store(1, "%n"), RETURN]))
    before = print_module(module)
    assert not StructureFlow().run(module).changed
    assert print_module(module) == before


def test_a_function_with_a_back_edge_does_not_change() -> None:
    body = [
        *bit("c", 0, 0),
        "    " + jump("^bb1", []).strip(),
        "  ^bb1:",
        branch("%c", "^bb1", "^bb2"),
        "  ^bb2:",
        RETURN,
    ]
    module = module_of("\n".join(body))
    assert not StructureFlow().run(module).changed


def random_graph(seed: int) -> str:
    """A function of a few blocks with two arguments each, whose branches go to any later block or to a return."""
    lot = random.Random(seed)
    count = lot.randrange(2, 8)
    lines: list[str] = []
    visible = ["%n"]  # of the entry block, which comes before all others
    for number in range(count):
        own = [f"%x{number}", f"%y{number}"] if number else []
        if number:
            lines.append(f"  ^bb{number}({', '.join(f'{name}: i32' for name in own)}):")
        known = visible + own
        if lot.random() < 0.8:
            lines += store(number, lot.choice(known))
            visible += [f"%s{number}"] if number == 0 else []
            known = [*known, f"%s{number}"]
        later = [f"^bb{it}" for it in range(number + 1, count)] + ["^out"]
        given = {target: [] if target == "^out" else lot.choices(known, k=2) for target in later}
        kind = lot.random()
        if kind < 0.15:
            lines.append(RETURN)
        elif kind < 0.3:
            target = lot.choice(later)
            lines.append(jump(target, given[target]))
        else:
            lines += bit(f"c{number}", number, number)
            yes, no = lot.choice(later), lot.choice(later)
            sides = [[] if it == "^out" else lot.choices(known, k=2) for it in (yes, no)]
            lines.append(branch(f"%c{number}", yes, no, (sides[0], sides[1])))
    return "\n".join([*lines, "  ^out:", RETURN])


@pytest.mark.parametrize("seed", seeds(60))
def test_any_forward_branches_have_the_same_effects(seed: int) -> None:
    body = random_graph(seed)
    jumping, structured = module_of(body), module_of(body)
    if not StructureFlow().run(structured).changed:
        assert function_of(jumping).structured
        return
    assert function_of(structured).structured
    assert verify_structure(structured, structure_rules()) == []
    reread = parse_module(print_module(structured))
    for n in range(1 << 7):
        assert results(reread, n) == results(jumping, n), n
