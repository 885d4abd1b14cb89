"""The stage hook: chained with others, and silent where it has no business."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget, Language

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.hook import StageHook
from tawa.bridge.driver.request import Request, activate
from tawa.bridge.triton.signature import Signature
from tawa.errors import DeviceError
from tawa.plan import PlanOptions
from tests.bridge import fakes, kernels

pytestmark = [pytest.mark.usefixtures("all_pay"), pytest.mark.contract]

PINNED = Request(PlanOptions(enable_warp_specialization=True))


class Spy:
    """A user's own hook; `replace` makes it take the ttgir stage over."""

    def __init__(self, replace: bool = False) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.replace = replace

    def __call__(self, backend=None, stages=None, options=None, language=None, capability=None):
        if stages is None:
            return "-spy", "7"
        self.calls.append(tuple(stages))
        if self.replace:
            original = stages["ttgir"]
            stages["ttgir"] = lambda mod, metadata: original(mod, metadata)
        return None


@pytest.fixture
def clean_knob() -> Iterator[None]:
    yield
    vars(knobs.runtime).pop("add_stages_inspection_hook", None)


def test_an_earlier_hook_is_called_and_restored(gemm_signature: Signature, pipeline_is: Any, clean_knob: None) -> None:
    pipeline_is(fakes.untouched)
    spy = knobs.runtime.add_stages_inspection_hook = Spy()
    compiled = compile_kernel(kernels.gemm_descriptors, gemm_signature, Request())
    assert spy.calls == [("ttir", "ttgir", "llir", "ptx", "cubin")]
    assert compiled.metadata.tawa["applied"]
    assert knobs.runtime.add_stages_inspection_hook is spy


def test_a_hook_set_while_attached_is_chained_before_the_next_compile(
    gemm_signature: Signature, pipeline_is: Any, clean_knob: None
) -> None:
    pipeline_is(fakes.untouched)
    spy = Spy()
    with attached():
        knobs.runtime.add_stages_inspection_hook = spy
        compiled = compile_kernel(kernels.gemm_descriptors, gemm_signature, Request())
    assert compiled.metadata.tawa["applied"]
    assert len(spy.calls) == 1
    assert knobs.runtime.add_stages_inspection_hook is spy


def test_a_hook_that_calls_ours_adds_the_stages_once(
    gemm_signature: Signature, pipeline_is: Any, clean_knob: None
) -> None:
    pipeline_is(fakes.untouched)
    with attached():
        ours = knobs.runtime.add_stages_inspection_hook
        knobs.runtime.add_stages_inspection_hook = lambda *args: ours(*args)
        compiled = compile_kernel(kernels.gemm_descriptors, gemm_signature, Request())
    assert compiled.metadata.tawa["applied"]


def test_a_hook_that_replaced_the_stage_keeps_it_and_the_kernel_is_declined(
    gemm_signature: Signature, pipeline_is: Any, clean_knob: None
) -> None:
    pipeline_is(fakes.untouched)
    knobs.runtime.add_stages_inspection_hook = Spy(replace=True)
    compiled = compile_kernel(kernels.gemm_descriptors, gemm_signature, Request())
    assert not compiled.metadata.tawa["applied"]
    assert "another stage hook" in compiled.metadata.tawa["reason"]


def test_the_call_for_keys_passes_the_earlier_hooks_answer_on() -> None:
    assert StageHook(None)() == ("", "0")
    assert StageHook(Spy())() == ("-spy", "7")


STAGES = {name: object() for name in ("ttir", "ttgir", "llir", "ptx", "cubin")}


@pytest.mark.parametrize(
    "stages, language, capability",
    [(STAGES, Language.TRITON, None), (STAGES, Language.GLUON, 90), ({"ttgir": 1}, Language.TRITON, 90)],
)
def test_kernels_of_other_kinds_are_left_alone(stages: dict[str, Any], language: Any, capability: Any) -> None:
    copy = dict(stages)
    with activate(Request()):
        StageHook(None)(None, copy, None, language, capability)
    assert copy == stages


@pytest.mark.parametrize("capability", [80, 120, None])
def test_on_another_gpu_a_demand_is_an_error(capability: int | None) -> None:
    with activate(PINNED), pytest.raises(DeviceError, match=f"compute capability {capability}"):
        StageHook(None)(None, dict(STAGES), None, Language.TRITON, capability)


def test_on_another_gpu_an_automatic_kernel_is_stock() -> None:
    source = triton.compiler.ASTSource(
        kernels.softmax_rows,
        {"x_ptr": "*fp32", "y_ptr": "*fp32", "columns": "i32", "BLOCK": "constexpr"},
        {(3,): 128},
    )
    with attached(), activate(Request()):
        compiled = triton.compile(source, target=GPUTarget("cuda", 80, 32))
    assert "aref" not in compiled.asm
