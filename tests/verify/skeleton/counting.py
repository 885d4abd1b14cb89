"""Loops whose waits get slot and parity from numbers that are computed in a given way, at the barrier level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tawa.ir import parse_module
from tawa.verify.skeleton.compiler import compile_barriers
from tawa.verify.skeleton.program import Program
from tests.cases.programs.ttgir import for_loop, kernel, op
from tests.verify.barriers.test_foreign import BARRIER

Carried = Mapping[str, tuple[str, str, str]]
"""As in `for_loop`: name inside → (initial value, value yielded, type)."""


def constants(*numbers: int, type: str = "i32") -> str:
    """Constants ``%c3``; of other types than i32 ``%c3_i8``."""
    suffix = "" if type == "i32" else f"_{type}"
    return "\n".join(
        op("arith.constant", "", "", f"%c{number}{suffix}", type, properties=f"value = {number} : {type}")
        for number in numbers
    )


def wait(slot: str, parity: str, which: str = "", depth: int = 3) -> str:
    """Waits for the parity of a slot. which: distinguishes several waits of one program."""
    ring = BARRIER.replace("<1x", f"<{depth}x1x")
    return (
        f'%bar{which} = "ttg.memdesc_index"(%ring, %{slot}) : ({ring}, i32) -> {BARRIER}\n'
        f'"ttng.wait_barrier"(%bar{which}, %{parity}) <{{operandSegmentSizes = array<i32: 1, 1, 0, 0>}}> : '
        f"({BARRIER}, i32) -> ()"
    )


def waits(*body: str, carried: Carried, depth: int = 3, before: Sequence[str] = (), around: bool = False) -> Program:
    """The skeleton of a loop with this body. around: in another loop, each iteration of which starts anew."""
    ring = BARRIER.replace("<1x", f"<{depth}x1x")
    names = ", ".join(f"%{name}_end" for name in carried)
    loop = for_loop("\n".join(body), carried=carried, results=names and f"%ends:{len(carried)}")
    if len(carried) == 1:
        loop = loop.replace("%ends:1", "%ends", 1)
    lines = (f'%ring = "ttg.local_alloc"() : () -> {ring}', constants(*range(8)), *before)
    nest = for_loop(loop, induction="tile", upper="m") if around else loop
    return compile_barriers(parse_module(kernel("\n".join((*lines, nest)))))
