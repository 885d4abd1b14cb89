"""The types of descriptors in the spelling of another Triton."""

from __future__ import annotations

import pytest

from tawa.bridge.triton.descriptor_types import respelt

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
