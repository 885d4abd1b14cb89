"""The barrier level as Triton 3.7 and later spell it means what it means in 3.6; descriptor types in both spellings."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from tawa.bridge.triton.ir_compat import respelt, to_3_7
from tests.cases.gemm.cases import find
from tests.sim.problems import level_module, make_arrays, output, run

CASES = {
    "tile_64x64": {"M": 128, "N": 128, "K": 200},
    "persistent": {"M": 256, "N": 128, "K": 136, "PROGRAMS": 1},
    "tile_fp8e4nv_nt": {"M": 128, "N": 128, "K": 272},
}


@pytest.mark.parametrize("order", ["eager", "late", "random"])
@pytest.mark.parametrize("name", CASES)
def test_the_ir_of_3_7_gives_the_same_bits_and_times(name: str, order: str) -> None:
    case = find(name).with_sizes(**CASES[name])
    module, other = (level_module(name, "barrier") for _ in range(2))
    to_3_7(other)
    specialised = next(op for op in other.walk() if op.name == "ttg.warp_specialize")
    assert not specialised.operands
    assert specialised.regions[1].block.ops[0].operands
    assert (output(case, other, order, 1) == output(case, module)).all()
    times = [run(case, it, make_arrays(case), timing=True).timeline() for it in (module, other)]
    assert times[0] == times[1]


NESTED = "%a: !tt.tensordesc<tensor<128x64xf16, #shared>>, %b: !tt.tensordesc<tensor<64xsi8>>\n%c: !tt.ptr<f16>"
FLAT = "%a: !tt.tensordesc<128x64xf16, #shared>, %b: !tt.tensordesc<64xsi8>\n%c: !tt.ptr<f16>"


def test_each_spelling_becomes_the_other() -> None:
    assert respelt(NESTED, nested=False) == (FLAT, "!tt.tensordesc<tensor<128x64xf16, #shared>>")
    assert respelt(FLAT, nested=True) == (NESTED, "!tt.tensordesc<128x64xf16, #shared>")


@pytest.mark.parametrize("text, nested", [(NESTED, True), (FLAT, False), ("", True)])
def test_a_text_of_this_triton_stays(text: str, nested: bool) -> None:
    assert respelt(text, nested) == (text, "")


def test_a_layout_inside_the_type_is_kept() -> None:
    layout = "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false}>"
    text = f"!tt.tensordesc<8x8xf16, {layout}>"
    assert respelt(text, nested=True)[0] == f"!tt.tensordesc<tensor<8x8xf16, {layout}>>"
    assert respelt(respelt(text, nested=True)[0], nested=False)[0] == text


def test_a_type_that_never_ends_is_left_to_triton() -> None:
    text = "!tt.tensordesc<8xf16> !tt.tensordesc<8xf16"
    assert respelt(text, nested=True)[0] == "!tt.tensordesc<tensor<8xf16>> !tt.tensordesc<8xf16"
