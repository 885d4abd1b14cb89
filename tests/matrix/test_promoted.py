"""Promotion of pointer loads to TMA keeps the bits, also for sizes that are no multiples of the block sizes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.analysis.dims.split_dims import find_split
from tawa.analysis.tma.promotions import Make
from tawa.bridge.triton.signature import Signature
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import FuncOp
from tawa.ir import Module, parse_module, print_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.remarks import Remark
from tawa.symbolic.host.launch_spec import LaunchSpec
from tawa.symbolic.known import DIVISORS, LOADED
from tawa.transforms.ttir.split_rows import SplitRows
from tests.cases.small import promoted_kernels as kernels
from tests.matrix.promoting import NESTED, Launch, addresses, lay_out, promoted, run, same_bits
from tests.support.fronts import front
from tests.support.pipeline import specialise
from tests.support.sample import examples, sample

D = 64
SMALL = {"BM": 64, "BN": 64, "BK": 32}


def values(*shape: int, dtype: Any = np.float16, seed: int = 0) -> Any:
    """Normally distributed numbers; for fp8 (as bytes) positive ones."""
    lot = np.random.default_rng((seed, *shape))
    if dtype == np.uint8:
        return lot.integers(0, 0x70, shape).astype(np.uint8)
    if dtype == np.int8:
        return lot.integers(-100, 100, shape).astype(np.int8)
    return lot.standard_normal(shape).astype(dtype)


def poison(*shape: int, dtype: Any = np.float16) -> Any:
    return np.full(shape, np.nan, dtype)


def gemm(
    kernel: Any,
    sizes: tuple[int, int, int] = (200, 136, 104),
    *,
    a_t: bool = False,
    b_t: bool = False,
    dtype: Any = np.float16,
    blocks: dict[str, int] = SMALL,
    grid: tuple[int, ...] | None = None,
    pad: int = 0,
    **constants: Any,
) -> Launch:
    """A GEMM of M, N, K, optionally with A or B transposed in memory; rows are padded by `pad` elements."""
    m, n, k = sizes
    a = values(k, m + pad, dtype=dtype) if a_t else values(m, k + pad, dtype=dtype)
    b = values(n, k + pad, dtype=dtype, seed=1) if b_t else values(k, n + pad, dtype=dtype, seed=1)
    arguments: dict[str, Any] = {"a_ptr": a, "b_ptr": b, "c_ptr": poison(m, n), "M": m, "N": n, "K": k}
    a_row, b_row = a.shape[1], b.shape[1]
    arguments |= {"stride_am": 1, "stride_ak": a_row} if a_t else {"stride_am": a_row, "stride_ak": 1}
    arguments |= {"stride_bk": 1, "stride_bn": b_row} if b_t else {"stride_bk": b_row, "stride_bn": 1}
    arguments |= {"stride_cm": n, "stride_cn": 1}
    tiles = (-(-m // blocks["BM"]), -(-n // blocks["BN"]))
    chosen = {name: value for name, value in arguments.items() if name in kernel.arg_names}
    return Launch(kernel, chosen, {**blocks, **constants}, grid or tiles)


def tutorial(sizes: tuple[int, int, int] = (200, 136, 104), assume: bool = True, **more: Any) -> Launch:
    blocks = more.get("blocks", SMALL)
    tiles = -(-sizes[0] // blocks["BM"]) * -(-sizes[1] // blocks["BN"])
    return gemm(kernels.tutorial_gemm, sizes, grid=(tiles,), GROUP_M=2, ASSUME=assume, **more)


def attention(causal: bool, mask: bool, s: int) -> Launch:
    shape = (2, s, 2, D)
    arguments = {"q_ptr": values(*shape), "k_ptr": values(*shape, seed=1), "v_ptr": values(*shape, seed=2)}
    arguments |= {"o_ptr": poison(*shape), "stride_b": s * 2 * D, "stride_h": D, "stride_s": 2 * D, "H": 2, "S": s}
    constants = {"BM": 64, "BN": 64, "D": D, "CAUSAL": causal, "MASK": mask}
    return Launch(kernels.attention, {**arguments, "scale": 0.125}, constants, (-(-s // 64), 4))


LISTS = np.array([[0, 2, 3, 0], [1, 0, 0, 0], [3, 1, 2, 0], [2, 3, 0, 0]], np.int32)
COUNTS = np.array([3, 1, 3, 2], np.int32)


def listed(jump: bool, s: int = 200) -> Launch:
    arguments = {"q_ptr": values(2, s, D), "k_ptr": values(2, s, D, seed=1), "v_ptr": values(2, s, D, seed=2)}
    arguments |= {"o_ptr": poison(2, s, D), "list_ptr": LISTS, "count_ptr": COUNTS, "stride_h": s * D, "stride_s": D}
    constants = {"BM": 64, "BN": 64, "D": D, "JUMP": jump}
    return Launch(kernels.listed_attention, {**arguments, "S": s, "L": 4, "scale": 0.125}, constants, (4, 2))


def flex(divisible: bool, s: int) -> Launch:
    arguments = {"q_ptr": values(4, s, D), "k_ptr": values(2, s, D, seed=1), "v_ptr": values(2, s, D, seed=2)}
    arguments |= {"o_ptr": poison(4, s, D), "list_ptr": LISTS, "count_ptr": COUNTS, "S": s, "L": 4, "scale": 0.125}
    constants = {"BM": 64, "BN": 32, "D": D, "STRIDE_H": s * D, "STRIDE_S": D, "SPARSE": 64, "GROUP": 2}
    return Launch(kernels.flex_attention, arguments, {**constants, "DIVISIBLE": divisible}, (-(-s // 64), 4))


def batched(m: int = 136, n: int = 80, k: int = 112) -> Launch:
    arguments: dict[str, Any] = {"a_ptr": values(3, m, k), "b_ptr": values(3, k, n), "c_ptr": poison(3, m, n)}
    arguments |= {"M": m, "N": n, "K": k, "stride_az": m * k, "stride_am": k, "stride_bz": k * n, "stride_bk": n}
    arguments |= {"stride_cz": m * n, "stride_cm": n}
    return Launch(kernels.batched_gemm, arguments, SMALL, (-(-m // 64), -(-n // 64), 3))


def windowed(k: int = 112) -> Launch:
    arguments: dict[str, Any] = {"a_ptr": values(200, k), "b_ptr": values(k, 144), "c_ptr": poison(328, 144)}
    return Launch(kernels.windowed_gemm, {**arguments, "M": 200, "N": 144, "K": k, "shift": 70}, SMALL, (5, 3))


def ragged(k: int = 112) -> Launch:
    starts = np.array([0, 70, 70, 200], np.int32)
    arguments: dict[str, Any] = {"a_ptr": values(200, k), "b_ptr": values(3, k, 144), "c_ptr": poison(200, 144)}
    arguments |= {"starts_ptr": starts, "N": 144, "K": k, "stride_bz": k * 144}
    return Launch(kernels.ragged_gemm, arguments, SMALL, (3, 3, 3))


def dequantised(sizes: tuple[int, int, int]) -> Launch:
    m, n, k = sizes
    arguments: dict[str, Any] = {"a_ptr": values(m, k), "b_ptr": values(k, n, dtype=np.int8), "c_ptr": poison(m, n)}
    arguments |= {"scale_ptr": values(n), "M": m, "N": n, "K": k}
    return Launch(kernels.dequantised_gemm, arguments, SMALL, (-(-m // 64), -(-n // 64)))


def neighbours() -> Launch:
    places = np.array([[0, 32 * 32], [-32 * 32, 0], [-32 * 32, -64 * 32]], np.int32)
    arguments: dict[str, Any] = {"a_ptr": values(96, 32), "b_ptr": values(64, 32, seed=1), "c_ptr": poison(96, 32)}
    arguments |= {"places_ptr": places, "T": 2, "stride": 32}
    return Launch(kernels.neighbours, arguments, {"BM": 32, "BN": 32, "BK": 32}, (3,))


def halves() -> Launch:
    arguments: dict[str, Any] = {"a_ptr": values(64, 128), "b_ptr": values(128, 32, seed=1), "c_ptr": poison(64, 32)}
    arguments |= {"n": 5, "K": 128, "causal": 3, "stride": 128}
    return Launch(kernels.halves, arguments, {"BM": 32, "BN": 32, "BK": 32}, (2,))


def halved(form: str) -> Launch:
    arguments: dict[str, Any] = {"a_ptr": values(128, 64), "b_ptr": values(64, 128, seed=1), "c_ptr": poison(128, 128)}
    constants = {"BM": 64, "BN": 64, "BK": 64, "FORM": form}
    return Launch(kernels.halved_gemm, {**arguments, "N": 128, "K": 128}, constants, (2, 2))


def walking(mask: bool) -> Launch:
    """Blocks 2, 0, 3, 1 of K."""
    m, n, k = (200, 144, 112) if mask else (192, 128, 128)
    jumps = np.array([-2, 3, -2, 0], np.int32)
    arguments: dict[str, Any] = {"a_ptr": values(m, k), "b_ptr": values(k, n), "c_ptr": poison(m, n), "M": m, "N": n}
    arguments |= {"K": k, "list_ptr": jumps, "first": 2, "skip": 4}
    return Launch(kernels.walking_gemm, arguments, {**SMALL, "MASK": mask}, (-(-m // 64), -(-n // 64)))


def gathered() -> Launch:
    index = np.random.default_rng(3).integers(0, 200, 150).astype(np.int32)
    arguments: dict[str, Any] = {"a_ptr": values(200, 112), "b_ptr": values(112, 144), "c_ptr": poison(150, 144)}
    return Launch(kernels.gathered_gemm, {**arguments, "index_ptr": index, "M": 150, "N": 144, "K": 112}, SMALL, (3, 3))


def wrapped(m: int, laps: int = 1) -> Launch:
    """laps: how often the programs wrap around the rows."""
    arguments: dict[str, Any] = {"a_ptr": values(m, 112), "b_ptr": values(112, 144), "c_ptr": poison(1)}
    tiles = laps * -(-m // 64)
    arguments |= {"s_ptr": poison(tiles, 144, dtype=np.float32), "M": m, "N": 144, "K": 112}
    return Launch(kernels.wrapped_sum, arguments, SMALL, (tiles, 3))


def odd_loop(form: int, step: int, first: int, last: int, sizes: tuple[int, int, int] = (200, 136, 104)) -> Launch:
    m, n, k = sizes
    arguments: dict[str, Any] = {"a_ptr": values(m, k), "b_ptr": values(k, n), "c_ptr": poison(m, n), "M": m, "N": n}
    arguments |= {"K": k, "first": first, "last": last, "skip": 40}
    tiles = (-(-m // 64), -(-n // 64))
    return Launch(kernels.odd_loop_gemm, arguments, {**SMALL, "STEP": step, "FORM": form}, tiles)


EVEN = (200, 144, 112)  # row lengths with tt.divisibility = 16; host descriptors need only multiples of 8
HOST: dict[str, Launch] = {
    "tutorial": tutorial(),
    "tutorial without assumptions": tutorial(assume=False),
    "tutorial, B transposed": tutorial(b_t=True),
    "tutorial, both transposed": tutorial(a_t=True, b_t=True),
    "tutorial, longer rows": tutorial((190, 132, 100), pad=4),
    "tutorial, fp8": tutorial(EVEN, b_t=True, dtype=np.uint8),
    "tutorial, fp32": tutorial(dtype=np.float32),
    "masked, moving": gemm(kernels.masked_gemm, MASK=True, MOVE=True),
    "masked, made anew": gemm(kernels.masked_gemm, MASK=True, MOVE=False),
    "batched": batched(k=104),
    "persistent": gemm(kernels.persistent_gemm, grid=(3,), PROGRAMS=3),
    "persistent tutorial": gemm(
        kernels.tutorial_persistent_gemm, b_t=True, grid=(3,), PROGRAMS=3, GROUP_M=2, FLATTEN=False
    ),
    "flattened persistent tutorial": gemm(
        kernels.tutorial_persistent_gemm, grid=(3,), PROGRAMS=3, GROUP_M=2, FLATTEN=True
    ),
    "windowed": windowed(104),
    "wrapped": wrapped(192),
    "wrapped, twice around": wrapped(192, laps=2),
    **{
        f"odd loop, form {form}, {first} to {last} by {step}": odd_loop(form, step, first, last)
        for form in (0, 1, 2)
        for first, last, step in ((0, 4, 1), (2, 4, 1), (0, 4, 3))
    },
}
KERNEL: dict[str, Launch] = {
    "tutorial": tutorial(EVEN),
    "tutorial, B transposed": tutorial(EVEN, b_t=True),
    "tutorial, fp8": tutorial(EVEN, b_t=True, dtype=np.uint8),
    "masked": gemm(kernels.masked_gemm, EVEN, MASK=True, MOVE=True),
    "batched": batched(),
    "persistent": gemm(kernels.persistent_gemm, EVEN, grid=(3,), PROGRAMS=3),
    "persistent tutorial": gemm(
        kernels.tutorial_persistent_gemm, EVEN, grid=(3,), PROGRAMS=3, GROUP_M=2, FLATTEN=False
    ),
    "windowed": windowed(),
    "ragged": ragged(),
}
BOTH: dict[str, Launch] = {
    "dequantised": dequantised((200, 144, 112)),
    "walking": walking(mask=True),
    "no masks, moving": gemm(kernels.masked_gemm, (192, 128, 96), MASK=False, MOVE=True),
    "no masks, made anew": gemm(kernels.masked_gemm, (192, 128, 96), MASK=False, MOVE=False),
    "attention": attention(causal=False, mask=True, s=200),
    "causal attention": attention(causal=True, mask=True, s=200),
    "attention without masks": attention(causal=True, mask=False, s=256),
    "listed attention": listed(jump=False),
    "listed attention that jumps": listed(jump=True),
    "flex attention": flex(True, 256),
    "flex attention with masks": flex(False, 250),
}
if NESTED:  # later releases of Triton have no block pointers
    HOST["block pointers"] = gemm(kernels.block_pointer_gemm)
    KERNEL["block pointers"] = gemm(kernels.block_pointer_gemm, EVEN)
CASES = [(name, "host", launch) for name, launch in (HOST | BOTH).items()]
CASES += [(name, "kernel", launch) for name, launch in (KERNEL | BOTH).items()]


@pytest.mark.parametrize(
    ("name", "make", "launch"), [pytest.param(*it, id=f"{it[0]}, {it[1]}") for it in sample(CASES, 8)]
)
def test_a_promoted_kernel_gives_the_same_bits(name: str, make: Make, launch: Launch) -> None:
    same_bits(launch, make, 2)


def test_offsets_in_elements_from_memory_may_lead_to_rows_before() -> None:
    """A list of relative offsets. A descriptor made in the kernel begins at the program's own rows."""
    found = same_bits(neighbours(), "host", 1)
    assert "an offset in elements that the kernel loads is added to rows that move" in found.reasons()
    same_bits(neighbours(), "kernel")
    same_bits(walking(mask=False), "host", 1)


def test_an_operand_that_says_where_another_is_loaded_keeps_both_in_one_partition() -> None:
    codes = np.random.default_rng(0).integers(0, 16, (64, 64)).astype(np.int32)
    arguments = {"a_ptr": values(64, 64), "q_ptr": codes, "t_ptr": values(16), "c_ptr": poison(64, 64), "K": 64}
    found = promoted(Launch(kernels.codes_and_table, arguments, {"BM": 64, "BN": 64, "BK": 32}, (1,)), "host")
    asked = PlanOptions(enable_warp_specialization=True)
    for text in (print_module(found.ttgir()), found.made.whole_text()):
        outcome = specialise(text, asked, Target(4, 3))
        assert not outcome.applied
        assert "the address or trip count of a load depends on " in outcome.remarks[0].reason
    assert "tl.load, whose tile is also an operand of a dot" in outcome.remarks[0].reason


def test_a_hint_on_one_result_of_a_branch_says_nothing_of_the_other() -> None:
    found = promoted(halves(), "host")
    assert found.result.promoted == 1, found.reasons()


@pytest.mark.parametrize("form", ["quotient", "shift", "rounded up", "block"])
def test_half_of_an_index_in_whole_steps_is_aligned(form: str) -> None:
    same_bits(halved(form), "host", 2)


def test_only_what_is_a_box_is_promoted() -> None:
    found = same_bits(gathered(), "host", 1)
    assert "its address is not affine" in found.reasons()


def test_a_tensor_whose_end_is_in_memory_is_described_in_the_kernel_only() -> None:
    found = same_bits(ragged(), "host", 1)
    assert "is loaded by the kernel, so that the size of the tensor is not known" in found.reasons()


def test_pointers_from_memory_of_which_nothing_is_said_stay() -> None:
    arguments: dict[str, Any] = {"pointers_ptr": np.zeros(6, np.int64), "sizes_ptr": np.zeros(2, np.int32)}
    launch = Launch(kernels.grouped_gemm, {**arguments, "problems": 2, "K": 64, "N": 64}, SMALL, (1,))
    for make in ("host", "kernel"):
        found = promoted(launch, make)
        assert not found.result.changed
        assert "its pointer is not known to be a multiple of 16 bytes" in found.reasons()


def test_rows_read_by_a_wraparound_may_not_be_stored() -> None:
    """The sum over all rows includes rows past the end, so the launch condition excludes them."""
    launch = wrapped(200)
    found = promoted(launch, "host")
    module = found.ttgir()
    broken = found.result.launch.broken(addresses(module, launch.arguments))
    assert broken is not None
    assert str(broken) == "M % 64 == 0"
    stock = run(launch, found.made.whole(), LaunchSpec())
    wrong = run(launch, module, found.result.launch)
    assert stock["s_ptr"].tobytes() != wrong["s_ptr"].tobytes()
    assert "reduce in line" in promoted(launch, "kernel").reasons()


def constant(launch: Launch) -> Launch:
    """The same launch with all integers as compile-time constants, as torch.compile passes them."""
    known = {name: value for name, value in launch.arguments.items() if isinstance(value, int)}
    arguments = {name: value for name, value in launch.arguments.items() if name not in known}
    return Launch(launch.kernel, arguments, {**launch.constants, **known}, launch.grid)


@pytest.mark.parametrize("make", ["host", "kernel"])
@pytest.mark.parametrize(
    "launch",
    [
        tutorial(),
        tutorial(b_t=True),
        batched(),
        attention(causal=True, mask=True, s=200),
        odd_loop(1, 3, 0, 4),
        wrapped(192),
    ],
    ids=["tutorial", "tutorial, B transposed", "batched", "attention", "odd loop", "wrapped"],
)
def test_sizes_may_be_constants(launch: Launch, make: Make) -> None:
    found = same_bits(constant(launch), make, 2)
    assert found.result.launch.conditions == ()


def test_a_constant_that_does_not_fit_is_no_condition() -> None:
    for make in ("host", "kernel"):
        found = promoted(constant(wrapped(200)), "host" if make == "host" else "kernel")
        assert found.result.promoted == 1
        assert "its index wraps around or is clamped, and reduce in line" in found.reasons()
    assert promoted(constant(tutorial((200, 136, 100))), "host").result.promoted == 1


SPECIALISED = ["tutorial", "batched", "persistent", "attention", "listed attention that jumps", "flex attention"]


@pytest.mark.parametrize("name", sample(SPECIALISED, 4))
def test_a_promoted_kernel_is_specialised_and_gives_the_same_bits(name: str) -> None:
    launch = (HOST | BOTH)[name]
    found = promoted(launch, "host")
    options = PlanOptions(enable_warp_specialization=True)
    outcome = specialise(print_module(found.ttgir()), options, Target(4, 3, 227 * 1024, 1))
    assert outcome.applied, outcome.remarks
    before = run(launch, found.made.whole(), LaunchSpec())
    after = run(launch, parse_module(outcome.barrier), found.result.launch)
    for array, value in before.items():
        assert value.tobytes() == after[array].tobytes(), array


def test_a_promoted_kernel_is_split_among_consumer_groups() -> None:
    launch = attention(causal=True, mask=True, s=200)
    launch = Launch(launch.kernel, launch.arguments, {**launch.constants, "BM": 128}, (2, 4))
    made = front(launch.kernel, launch.signature(), num_warps=8)
    found = promoted(launch, "host", made)
    module = parse_module(found.ttir)
    info = find_split(module, 2, "rows")
    assert not isinstance(info, Remark) and SplitRows(info).run(module).changed
    text = print_module(lay_out(made, print_module(module), num_warps=4))
    options = PlanOptions(enable_warp_specialization=True, num_consumer_groups=2)
    outcome = specialise(text, options, Target(4, 3, 227 * 1024, 2))
    assert outcome.applied, outcome.remarks
    before = run(launch, made.whole(), LaunchSpec())
    after = run(launch, parse_module(outcome.barrier), found.result.launch)
    assert before["o_ptr"].tobytes() == after["o_ptr"].tobytes()


def test_rows_that_are_not_aligned_are_launched_as_they_were() -> None:
    launch = tutorial((200, 136, 100))  # 200 bytes per row
    found = promoted(launch, "host")
    broken = found.result.launch.broken(addresses(found.ttgir(), launch.arguments))
    assert str(broken) == "(stride_am * 2) >= 16 and (stride_am * 2) <= 1099511627775 and (stride_am * 2) % 16 == 0"
    assert "its stride stride_am is not known to be a multiple of 16 bytes" in promoted(launch, "kernel").reasons()


def test_a_pointer_that_is_not_aligned_is_launched_as_it_was() -> None:
    launch = Launch(**{**vars(tutorial(EVEN)), "aligned": False})
    found = promoted(launch, "host")
    given = addresses(found.ttgir(), launch.arguments)
    assert found.result.launch.broken(given) is None
    given[0] += 2
    assert str(found.result.launch.broken(given)) == "a_ptr % 16 == 0"
    assert "its pointer is not known to be a multiple of 16 bytes" in promoted(launch, "kernel").reasons()


@pytest.mark.parametrize("make", ["host", "kernel"])
def test_assumptions_are_remarked(make: Make) -> None:
    granted = promoted(tutorial(EVEN, assume=False), make).result.taken
    assert DIVISORS in granted
    assert LOADED in promoted(listed(jump=True), make).result.taken
    assert promoted(listed(jump=False), "host").result.taken
    assert promoted(tutorial(EVEN), "host").result.taken == ()


def test_the_launch_survives_json() -> None:
    for launch in (tutorial(), attention(causal=True, mask=True, s=200), wrapped(192)):
        spec = promoted(launch, "host").result.launch
        assert LaunchSpec.from_json(spec.to_json()) == spec


def test_the_descriptor_says_whose_memory_it_is() -> None:
    found = promoted(tutorial(), "host")
    text = found.ttgir().body.ops[0].properties["arg_attrs"]
    assert "{tawa.base = 0 : i32}, {}, {}, {}, {}, {tawa.base = 1 : i32}" in text
    assert [spec.base for spec in found.result.launch.descriptors] == [0, 1]


@triton.jit
def described(a_desc, b_desc, c_ptr, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same GEMM written with descriptors."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, pn * BN]), acc)
    at = (pm * BM + tl.arange(0, BM))[:, None] * N + (pn * BN + tl.arange(0, BN))[None, :]
    tl.store(c_ptr + at, acc.to(tl.float16))


def shape_of_loop(module: Module) -> Counter[str]:
    """The operations of a loop, without scalar arithmetic."""
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    loop = next(view for op in function.op.walk() if (view := ForOp.of(op)))
    return Counter(op.name for op in loop.body.ops if not op.name.startswith("arith."))


@pytest.mark.parametrize("make", ["host", "kernel"])
def test_the_loop_is_that_of_a_kernel_with_descriptors(make: Make) -> None:
    names = described.arg_names
    types = {"a_desc": "tensordesc<fp16[64, 32]>", "b_desc": "tensordesc<fp16[32, 64]>", "c_ptr": "*fp16"}
    types |= {"K": "i32", "N": "i32"}
    signature = Signature(
        {name: types.get(name, "constexpr") for name in names},
        {(names.index(name),): value for name, value in SMALL.items()},
        {},
    )
    written = front(described, signature, num_warps=4).whole()
    for launch in (tutorial(EVEN), gemm(kernels.masked_gemm, EVEN, MASK=True, MOVE=True)):
        assert shape_of_loop(promoted(launch, make).ttgir()) == shape_of_loop(written)


def test_no_pointer_arithmetic_stays_in_the_loop() -> None:
    module = promoted(tutorial(), "host").ttgir()
    loops = [view for op in module.walk() if (view := ForOp.of(op))]
    assert [len(loop.iter_args) for loop in loops] == [1]


sizes = st.integers(1, 9).map(lambda n: 8 * n)


@settings(max_examples=examples(25))
@given(
    m=st.integers(1, 150),
    n=sizes,
    k=sizes,
    pad=st.sampled_from([0, 8, 24]),
    bm=st.sampled_from([64, 128]),
    bn=st.sampled_from([16, 32, 64]),
    bk=st.sampled_from([16, 32, 64]),
    a_t=st.booleans(),
    b_t=st.booleans(),
    kind=st.sampled_from(["tutorial", "masked", "made anew"]),
    make=st.sampled_from(["host", "kernel"]),
)
def test_random_problems_give_the_same_bits(
    m: int, n: int, k: int, pad: int, bm: int, bn: int, bk: int, a_t: bool, b_t: bool, kind: str, make: Make
) -> None:
    """Problems without promoted loads are skipped: there is nothing to compare."""
    blocks = {"BM": bm, "BN": bn, "BK": bk}
    m = -(-m // 8) * 8 if a_t else m
    if kind == "tutorial":
        launch = tutorial((m, n, k), a_t=a_t, b_t=b_t, pad=pad, blocks=blocks)
    else:
        launch = gemm(
            kernels.masked_gemm, (m, n, k), a_t=a_t, b_t=b_t, pad=pad, blocks=blocks, MASK=True, MOVE=kind == "masked"
        )
    if promoted(launch, make).result.changed:
        same_bits(launch, make)
    else:
        assert make == "kernel"
