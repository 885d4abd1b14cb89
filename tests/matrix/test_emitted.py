"""Emitted Gluon modules: the same bits in the simulator as the kernels they came from, on every Triton."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.bridge.driver.compile import compile_kernel, jit_function
from tawa.bridge.driver.request import Request
from tawa.bridge.gluon.emit import compile_emitted, emit_gluon, load_emitted
from tawa.bridge.launch.added_arguments import launch_spec
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.read_module import read_final
from tawa.bridge.triton.signature import parse_signature
from tawa.dialects.parameters import parameter_name
from tawa.dialects.tt import FuncOp, GetProgramIdOp, MapElementwiseOp
from tawa.emit.module import Emitted, gluon_source
from tawa.errors import EmitError
from tawa.ir import Module, parse_module, print_module
from tawa.plan import LoopPlan, Plan, PlanOptions
from tawa.sim import Descriptor, simulate
from tawa.verify.barriers import check_barriers
from tests.cases.attention import cases as attention
from tests.cases.attention.builders import forward_case
from tests.cases.compiled import compile_case
from tests.cases.gemm import cases as gemm
from tests.cases.pointers import cases as pointers
from tests.cases.simulated import simulated
from tests.cases.small import integer_kernels
from tests.support.sample import sample
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("without_ptx")

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
    "a scan, a reduction with a function of its own": (pointers, "flipped_rows"),
    "assembly on tiles": (pointers, "assembly_in_loop_pure"),
    "dots in registers": (pointers, "tutorial_16_rows_fp16"),
}
GROUPED = Plan(groups=2, split="programs", loops=(LoopPlan(kept=()),))
LAUNCHED: dict[str, tuple[Any, dict[str, Any]]] = {
    "descriptors from the launcher": (pointers.find("tutorial_fp16_nn"), {}),
    "cp.async": (pointers.find("experts").with_sizes(N=256), {}),
    "pointers from integers": (pointers.find("array_tiles"), {}),
    "atomics": (pointers.find("atomics_behind_relaxed"), {}),
    "descriptors behind an offset": (pointers.find("shifted_base_16"), {}),
    "persistent programs": (gemm.find("tile_fp16_nn"), {"plan": Plan(form="persistent")}),
    "a counter of tiles": (gemm.find("tile_fp16_nn"), {"plan": Plan(form="persistent", tiles="dynamic")}),
    "programs that share a tile": (gemm.find("tile_fp16_nn"), {"plan": Plan(split_k=2), "precision": "relaxed"}),
    "programs that share a CTA": (
        forward_case("small", dtype="bf16", causal=True, tile=(64, 128, 4), dim=64, SQ=192, SK=256), {"plan": GROUPED}
    ),
}  # fmt: skip
"""Forms whose launches get arguments from the launcher."""
EVERYWHERE = ("gemm", "while", "descriptors made in the kernel", "pointers", "cp.async", "persistent programs")
"""Forms that are emitted on every version of Triton."""
TILES_ON = {"persistent programs": 3, "a counter of tiles": 3}


@functools.cache
def emitted(name: str) -> tuple[Any, Any, Emitted]:
    found, options = LAUNCHED[name] if name in LAUNCHED else (_find(name), {})
    with launched_by_us(name in LAUNCHED, jit_function(found.kernel)):
        compiled = compile_case(found, **{"only_if_faster": False, **options})
    return found, compiled, emit_gluon(compiled)


def _find(name: str) -> Any:
    room, case = CASES[name]
    return next(it for it in room.CASES if it.name == case)


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.contract) for name in sample(EVERYWHERE, 1)),
        *sample([name for name in (*CASES, *LAUNCHED) if name not in EVERYWHERE], 8),
    ],
)
def test_an_emitted_module_is_proved_and_gives_the_same_bits(name: str) -> None:
    case, compiled, module = emitted(name)
    final = with_names_of_arguments(read_final(compile_emitted(module)), module)
    assert passes(check_barriers(final, effort="fast"))
    more: dict[str, Any] = {"launch": launch_spec(compiled), "tiles_on": TILES_ON.get(name)}
    wanted, found = simulated(case, read_final(compiled), **more), simulated(case, final, **more)
    for tensor, values in wanted.items():
        assert np.asarray(values).tobytes() == np.asarray(found[tensor]).tobytes(), tensor


def with_names_of_arguments(module: Module, made: Emitted) -> Module:
    """The module with the names that added arguments have in the kernel it came from."""
    added = {it.name: it.added for it in made.parameters if it.added}
    kernel = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    for argument in kernel.body.args:
        name, dot, field = parameter_name(module, argument).partition(".")
        if name in added:
            argument.loc = f'"{added[name]}{dot}{field}"(#loc)'
    return module


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
    _, compiled, _ = emitted("gemm")
    text = print_module(read_final(compiled)).replace(GetProgramIdOp.NAME, MapElementwiseOp.NAME)
    with pytest.raises(EmitError, match=r"tt.map_elementwise has no counterpart there\n  at .*gemm\.py:\d+"):
        gluon_source(parse_module(text))


def test_numbers_without_a_sign_are_those_of_the_launch() -> None:
    """Gluon's operations follow the types of the arguments: a shift to the right of bytes, and of a number."""
    text = "x_ptr=*fp16:16, w_ptr=*u8:16, y_ptr=*fp32:16, shift=u32, N=i32:16, K=i32:16"
    signature = parse_signature(text, {"BM": 64, "BN": 64, "BK": 64}, integer_kernels.signs.arg_names)
    request = Request(PlanOptions(only_if_faster=False))
    with launched_by_us(True, integer_kernels.signs):
        made = compile_kernel(integer_kernels.signs, signature, request, num_warps=4, num_stages=3)
    found = emit_gluon(made)
    types = {it.name: it.type for it in found.parameters}
    assert (types["w_ptr"], types["shift"], types["N"]) == ("*u8", "u32", "i32")
    lot = np.random.default_rng(0)
    x = lot.integers(-2, 3, (64, 64)).astype(np.float16)
    w, shift = lot.integers(0, 256, 64).astype(np.uint8), 0xF0000001
    y = np.zeros((64, 64), np.float32)
    arguments = {"x_desc": Descriptor(x), "w_ptr": w, "y_ptr": y, "shift": shift, "N": 64, "K": 64}
    simulate(read_final(compile_emitted(found)), arguments, (1, 1))
    scale = (w >> 4).astype(np.float32) + 16 * (w.view(np.int8) >> 4) + (shift >> 28)
    assert (y == x.astype(np.float32) @ x.astype(np.float32).T + scale).all()
