"""Forms of kernels through Triton's front half: a group's program does its part of what the whole program does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl
from triton._C.libtriton import ir, passes

from tawa.bridge.driver.forms import JUMPS, lay_out
from tawa.bridge.driver.stock_run import StockFailure
from tawa.bridge.triton.generic_print import parse_module as parse_with_triton
from tawa.bridge.triton.generic_print import print_generic, print_generic_ttir
from tawa.bridge.triton.signature import Signature, parse_signature
from tawa.bridge.triton.stages import clean_up
from tawa.bridge.triton.structured import read_kernel
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.flow import Flow
from tawa.ir import Builder, Module, parse_module, print_module, replace_op
from tawa.plan import Plan
from tawa.plan.decide.rings import Target
from tawa.remarks import Remark
from tawa.sim import Descriptor, from_floats, simulate
from tests.cases.gemm.cases import CASES, find
from tests.cases.pointers.cases import find as find_pointers
from tests.matrix.compiling import signature
from tests.sim.problems import make_arrays, run
from tests.support.fronts import Front, front
from tests.support.sample import sample


def case_front(name: str, num_warps: int = 8) -> Front:
    case = find(name)
    names = case.kernel.arg_names
    constants = {(names.index(it),): value for it, value in case.constants().items()}
    return front(case.kernel, Signature(case.signature(), constants, case.attributes()), num_warps=num_warps)


def for_group(text: str, group: int) -> Module:
    """The program of one group: its number in the place of the marker."""
    module = parse_module(text)
    markers = [op for op in module.walk() if GroupIndexOp.matches(op)]
    assert len(markers) == 1
    replace_op(markers[0], [Builder.before(markers[0]).constant(group)])
    return module


def warps_of(module: Module) -> str:
    return module.op.attributes['"ttg.num-warps"']


# --- GEMM: the cases of eight warps, and others laid out for eight ---

SMALL = {"M": 200, "N": 256, "K": 136}
LARGE = {"M": 200, "N": 520, "K": 136}
SIZES: dict[str, dict[str, int]] = {
    "tile_8warps_nn": LARGE,
    "tile_8warps_nt": LARGE,
    "tile_8warps_128x128": SMALL,
    "device_desc_8warps": LARGE,
    "persistent_8warps": {**LARGE, "M": 384, "PROGRAMS": 2},
    "persistent_flat_8warps": {**LARGE, "M": 384, "PROGRAMS": 2},
    "persistent_fp8e4nv": {**LARGE, "K": 272, "PROGRAMS": 2},
    "persistent_flat_fp8e4nv": {**LARGE, "K": 272, "PROGRAMS": 2},
    "gate_up_8warps": SMALL,
    "epilogue_all": SMALL,
    "split_epilogue": {**LARGE, "PROGRAMS": 2},
    "split_epilogue_flat": {**LARGE, "PROGRAMS": 2},
    "in_loop_scale": SMALL,
    "tile_64x64": SMALL,
    "tile_64x256": LARGE,
    "tile_fp16_tt": SMALL,
    "tile_fp32_nn": {"M": 128, "N": 200, "K": 100},
    "persistent_while": {**SMALL, "M": 384, "PROGRAMS": 2},
    "batched_desc_nn": {"M": 200, "N": 136, "K": 72, "Z": 2},
    "lower_only": {"M": 256, "N": 256, "K": 136},
    "if_accumulate_skip0": SMALL,
    "split_k": SMALL,
    "invariant": SMALL,
    "initial_bias": SMALL,
    "epilogue_all_pointers": {"M": 136, "N": 131, "K": 136},
}


def test_every_case_of_eight_warps_is_looked_at() -> None:
    assert {case.name for case in CASES if case.num_warps == 8} <= set(SIZES)


@pytest.mark.parametrize("name", sample(SIZES, 3))
def test_the_groups_of_a_gemm_do_together_what_the_whole_does(name: str) -> None:
    case, made = find(name).with_sizes(**SIZES[name]), case_front(name)
    text = made.split_text()
    whole, parts = make_arrays(case), make_arrays(case)
    run(case, made.whole(), whole)
    outside = parts["c"].copy()
    for group in (1, 0):
        program = for_group(text, group)
        assert warps_of(program) == "4 : i32"
        run(case, program, parts)
        assert (group == 0) or not np.array_equal(_bits(parts["c"]), _bits(outside))
        assert (group == 0) or not np.array_equal(_bits(parts["c"]), _bits(whole["c"]))
    assert np.array_equal(_bits(parts["c"]), _bits(whole["c"]))


def _bits(array: Any) -> Any:
    return array.view(f"u{array.itemsize}")


REFUSED = {
    "in_place_descriptor": "already overwritten",
    "in_place_pointer": "already overwritten",
    "dynamic_tiles": "atomic",
    "atomic_row": "atomic",
    "row_from_reduction": "reduction",
    "with_barrier": "barrier would happen",
    "with_impure_asm": "inline_asm",
    "with_call": "calls",
    "early_return": "jumps",
    "with_print": "tl.device_print",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_kernel_that_cannot_be_shared_out_is_declined(name: str) -> None:
    assert REFUSED[name] in case_front(name).reason()


# --- attention ---


@triton.jit
def attention(q_desc, k_desc, v_desc, o_desc, lse_ptr, scale, length, BM: tl.constexpr, BN: tl.constexpr,
              HD: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    """Two loops where CAUSAL is 2, one loop with the mask in it where it is 1, none where it is 0."""
    block = tl.program_id(0)
    base = tl.program_id(1) * length
    rows = block * BM + tl.arange(0, BM)
    keys = tl.arange(0, BN)
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.full([BM], 0.0, tl.float32)
    acc = tl.zeros([BM, HD], tl.float32)
    factor = scale * 1.44269504
    q = q_desc.load([base + block * BM, 0])
    end = length
    if CAUSAL == 1:
        end = (block + 1) * BM
    if CAUSAL == 2:
        end = block * BM
    for n in range(0, end, BN):
        s = tl.dot(q, k_desc.load([base + n, 0]).T)
        if CAUSAL == 1:
            s = tl.where(rows[:, None] >= (n + keys)[None, :], s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1) * factor)
        p = tl.exp2(s * factor - new[:, None])
        alpha = tl.exp2(top - new)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v_desc.load([base + n, 0]), acc * alpha[:, None])
        top = new
    if CAUSAL == 2:
        for n in range(block * BM, (block + 1) * BM, BN):
            s = tl.dot(q, k_desc.load([base + n, 0]).T)
            s = tl.where(rows[:, None] >= (n + keys)[None, :], s, float("-inf"))
            new = tl.maximum(top, tl.max(s, 1) * factor)
            p = tl.exp2(s * factor - new[:, None])
            alpha = tl.exp2(top - new)
            total = total * alpha + tl.sum(p, 1)
            acc = tl.dot(p.to(tl.float16), v_desc.load([base + n, 0]), acc * alpha[:, None])
            top = new
    tl.store(lse_ptr + base + rows, top + tl.log2(total))
    o_desc.store([base + block * BM, 0], (acc / total[:, None]).to(tl.float16))


@triton.jit
def attention_backward(q_desc, k_desc, do_desc, v_desc, dk_desc, dv_desc, lse_ptr, delta_ptr, scale, length,
                       BM: tl.constexpr, BN: tl.constexpr, HD: tl.constexpr):  # fmt: skip
    """dK and dV of one block of keys, the scores the other way round as in Triton's tutorial."""
    base = tl.program_id(1) * length
    start = base + tl.program_id(0) * BN
    k = k_desc.load([start, 0])
    v = v_desc.load([start, 0])
    dk = tl.zeros([BN, HD], tl.float32)
    dv = tl.zeros([BN, HD], tl.float32)
    for m in range(0, length, BM):
        rows = base + m + tl.arange(0, BM)
        q = q_desc.load([base + m, 0])
        do = do_desc.load([base + m, 0])
        p = tl.exp2(tl.dot(k, q.T) * scale - tl.load(lse_ptr + rows)[None, :])
        dv = tl.dot(p.to(tl.float16), do, dv)
        ds = p * (tl.dot(v, do.T) - tl.load(delta_ptr + rows)[None, :])
        dk = tl.dot(ds.to(tl.float16), q, dk)
    dv_desc.store([start, 0], dv.to(tl.float16))
    dk_desc.store([start, 0], (dk * scale).to(tl.float16))


HEADS, LENGTH, HD = 2, 256, 64
BLOCKS = ((128, 128), (128, 64))


def attention_front(causal: int, bm: int, bn: int) -> Front:
    wide, narrow = f"tensordesc<fp16[{bm},{HD}]>", f"tensordesc<fp16[{bn},{HD}]>"
    text = (
        f"q_desc={wide}, k_desc={narrow}, v_desc={narrow}, o_desc={wide}, lse_ptr=*fp32:16, scale=fp32, length=i32:16"
    )
    constants = {"BM": bm, "BN": bn, "HD": HD, "CAUSAL": causal}
    return front(attention, parse_signature(text, constants, attention.arg_names))


def attention_arrays() -> dict[str, Any]:
    lot = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        name: from_floats(lot.standard_normal((HEADS * LENGTH, HD)), "fp16")
        for name in ("q_desc", "k_desc", "v_desc", "do_desc")
    }
    for name in ("o_desc", "dk_desc", "dv_desc"):
        arrays[name] = from_floats(np.full((HEADS * LENGTH, HD), np.nan), "fp16")
    arrays["lse_ptr"] = np.full(HEADS * LENGTH, np.nan, np.float32)
    return arrays


def launch(module: Module, arrays: dict[str, Any], block: int) -> None:
    named = {name: Descriptor(it) if name.endswith("desc") else it for name, it in arrays.items()}
    simulate(module, {**named, "scale": HD**-0.5, "length": LENGTH}, (LENGTH // block, HEADS))


@pytest.mark.parametrize(("bm", "bn"), BLOCKS)
@pytest.mark.parametrize("causal", [0, 1, 2])
def test_the_groups_of_an_attention_kernel_do_together_what_the_whole_does(causal: int, bm: int, bn: int) -> None:
    made = attention_front(causal, bm, bn)
    text = made.split_text()
    whole, parts = attention_arrays(), attention_arrays()
    launch(made.whole(), whole, bm)
    assert not np.isnan(whole["lse_ptr"]).any()
    for group in (0, 1):
        launch(for_group(text, group), parts, bm)
    for name in ("o_desc", "lse_ptr"):
        assert np.array_equal(_bits(parts[name]), _bits(whole[name])), name


@pytest.mark.parametrize(("bm", "bn"), [(64, 128), (128, 128)])
def test_the_groups_of_a_backward_kernel_do_together_what_the_whole_does(bm: int, bn: int) -> None:
    wide, narrow = f"tensordesc<fp16[{bm},{HD}]>", f"tensordesc<fp16[{bn},{HD}]>"
    text = f"q_desc={wide}, k_desc={narrow}, do_desc={wide}, v_desc={narrow}, dk_desc={narrow}, dv_desc={narrow}"
    text += ", lse_ptr=*fp32:16, delta_ptr=*fp32:16, scale=fp32, length=i32:16"
    signature = parse_signature(text, {"BM": bm, "BN": bn, "HD": HD}, attention_backward.arg_names)
    made = front(attention_backward, signature)
    split = made.split_text()
    whole, parts = attention_arrays(), attention_arrays()
    for arrays in (whole, parts):
        arrays["lse_ptr"] = np.linspace(6, 9, HEADS * LENGTH, dtype=np.float32)
        arrays["delta_ptr"] = np.linspace(-1, 1, HEADS * LENGTH, dtype=np.float32)
    launch(made.whole(), whole, bn)
    for group in (0, 1):
        launch(for_group(split, group), parts, bn)
    for name in ("dk_desc", "dv_desc"):
        assert not np.isnan(whole[name]).any()
        assert np.array_equal(_bits(parts[name]), _bits(whole[name])), name


# --- what the rest of the compile relies on ---


def test_ttir_is_printed_in_generic_form_and_means_the_same() -> None:
    made = attention_front(2, 128, 64)
    text = print_generic_ttir(parse_with_triton(made.ttir, made.context))
    assert '"tt.func"() <{' in text and "tt.func public" not in text
    assert "test_forms.py" in text
    assert "spoilt" not in text
    assert parse_with_triton(text, made.context).str() == parse_with_triton(made.ttir, made.context).str()
    parse_module(text)


def test_the_marker_lives_through_canonicalisation_cse_and_licm() -> None:
    made = attention_front(2, 128, 128)
    mod = clean_up(parse_with_triton(made.split_text(), made.context), 90)
    pm = ir.pass_manager(mod.context)
    for add in (passes.common.add_cse, passes.common.add_canonicalizer, passes.common.add_symbol_dce):
        add(pm)
    pm.run(mod, "more")
    markers = [view for op in parse_module(print_generic(mod)).walk() if (view := GroupIndexOp.of(op))]
    assert len(markers) == 1
    assert markers[0].op.result.uses


def test_the_launcher_is_told_the_box_of_one_group() -> None:
    made = attention_front(0, 128, 64)
    boxes: list[list[list[int]]] = []
    for text in (made.whole_text(), made.split_text()):
        mod = parse_with_triton(text, made.context)
        boxes.append([list(it["block_size"]) for it in mod.get_tensordesc_metadata()])
    assert boxes == [[[128, HD], [64, HD], [64, HD], [128, HD]], [[64, HD], [64, HD], [64, HD], [64, HD]]]


@pytest.mark.parametrize(("num_warps", "groups"), [(8, 3), (2, 2)])
def test_groups_of_other_than_four_warps_are_declined(num_warps: int, groups: int) -> None:
    made = case_front("tile_8warps_nn")
    remark = replace(made, options=replace(made.options, num_warps=num_warps)).split(groups)
    assert isinstance(remark, Remark)
    assert f"num_warps={num_warps}" in remark.reason
    assert f"num_warps={4 * groups}" in (remark.cure or "")


def test_the_metadata_of_the_compile_is_left_alone() -> None:
    made = case_front("tile_8warps_nn")
    job = made.job()
    flow = Flow(read_kernel(made.ttir, made.context), Plan(groups=2), target=Target(8, 3))
    assert isinstance(lay_out(job, flow), str)
    assert job.metadata == {}
    assert flow.plan.split == "rows" and flow.target == Target(4, 3, groups=2)


# --- jumps ---


@pytest.mark.parametrize("name", ["early_return", "two_returns", "return_in_branch", "experts_elsewhere"])
def test_a_kernel_that_returns_early_has_branches_instead_of_jumps_in_a_form_that_triton_reads(name: str) -> None:
    case = find_pointers(name)
    made = front(case.kernel, signature(case), **case.options())
    assert "cf.cond_br" in made.ttir
    text = str(parse_with_triton(print_module(read_kernel(made.ttir, made.context)), made.context))
    assert not any(jump in text for jump in JUMPS) and text.count("tt.return") == 1
    assert "scf.if" in text


# --- whose fault it is ---


def refusing(made: Front, refused: Callable[[Any], bool]) -> Front:
    """With a front half that raises where it is told to."""

    def stage(mod: Any, metadata: dict[str, Any], options: Any, capability: int) -> Any:
        if refused(options):
            raise RuntimeError("PassManager::run failed")
        return made.stages.front(mod, metadata, options, capability)

    return replace(made, stages=replace(made.stages, front=stage))


def test_what_triton_refuses_of_a_form_only_is_a_fault_of_ours() -> None:
    made = refusing(case_front("tile_8warps_nn"), lambda options: options.num_warps == 4)
    with pytest.raises(RuntimeError, match="PassManager::run failed"):
        made.split()


def test_a_kernel_that_triton_refuses_as_it_was_is_no_fault_of_ours() -> None:
    made = refusing(case_front("tile_8warps_nn"), lambda _: True)
    with pytest.raises(StockFailure, match="PassManager::run failed"):
        made.split()
