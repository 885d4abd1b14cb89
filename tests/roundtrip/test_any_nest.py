"""Triton's back half accepts the pipeline's output for random nests of loops and branches."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from hypothesis import example, given, settings
from hypothesis import strategies as st
from triton._C.libtriton import ir
from triton.backends.nvidia.compiler import CUDABackend

from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.generic_print import parse_module
from tawa.bridge.triton.stages import clean_up, split_make_ttgir
from tawa.bridge.triton.versions import installed_text, nested_descriptors
from tawa.machine.machines import SM_90
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tests.cases.programs.nests import Branch, Loop, Statement, Step, nests, text
from tests.support.pipeline import specialise
from tests.support.sample import examples

pytestmark = [pytest.mark.slow, pytest.mark.contract]

SETTINGS = settings(max_examples=examples(20))
CAPABILITY = 90

SUM_TAKEN_OVER = (Loop(upper="n", body=(Step(accumulator=0), Step(accumulator=0), Branch(then=(), other=()))),)
"""The first slot is released while the second dot, which continues the sum, is in flight."""


def spelt(program: str) -> str:
    """The program with descriptor types in the syntax of the installed Triton."""
    if nested_descriptors():
        return program
    return program.replace("tensordesc<tensor<64x64xf16, #shared>>", "tensordesc<64x64xf16, #shared>")


@given(nests(), st.sampled_from([(1, 0), (2, 1), (3, 2)]))
@example(SUM_TAKEN_OVER, (1, 0))
@SETTINGS
def test_a_specialised_nest_verifies_and_lowers_to_llvm(nest: tuple[Statement, ...], plan: tuple[int, int]) -> None:
    backend = CUDABackend(gpu_target(SM_90))
    options = backend.parse_options({"num_warps": 4, "num_stages": 3, "arch": "sm90"})
    split = split_make_ttgir(CUDABackend)
    assert split is not None
    depth, mma_depth = plan
    made = specialise(spelt(text(nest)), PlanOptions(aref_depth=depth, mma_depth=mma_depth), Target(4, 3, 10**9))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    metadata: dict[str, object] = {}
    module = clean_up(parse_module(installed_text(made.barrier, None), context), CAPABILITY)
    module = split.back(module, metadata, options, CAPABILITY)
    assert module.verify()
    assert "nvvm" in backend.make_llir(module, metadata, options, CAPABILITY)
