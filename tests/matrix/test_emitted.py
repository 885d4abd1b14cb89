"""Emitted Gluon modules: the same bits in the simulator as the kernels they came from, on every Triton."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.bridge.gluon.emit import compile_emitted, emit_gluon, load_emitted
from tawa.bridge.triton.read_module import read_final
from tawa.demo.exhibits import compile_case
from tawa.emit.module import Emitted
from tawa.errors import EmitError
from tawa.verify.barriers.check import check_barriers
from tawa.verify.verdict import Proved
from tests.cases.attention import cases as attention
from tests.cases.gemm import cases as gemm
from tests.cases.pointers import cases as pointers
from tests.cases.simulated import simulated

CASES = {
    "gemm": (gemm, "tile_fp16_nn"),
    "fp8, registers of the launch": (gemm, "tile_fp8e4nv_nt"),
    "persistent, variables with one beginning": (gemm, "persistent_8warps"),
    "while": (gemm, "persistent_while"),
    "tiles that are split": (gemm, "split_epilogue"),
    "empty branch": (gemm, "early_return"),
    "descriptors made in the kernel": (gemm, "device_desc_nn"),
    "attention, two groups": (attention, "tutorial_fp16_d128_causal"),
    "pointers": (pointers, "tutorial_fp16_nn"),
    "descriptors of bytes": (pointers, "weights_i4_fp16_group64"),
}


@functools.cache
def emitted(name: str) -> tuple[Any, Any, Emitted]:
    room, case = CASES[name]
    found = next(it for it in room.CASES if it.name == case)
    compiled = compile_case(found, only_if_faster=False)
    return found, compiled, emit_gluon(compiled)


@pytest.mark.parametrize("name", CASES)
def test_an_emitted_module_is_proved_and_gives_the_same_bits(name: str) -> None:
    case, compiled, module = emitted(name)
    final = read_final(compile_emitted(module, compiled))
    assert isinstance(check_barriers(final, effort="fast"), Proved)
    wanted, found = simulated(case, read_final(compiled)), simulated(case, final)
    for tensor, values in wanted.items():
        assert np.asarray(values).tobytes() == np.asarray(found[tensor]).tobytes(), tensor


def test_groups_of_consumers_are_one_function_with_an_offset() -> None:
    _, _, module = emitted("attention, two groups")
    calls = [line.strip() for line in module.text.splitlines() if line.strip().startswith("(consumer, (")]
    assert [it.rpartition(", ")[2] for it in (call.removesuffix(")),") for call in calls)] == ["0", "64"]
    assert module.text.count("def consumer(") == 1 and "offset: gl.constexpr" in module.text


def test_an_emitted_module_says_nothing_of_tawa_but_its_origin() -> None:
    _, _, module = emitted("gemm")
    assert "import tawa" not in module.text and "from tawa" not in module.text
    assert callable(load_emitted(module)["launch"])


def test_the_lines_of_the_kernel_stand_above_what_became_of_them() -> None:
    _, _, module = emitted("gemm")
    lines = [line.strip() for line in module.text.splitlines()]
    place = next(at for at, line in enumerate(lines) if line.startswith("# acc = tl.dot("))
    assert any("warpgroup_mma(" in line for line in lines[place : place + 3])


def test_a_kernel_that_is_left_to_stock_triton_is_refused() -> None:
    compiled = compile_case(
        next(it for it in gemm.CASES if it.name == "tile_fp16_nn"), enable_warp_specialization=False
    )
    with pytest.raises(EmitError, match="is not specialised"):
        emit_gluon(compiled)


def test_an_operation_without_counterpart_is_refused_with_its_line() -> None:
    """The kernel also repeats a scalar from outside in a partition, which has to be an argument there."""
    compiled = compile_case(next(it for it in pointers.CASES if it.name == "experts_elsewhere"), only_if_faster=False)
    with pytest.raises(EmitError, match=r"async_copy_global_to_local has no counterpart there\n  at .*exits\.py:\d+"):
        emit_gluon(compiled)
