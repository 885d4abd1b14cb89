"""Programs of two groups whose loops read one sequence of tiles, of which each group needs another part."""

from __future__ import annotations

from tawa.flow import Flow, run
from tawa.ir import print_module
from tests.cases.programs.ping_pong import plan_of
from tests.cases.programs.ttgir import binary, for_loop, gemm_loop, kernel, op, store
from tests.support.passes import flow_of, to_arefs

_ASM = 'asm_string = "tawa.group", constraints = "=r,r", packed_element = 1 : i32, pure = true'
_GROUP = "\n".join(
    (
        op("arith.constant", "", "", "%groups", "i32", properties="value = 2 : i32"),
        op("tt.elementwise_inline_asm", "%groups", "i32", "%group", "i32", properties=_ASM),
        binary("near", "muli", "group", "n"),
        binary("full", "maxsi", "near", "zero"),  # 0, n
        binary("end", "addi", "full", "m"),  # m, n + m
    )
)


def in_a_row(first: str = "zero", between: str = "full", at: str = "") -> str:
    """Two loops, 0 … full and full … end. first, between: bounds in place of these. at: the tile of the second."""
    one = gemm_loop("half", upper="full").replace("(%zero, %full,", f"(%{first}, %full,")
    two = gemm_loop("acc", "_2", upper="end", init="half", at=at).replace("(%zero, %end,", f"(%{between}, %end,")
    return f"{one}\n{two}"


def streams(loops: str = "", tiles: bool = False) -> str:
    """The kernel; each group stores its own rows. tiles: in a loop over %m tiles."""
    body = "\n".join((loops or in_a_row(), store(at="%group, %zero")))
    if tiles:
        body = for_loop(body, induction="tile", upper="m")
    return kernel(f"{_GROUP}\n{body}")


def partitioned(text: str, last: type, depth: int = 2) -> Flow:
    """The flow after a pass, with two consumer groups."""
    flow = flow_of(text, plan_of(text, depth=depth, ping_pong=False), groups=2)
    assert run(flow, to_arefs(), until=last.__name__) is None
    return flow


def at_arefs(depth: int = 2, text: str = "") -> str:
    """The aref level."""
    text = text or streams()
    flow = flow_of(text, plan_of(text, depth=depth, ping_pong=False), groups=2)
    refusal = run(flow, to_arefs())
    assert refusal is None, refusal
    return print_module(flow.module)
