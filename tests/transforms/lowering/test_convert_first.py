"""`convert_first`: an operand that needs only other registers is laid out before it becomes narrow."""

from __future__ import annotations

import pytest

from tawa.dialects import structure_rules
from tawa.ir import parse_module, print_module, verify_structure
from tawa.transforms.lowering.convert_first import ConvertFirst
from tests.cases.programs.ttgir import op
from tests.support.filecheck import check

LANES = "lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], block = []"
ALIASES = "\n".join(
    (
        "#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 32]}>",
        f"#linear = #ttg.linear<{{register = [[0, 2], [8, 0], [0, 16], [0, 32], [0, 1]], {LANES}}}>",
        f"#packed = #ttg.linear<{{register = [[0, 1], [0, 2], [8, 0], [0, 16], [0, 32]], {LANES}}}>",
    )
)
OPERAND = "#ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = %d}>"


def program(layout: str = "#linear", narrow: str = "f8E4M3FN", width: int = 4, uses: int = 1) -> str:
    """A wide tile becomes narrow and then the operand of a dot."""
    wide, small, operand = (
        f"tensor<64x64x{it}>" for it in (f"f32, {layout}", f"{narrow}, {layout}", f"{narrow}, {OPERAND % width}")
    )
    name = "tt.fp_to_fp" if narrow.startswith("f8") else "arith.truncf"
    lines = [
        f'"tt.func"() <{{function_type = ({wide}) -> (), sym_name = "kernel", sym_visibility = "public"}}> ({{',
        f"^bb0(%p: {wide}):",
        op(name, "%p", wide, "%n", small, properties="rounding = 1 : i32" if name == "tt.fp_to_fp" else ""),
        op("ttg.convert_layout", "%n", small, "%o", operand),
        op("test.use", "%o", operand),
        *([op("test.use", "%n", small)] * (uses - 1)),
        '"tt.return"() : () -> ()',
        "}) : () -> ()",
    ]
    body = "\n".join(lines)
    return f'{ALIASES}\n"builtin.module"() ({{\n{body}\n}}) : () -> ()'


def test_the_wide_tile_is_converted_and_becomes_narrow_in_the_layout_of_the_operand() -> None:
    module = parse_module(program())
    assert ConvertFirst().run(module).changed
    check(
        print_module(module, locations=False),
        """
        CHECK: [[W:%\\w+]] = "ttg.convert_layout"(%p_0) : (tensor<64x64xf32, #linear>) ->
        CHECK-SAME: tensor<64x64xf32, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 4}>>
        CHECK-NEXT: [[O:%\\w+]] = "tt.fp_to_fp"([[W]]) <{rounding = 1 : i32}>
        CHECK-SAME: -> tensor<64x64xf8E4M3FN, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 4}>>
        CHECK-NEXT: "test.use"([[O]])
        """,
    )
    assert [it for it in verify_structure(module, structure_rules()) if "test.use" not in str(it)] == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(program("#mma"), id="threads exchange elements"),
        pytest.param(program("#packed"), id="the same elements are packed"),
        pytest.param(program("#mma", "f16", 2), id="16 bits are packed as they stand"),
        pytest.param(program(uses=2), id="the narrow tile has other users"),
    ],
)
def test_nothing_else_moves(text: str) -> None:
    module = parse_module(text)
    before = print_module(module)
    assert not ConvertFirst().run(module).changed and print_module(module) == before
