"""Kernels that are specialised for Blackwell, in Gluon: proved, and the same bits as the level that they came from."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.bridge.gluon.emit import compile_emitted, emit_gluon
from tawa.bridge.triton.read_module import read_final, read_levels
from tawa.emit.module import Emitted, gluon_source
from tawa.errors import EmitError
from tawa.ir import parse_module
from tawa.machine.machines import SM_100
from tawa.verify.barriers import check_barriers
from tests.cases.attention.builders import forward_case
from tests.cases.compiled import compile_case
from tests.cases.gemm.cases import named_tile, persistent_case
from tests.cases.scaled import scaled, scaled_attention
from tests.cases.simulated import simulated
from tests.support.sample import sample
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("without_ptx")

CASES = {
    "gemm": named_tile("gemm", {"M": 128, "N": 256, "K": 328}, (128, 256, 64), False),
    "persistent gemm": persistent_case(
        "persistent", False, tile=(128, 128, 64), sizes={"M": 256, "N": 384, "K": 136, "PROGRAMS": 2}
    ),
    "scales by TMA": scaled("nvfp4", "tma", 136, 136, 512),
    "scales by pointers": scaled("mxfp8", "pointers", 136, 136, 256),
    "scaled attention": scaled_attention(256),
    "scales that are no blocks": scaled("mxfp8", "pointers", 136, 72, 288, 128, 64),
    "attention, one group": forward_case("one", tile=(128, 128, 4), dim=64, SQ=128, SK=384),
    "attention, two groups": forward_case("two", "one_loop", tile=(256, 128, 8), dim=128, SQ=256, SK=384),
}


@functools.cache
def emitted(name: str) -> tuple[Any, Emitted]:
    compiled = compile_case(CASES[name], only_if_faster=False, target=SM_100)
    return compiled, emit_gluon(compiled)


@pytest.mark.parametrize("name", sample(CASES, 3))
def test_an_emitted_kernel_for_blackwell_is_proved_and_gives_the_same_bits(name: str) -> None:
    case, (compiled, module) = CASES[name], emitted(name)
    final = read_final(compile_emitted(module))
    assert passes(check_barriers(final, effort="fast"))
    wanted = simulated(case, read_levels(compiled)[1])
    for order in ("eager", "late", "random"):
        found = simulated(case, final, order)
        for tensor, values in wanted.items():
            assert np.asarray(values).tobytes() == np.asarray(found[tensor]).tobytes(), (order, tensor)


def test_each_partition_has_its_name_and_dots_are_those_of_one_thread() -> None:
    text = emitted("persistent gemm")[1].text
    mma = text[text.index("def mma(") : text.index("def producer(")]
    assert "acc_ring.acquire(acc_slot, acc_parity)" in mma
    assert "acc_ring.tiles[0].index(acc_slot), use_acc=started, mbarriers=[a_b_ring.empty.index(" in " ".join(
        mma.split()
    )
    assert "tcgen05_commit(acc_ring.full.index(acc_slot))" in mma
    assert "(allocate_tensor_memory(gl.float32, [2, 128, 128], TENSOR),)" in text
    assert "import TensorDescriptor" in text and "nvidia.hopper" not in text


def test_the_thread_of_the_dots_copies_their_scales() -> None:
    text = " ".join(emitted("scales by pointers")[1].text.split())
    assert "gl.SharedLinearLayout([[0, 1], [0, 2], [32, 0]," in text and "TensorMemoryScalesLayout()" in text
    assert text.count("tcgen05_copy(") == 2 and '"e4m3", "e4m3", use_acc=started' in text


def test_a_slot_that_is_exchanged_is_in_one_ring() -> None:
    text = emitted("attention, two groups")[1].text
    calls = " ".join(text.split()).replace("( ", "(")
    assert "(consumer, (acc_ring, s_ring," in calls and "(consumer, (acc_ring_2, s_ring_2," in calls
    assert "s_ring.tiles[0].index(0), gl.float16, [128, 256], TENSOR" in text
    assert "Slots in shared or in tensor memory" in text


SMEM = "!ttg.memdesc<128x64xf16, #shared, #ttg.shared_memory, mutable>"
SUMS = "!ttg.memdesc<128x64xf32, #tensor, #ttng.tensor_memory, mutable>"
BARRIER = "!ttg.memdesc<1xi64, #barrier, #ttg.shared_memory, mutable>"
PROGRAM = f"""
#shared = #ttg.nvmma_shared<{{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}}>
#barrier = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>
#tensor = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
"builtin.module"() ({{
  "tt.func"() <{{function_type = (i1) -> (), sym_name = "kernel"}}> ({{
  ^bb0(%condition: i1):
    %a = "ttg.local_alloc"() : () -> {SMEM}
    %bar = "ttg.local_alloc"() : () -> {BARRIER}
    %sums = "ttng.tmem_alloc"() : () -> {SUMS}
    %yes = "arith.constant"() <{{value = true}}> : () -> i1
    OPERATION
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) {{ttg.target = "cuda:100", "ttg.num-warps" = 4 : i32}} : () -> ()
"""


def written(operation: str) -> Emitted:
    return gluon_source(parse_module(PROGRAM.replace("OPERATION", operation)))


def dot(operands: str, sizes: str, properties: str = ", is_async") -> str:
    types = ", ".join({"%a": SMEM, "%sums": SUMS, "%bar": BARRIER}.get(it, "i1") for it in operands.split(", "))
    segments = f"operandSegmentSizes = array<i32: {sizes}>"
    return f'"ttng.tc_gen5_mma"({operands}) <{{{segments}{properties}}}> : ({types}) -> ()'


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (dot("%a, %a, %sums, %yes, %yes", "1, 1, 1, 0, 1, 1, 0, 0"), "tcgen05_mma(a_tile, a_tile, sums_tile)"),
        (dot("%a, %a, %sums, %yes, %yes", "1, 1, 1, 0, 1, 1, 0, 0", ""), "tcgen05_mma(a_tile, a_tile, sums_tile)"),
        (
            dot("%a, %a, %sums, %condition, %condition", "1, 1, 1, 0, 1, 1, 0, 0"),
            "tcgen05_mma(a_tile, a_tile, sums_tile, use_acc=condition, pred=condition)",
        ),
        (
            dot("%a, %a, %sums, %yes, %yes, %bar, %condition", "1, 1, 1, 0, 1, 1, 1, 1"),
            "tcgen05_mma(a_tile, a_tile, sums_tile, mbarriers=[bar_full], mbarrier_preds=[condition])",
        ),
        (f'"ttng.tc_gen5_commit"(%bar) : ({BARRIER}) -> ()', "tcgen05_commit(bar_full)"),
    ],
)
def test_a_dot_of_one_thread_is_a_call(operation: str, text: str) -> None:
    found = written(operation)
    assert f"    {text}\n" in found.text
    assert found.needs[0] == (3, 6)


def test_a_commit_under_a_condition_needs_a_later_triton() -> None:
    found = written(f'"ttng.tc_gen5_commit"(%bar, %condition) : ({BARRIER}, i1) -> ()')
    assert "pred=condition)" in found.text and found.needs == ((3, 7), "commits under a condition")


@pytest.mark.parametrize(
    ("operation", "what"),
    [
        (dot("%a, %a, %sums, %yes, %yes", "1, 1, 1, 0, 1, 1, 0, 0", ", is_async, two_ctas"), "two_ctas of a dot"),
        (
            f'%t:2 = "ttng.tmem_alloc"() : () -> ({SUMS}, !ttg.async.token)',
            "a token of tensor memory",
        ),
    ],
)
def test_what_gluon_cannot_say_of_tensor_memory_is_refused(operation: str, what: str) -> None:
    with pytest.raises(EmitError, match=what):
        written(operation)
