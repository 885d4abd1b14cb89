"""What the bridge needs of every Triton that it supports; nothing above the bridge depends on the version.

Every version runs the tests with the mark `contract` (``make contract``): these, and those of the parts of the bridge
that use Triton's internals. Each version must give the same Plans and the same proofs.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel, jit_function
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.report.record import plan_of
from tawa.bridge.triton.signature import parse_signature
from tawa.bridge.triton.versions import nested_descriptors
from tawa.plan import Plan
from tawa.transforms.ttir.added_arguments import descriptor_type
from tests.bridge import kernels
from tests.cases.attention.cases import find as find_attention
from tests.cases.compiled import compile_case
from tests.cases.gemm.cases import find as find_gemm
from tests.cases.pointers.cases import find as find_pointers
from tests.support.sample import sample
from tests.support.verdicts import credits_proved

pytestmark = pytest.mark.contract

SHARED: dict[str, Any] = {"plan": Plan(split_k=2), "precision": "relaxed"}
COUNTED: dict[str, Any] = {"plan": Plan(form="persistent", tiles="dynamic")}
CASES: dict[str, tuple[Any, dict[str, Any], str, str]] = {
    "descriptors": (find_gemm("tile_fp16_nn"), {}, "1 + 4 warps, D = 3", "proved"),
    "fp8": (find_gemm("tile_fp8e4nv_nt"), {}, "1 + 4 warps, D = 3", "proved"),
    "descriptors made in the kernel": (find_gemm("device_desc_nn"), {}, "1 + 4 warps, D = 3", "proved"),
    "persistent": (find_gemm("persistent_range"), {}, "1 + 4 warps, D = 4", "proved"),
    "while": (find_gemm("persistent_while"), {}, "1 + 4 warps, D = 4", "proved"),
    "programs that share a tile": (find_gemm("tile_fp16_nn"), SHARED, "1 + 4 warps, D = 3", "proved"),
    "a counter of tiles": (find_gemm("tile_fp16_nn"), COUNTED, "1 + 4 warps, D = 4 2", "proved"),
    "pointers": (find_pointers("tutorial_fp16_nn"), {}, "1 + 4 warps, D = 3", "proved"),
    "packed weights": (find_pointers("weights_packed"), {}, "1 + 4 warps, D = 4", "proved"),
    "cp.async": (find_pointers("experts"), {}, "4 + 4 warps, D = 4 4", "proved"),
    "tables of lengths": (find_pointers("grouped_tma_lengths"), {}, "1 + 4 warps, D = 4", "checked"),
    "attention, two groups": (find_attention("tutorial_fp16_d64_full"), {}, "1 + 4 + 4 warps, D = 4 4", "proved"),
}


MACHINE_CODE = sample(CASES, 1)
"""On a release other than Triton 3.6, another third of the cases is translated further than to LLVM IR."""


@pytest.mark.parametrize("name", CASES)
def test_every_version_of_triton_makes_the_same_plan_and_the_same_proof(
    name: str, request: pytest.FixtureRequest
) -> None:
    if name not in MACHINE_CODE:
        request.getfixturevalue("without_ptx")
    case, options, made, word = CASES[name]
    with launched_by_us(True, jit_function(case.kernel)):
        compiled = compile_case(case, **{"only_if_faster": False, **options})
    record = compiled.metadata.tawa
    plan = plan_of(record)
    assert plan is not None and compiled.asm["cubin"], record["reason"]
    warps = " + ".join(str(it.num_warps) for it in plan.partitions)
    assert f"{warps} warps, D = {' '.join(str(it.depth) for it in plan.rings)}" == made
    assert credits_proved(record["verdict"])
    assert record["verdict"]["verdict"] == word, record["verdict"]


def test_a_kernel_without_a_dot_is_the_stock_kernel() -> None:
    signature = parse_signature(
        "x_ptr=*fp32:16, y_ptr=*fp32:16, columns=i32", {"BLOCK": 1024}, kernels.softmax_rows.arg_names
    )
    stock, ours = (compile_kernel(kernels.softmax_rows, signature, request) for request in (None, Request()))
    assert not ours.metadata.tawa["applied"]
    assert ours.asm["cubin"] == stock.asm["cubin"]


@pytest.mark.parametrize(("triton", "element"), [("fp16", "f16"), ("fp8e4nv", "f8E4M3FN"), ("i8", "i8")])
def test_descriptor_types_are_spelled_as_triton_spells_them(triton: str, element: str) -> None:
    signature = parse_signature(f"out=tensordesc<{triton}[64,32]>, n=i32", {}, kernels.do_nothing.arg_names)
    text = compile_kernel(kernels.do_nothing, signature, None).asm["ttir"]
    assert f"%out: {descriptor_type((64, 32), element, nested_descriptors())} " in text


LAUNCH = """
from types import SimpleNamespace

import triton
import triton.language as tl

import tawa
from bench import stand_in_driver
from tests.bridge.kernels import gemm_pointers

library = stand_in_driver.install()
tensors = [SimpleNamespace(data_ptr=lambda: 1 << 20, dtype=tl.float16) for _ in "abc"]
for kernel in (tawa.jit(gemm_pointers, enable_warp_specialization=True), gemm_pointers):
    for _ in range(2):
        made = kernel[(5, 2)](*tensors, 256, BM=64, BN=64, BK=64)
        launch = stand_in_driver.last_launch(library)
    specialised = bool(getattr(made.metadata, "tawa", {}).get("applied"))
    print(specialised, launch.count, *launch.grid, *launch.block, launch.shared == made.metadata.shared)
"""


def test_the_driver_gets_the_launch() -> None:
    ran = subprocess.run([sys.executable, "-c", LAUNCH], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["True 2 5 2 1 256 1 1 True", "False 4 5 2 1 128 1 1 True"]
