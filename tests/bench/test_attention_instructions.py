"""Counting the instructions of a loop in machine code."""

from __future__ import annotations

import pytest

from bench.attention.instructions import steady_loop


def sass(*lines: str) -> str:
    return "\n".join(f"        /*{16 * number:04x}*/                   {line} ;" for number, line in enumerate(lines))


BODY = (
    "HGMMA.64x8x16.F32 R24, R20",
    "MUFU.EX2 R1, R2",
    "@P0 MUFU.EX2 R3, R4",
    "FADD.FTZ R1, R1, R3",
    "F2FP.BF16.F32 R1, R1, R3",
)


def test_the_shortest_loop_with_all_exponentials_is_counted() -> None:
    code = sass("MOV R1, R2", "FMUL R5, R5, R6", *BODY, "@P1 BRA 0x20", "@P2 BRA 0x10")
    loop = steady_loop(code, keys=4)
    assert (len(loop.instructions), loop.each) == (6, 3.0)
    assert {kind: count for kind, count in loop.counts().items() if count} == {
        "dots": 1, "exponentials": 2, "additions": 1, "conversions": 1, "others": 1,
    }  # fmt: skip


@pytest.mark.parametrize("code", [sass(*BODY), sass(*BODY[1:], "BRA 0x0"), sass(*BODY[:2], "BRA 0x0")])
def test_code_without_such_a_loop_is_an_error(code: str) -> None:
    with pytest.raises(ValueError, match="no loop has the exponentials of 4 keys"):
        steady_loop(code, keys=4)
