"""A kernel that is compiled from what Triton's front end made of it is the same kernel."""

from __future__ import annotations

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.driver.tuning.recorded_source import compile_recorded, recorded_source
from tawa.bridge.launch.added_arguments import options_of
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.signature import Signature
from tawa.plan import PlanOptions
from tests.bridge import kernels


def test_the_text_of_a_kernel_compiles_to_the_same_kernel(gemm_signature: Signature) -> None:
    request = Request(PlanOptions(mode="measure"))
    with launched_by_us():
        made = compile_kernel(kernels.gemm_descriptors, gemm_signature, request, num_warps=4)
    facts = made.metadata.tawa["tuning"]
    source = recorded_source(made.asm["source"], made.name, made.src.signature, facts["may_be_one"])
    again = compile_recorded(source, request, options_of(made))
    assert again.asm["cubin"] == made.asm["cubin"]
    assert again.metadata.tawa["tuning"] == facts
    assert facts["sizes"] == [[15, "K"]] and facts["may_run_twice"] and facts["writes"] == [10]
    stock, automatic, *_ = (it["words"] for it in facts["ranked"])
    assert stock == "stock Triton" and automatic.endswith("(automatic)")
