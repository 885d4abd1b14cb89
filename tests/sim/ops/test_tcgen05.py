"""Tensor memory and tcgen05: right values in every order of landing, and traps for faults."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.ir import Module
from tawa.sim import B200, Descriptor, SimulationResult, from_floats, simulate, to_floats
from tawa.sim.errors import (
    BarrierMisuse,
    Deadlock,
    MissingFence,
    SharedMemoryRace,
    SimulationError,
    TensorMemoryRace,
    UnsupportedOp,
    UnwrittenRead,
)
from tawa.sim.machine.cta import Order
from tawa.sim.time.timeline import TENSOR_CORES, TMA
from tests.cases.programs.ttgir import op
from tests.sim import one_dot as one
from tests.sim.blackwell import attention_module, products_module

ORDERS: tuple[Order, ...] = get_args(Order)
RUNS: tuple[tuple[Order, int], ...] = (("eager", 0), ("late", 0), *(("random", seed) for seed in range(4)))
BM, BN, BK, H = 128, 64, 32, 64
LOG2_E = 1.4426950408889634


@cache
def products(fault: str = "") -> Module:
    return products_module(fault, BM, BN, BK)


@cache
def attention(fault: str = "") -> Module:
    return attention_module(fault, BM, BN, H)


def multiply(module: Module, tiles: int, K: int, order: Order, seed: int = 0) -> tuple[SimulationResult, Any, Any]:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((rows, K)).astype(np.float16) for rows in (tiles * BM, BN))
    c = np.full((tiles * BM, BN), np.nan, np.float16)
    arguments: dict[str, Any] = {"a": Descriptor(a), "b": Descriptor(b), "c": Descriptor(c), "tiles": tiles, "K": K}
    result = simulate(module, arguments, (1,), order, seed, timing=True)
    return result, c, a.astype(np.float64) @ b.T.astype(np.float64)


def attend(module: Module, S: int, order: Order, seed: int = 0) -> tuple[SimulationResult, Any, Any]:
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((rows, H)).astype(np.float16) for rows in (BM, S, S))
    out = np.full((BM, H), np.nan, np.float16)
    arguments: dict[str, Any] = {"q": Descriptor(q), "k": Descriptor(k), "v": Descriptor(v), "out": Descriptor(out)}
    arguments |= {"scale": H**-0.5 * LOG2_E, "S": S}
    result = simulate(module, arguments, (1,), order, seed, timing=True)
    scores = q.astype(np.float64) @ k.T.astype(np.float64) * H**-0.5
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return result, out, weights @ v.astype(np.float64) / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("tiles", "steps"), [(1, 1), (2, 2), (5, 3)])
def test_a_persistent_product_gives_the_same_bits_and_times_in_all_orders(tiles: int, steps: int) -> None:
    first, bits, wanted = multiply(products(), tiles, steps * BK, "eager")
    np.testing.assert_allclose(bits, wanted, rtol=2**-11, atol=1e-5)  # roundings to fp32, and one to fp16
    for order, seed in RUNS[1:]:
        again, c, _ = multiply(products(), tiles, steps * BK, order, seed)
        assert (c.view(np.uint16) == bits.view(np.uint16)).all(), order
        assert again.timeline() == first.timeline(), order


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_attention_gives_the_same_bits_and_times_in_all_orders(blocks: int) -> None:
    first, bits, wanted = attend(attention(), blocks * BN, "eager")
    # The weights are rounded to fp16 before the product with V, and the result is rounded again.
    np.testing.assert_allclose(bits, wanted, rtol=4e-3, atol=2e-3)
    for order, seed in RUNS[1:]:
        again, out, _ = attend(attention(), blocks * BN, order, seed)
        assert (out.view(np.uint16) == bits.view(np.uint16)).all(), order
        assert again.timeline() == first.timeline(), order


def test_the_timeline_shows_mmas_on_the_tensor_cores_and_names_the_partitions() -> None:
    timeline = multiply(products(), 5, 3 * BK, "eager")[0].timeline()
    assert timeline.rows == ("producer", "mma", "consumer", TMA, TENSOR_CORES)
    assert timeline.clock_ghz == B200.clock_ghz
    mmas = timeline.of(TENSOR_CORES)
    assert len(mmas) == 5 * 3 and {it.label for it in mmas} == {"tc_gen5_mma"}
    # A half of the tile is read after the mmas of the tile, while those of the next tile are issued.
    first = next(it for it in timeline.of("consumer") if it.label == "tmem_load")
    assert mmas[2].end_cycles < first.begin_cycles


def is_trapped(error: type[SimulationError], run: Any) -> bool:
    """Whether a faulty kernel ends with an error of this class in some order."""
    for order, seed in (("eager", 0), ("late", 0), *(("random", seed) for seed in range(32))):
        try:
            run(order, seed)
        except error:
            return True
        except SimulationError:
            continue
    return False


FAULTY_PRODUCTS: dict[str, tuple[int, type[SimulationError]]] = {
    "the epilogue does not wait": (3, UnwrittenRead),
    "no commit": (3, Deadlock),
    "the commit arrives at the other slot": (3, Deadlock),
    "the commit stands before the mmas": (3, TensorMemoryRace),
    "the accumulator is released before its load": (1, TensorMemoryRace),
    "the first step adds to the accumulator": (3, UnwrittenRead),
    "a thread releases the operands": (3, SharedMemoryRace),
}


@pytest.mark.parametrize("fault", FAULTY_PRODUCTS)
def test_a_fault_of_a_product_is_trapped_in_some_order(fault: str) -> None:
    steps, error = FAULTY_PRODUCTS[fault]
    assert is_trapped(error, lambda order, seed: multiply(products(fault), 5, steps * BK, order, seed))


FAULTY_ATTENTION = ("P is not waited for", "P is announced before it is stored", "O is not waited for")


@pytest.mark.parametrize("fault", FAULTY_ATTENTION)
def test_a_fault_of_attention_is_trapped_in_some_order(fault: str) -> None:
    assert is_trapped(TensorMemoryRace, lambda order, seed: attend(attention(fault), 2 * BN, order, seed))


# -- single operations -------------------------------------------------------------------------------------------------

FLOATS = {"f16": 0.0, "bf16": 0.0, "f8E4M3FN": 0.0, "f8E5M2": 0.0, "f32": 2**-10}  # f32: truncated to TF32


def single(module: Module, order: Order = "eager", *, n: int = 1, a: str = "f16", b: str = "f16") -> tuple[Any, ...]:
    """Runs a program of `one_dot`; returns A, B, the tile c before the run, and c after it."""
    random = np.random.default_rng(0)
    left, right = random.standard_normal((one.M, one.K)), random.standard_normal((one.K, one.N))
    given = random.standard_normal((one.M, one.N)).astype(np.float32)
    arrays = {"a": from_floats(left, a), "b": from_floats(right, b), "c": given.copy()}
    simulate(module, {name: Descriptor(array) for name, array in arrays.items()} | {"n": n}, (1,), order)
    return to_floats(arrays["a"], a).astype(float), to_floats(arrays["b"], b).astype(float), given, arrays["c"]


def kinds(element: str = "f16", other: str = "f16", out: str = "f32", stride: int = 1) -> tuple[str, str, str]:
    return one.buffer(one.M, one.K, element), one.buffer(one.K, one.N, other), one.tensor(one.M, one.N, out, stride)


ALLOC = op("ttng.tmem_alloc", "", "", "%d", one.tensor(one.M, one.N, "f32"))
WITH_TOKEN = op("ttng.tmem_alloc", "", "", "%d, %token", f"({one.tensor(one.M, one.N, 'f32')}, {one.TOKEN})")
MMA = one.mma("%a_tile", "%b_tile", kinds(), commits=[("%done", "%yes")])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("element", "other"), [*((it, it) for it in FLOATS), ("f8E4M3FN", "f8E5M2")])
def test_an_mma_multiplies_each_type(element: str, other: str, order: Order) -> None:
    dot = one.mma("%a_tile", "%b_tile", kinds(element, other), commits=[("%done", "%yes")])
    module = one.program(ALLOC, dot, one.WAIT, one.load(), a=element, b=other)
    a, b, _, c = single(module, order, a=element, b=other)
    np.testing.assert_allclose(c, a @ b, rtol=FLOATS[element], atol=max(1e-5, 20 * FLOATS[element]))


@pytest.mark.parametrize("unsigned", [False, True])
def test_integers_have_a_sign_or_none(unsigned: bool) -> None:
    types = one.buffer(one.M, one.K, "i8"), one.buffer(one.K, one.N, "i8"), one.tensor(one.M, one.N, "i32")
    more = "is_async, is_unsigned" if unsigned else "is_async"
    dot = one.mma("%a_tile", "%b_tile", types, commits=[("%done", "%yes")], more=more)
    alloc = op("ttng.tmem_alloc", "", "", "%d", one.tensor(one.M, one.N, "i32"))
    module = one.program(alloc, dot, one.WAIT, one.load(element="i32"), a="i8", b="i8", c="i32")
    random, kind = np.random.default_rng(0), np.uint8 if unsigned else np.int8
    a, b = (random.integers(0, 256, shape).astype(np.uint8) for shape in ((one.M, one.K), (one.K, one.N)))
    c = np.zeros((one.M, one.N), np.int32)
    simulate(module, {"a": Descriptor(a), "b": Descriptor(b), "c": Descriptor(c), "n": 1}, (1,))
    assert (c == a.view(kind).astype(np.int32) @ b.view(kind).astype(np.int32)).all()


def test_an_mma_adds_to_what_threads_stored() -> None:
    begin = op("ttng.tmem_alloc", "%given", one.tile(one.M, one.N, "f32"), "%d", one.tensor(one.M, one.N, "f32"))
    dot = one.mma("%a_tile", "%b_tile", kinds(), use_d="%yes", commits=[("%done", "%yes")])
    a, b, given, c = single(one.program(begin, dot, one.WAIT, one.load()))
    np.testing.assert_allclose(c, a @ b + given, atol=1e-5)


def test_an_fp16_accumulator_has_a_column_for_each_element() -> None:
    alloc = op("ttng.tmem_alloc", "", "", "%d", one.tensor(one.M, one.N, "f16", 2))
    dot = one.mma("%a_tile", "%b_tile", kinds(out="f16", stride=2), commits=[("%done", "%yes")])
    whole, narrow = one.tensor(one.M, one.N, "f32"), one.tensor(one.M, one.N, "f16", 2)
    again = (
        op("ttg.memdesc_reinterpret", "%d", narrow, "%w", whole),
        op("ttg.memdesc_reinterpret", "%w", whole, "%e", narrow),
    )
    halves, tile = one.load("%half", "%e", "f16", 2), one.tile(one.M, one.N, "f32")
    extend = op("arith.extf", "%half", one.tile(one.M, one.N, "f16"), "%t", tile)
    a, b, _, c = single(one.program(alloc, dot, one.WAIT, *again, halves, extend))
    assert (c == (a @ b).astype(np.float16)).all()
    with pytest.raises(UnwrittenRead, match="4096 of 4096 elements"):  # the other half of each column
        single(one.program(alloc, dot, one.WAIT, *again, one.load("%t", "%w"), halves))


def test_p_takes_the_first_half_of_the_bytes_of_s() -> None:
    whole, wide = one.tensor(one.M, one.N, "f32"), one.tensor(one.M, 2 * one.N, "f16")
    part = one.tensor(one.M, one.N, "f16")
    narrow = op("arith.truncf", "%given", one.tile(one.M, one.N, "f32"), "%half", one.tile(one.M, one.N, "f16"))

    def lines(first: int) -> tuple[str, ...]:
        return (
            ALLOC,
            op("ttg.memdesc_reinterpret", "%d", whole, "%w", wide),
            op("ttng.tmem_subslice", "%w", wide, "%p", part, properties="N = 0 : i32"),
            narrow,
            one.store("%half", "%p", "f16"),
            op("ttng.tmem_subslice", "%w", wide, "%q", part, properties=f"offset = {first} : i32, dim = 1 : i32"),
            one.load("%back", "%q", "f16"),
            op("arith.extf", "%back", one.tile(one.M, one.N, "f16"), "%t", one.tile(one.M, one.N, "f32")),
        )

    _, _, given, c = single(one.program(*lines(0)))
    assert (c == given.astype(np.float16)).all()
    with pytest.raises(UnwrittenRead, match="2048 of 4096 elements of d, in tensor memory"):
        single(one.program(*lines(one.N // 2)))


def test_an_operation_whose_predicate_is_false_does_nothing() -> None:
    begin = op("ttng.tmem_alloc", "%given", one.tile(one.M, one.N, "f32"), "%d", one.tensor(one.M, one.N, "f32"))
    twice = op(
        "arith.addf",
        "%given, %given",
        ", ".join([one.tile(one.M, one.N, "f32")] * 2),
        "%twice",
        one.tile(one.M, one.N, "f32"),
    )
    dot = one.mma("%a_tile", "%b_tile", kinds(), predicate="%n", commits=[("%done", "%yes")])
    stored = one.program(begin, twice, one.store("%twice", predicate="%n"), one.load())
    multiplied = one.program(begin, dot, one.load())
    for module in (stored, multiplied):
        _, _, given, c = single(module, n=0)
        assert (c == given).all()
    _, _, given, c = single(stored, n=1)
    assert (c == 2 * given).all()
    with pytest.raises(Deadlock):  # neither the mma nor its commit
        single(one.program(begin, dot, one.WAIT, one.load()), n=0)


def test_a_commit_under_a_false_predicate_does_not_arrive() -> None:
    own = one.mma("%a_tile", "%b_tile", kinds(), commits=[("%done", "%n")]), ""
    later = one.mma("%a_tile", "%b_tile", kinds()), op("ttng.tc_gen5_commit", "%done, %n", f"{one.BARRIER}, i1")
    for lines in (own, later):
        module = one.program(ALLOC, *lines, one.WAIT, one.load())
        a, b, _, c = single(module, n=1)
        np.testing.assert_allclose(c, a @ b, atol=1e-5)
        with pytest.raises(Deadlock):
            single(module, n=0)


def test_an_mma_with_a_token_that_is_not_asynchronous_waits_for_itself() -> None:
    dot = one.mma("%a_tile", "%b_tile", kinds(), more="", token="%token")
    for order in ORDERS:
        a, b, _, c = single(one.program(WITH_TOKEN, dot, one.load()), order)
        np.testing.assert_allclose(c, a @ b, atol=1e-5)
    # Gluon's mmas have no token; without a barrier nothing waits for them.
    dot = one.mma("%a_tile", "%b_tile", kinds(), more="")
    with pytest.raises(TensorMemoryRace, match="d, in tensor memory, is read while the mma of main may still write it"):
        single(one.program(ALLOC, dot, one.load()), "late")


def test_a_copy_is_in_order_with_the_mmas_of_its_thread() -> None:
    """The copy of A to tensor memory is operand A of the next mma; a commit covers both."""
    target = one.tensor(one.M, one.K, "f16")
    alloc = op("ttng.tmem_alloc", "", "", "%s", target)
    copy = op("ttng.tmem_copy", "%a_tile, %s", f"{kinds()[0]}, {target}")
    dot = one.mma("%s", "%b_tile", (target, *kinds()[1:]))
    for order in ORDERS:
        a, b, _, c = single(one.program(ALLOC, alloc, copy, dot, one.COMMIT, one.WAIT, one.load()), order)
        np.testing.assert_allclose(c, a @ b, atol=1e-5)
    with pytest.raises(TensorMemoryRace, match="while the tensor copy of main may still write it"):
        single(one.program(alloc, copy, one.load("%x", "%s", "f16"), ALLOC, dot, one.load()), "late")
    with pytest.raises(UnwrittenRead):
        single(one.program(ALLOC, alloc, dot, one.load()))


def test_an_allocation_in_a_loop_gets_the_same_columns() -> None:
    operand, half = one.tensor(one.M, one.K, "f16"), one.tile(one.M, one.N, "f16")
    narrow = op("arith.truncf", "%given", one.tile(one.M, one.N, "f32"), "%half", half)
    stored = op("ttng.tmem_alloc", "%half", half, "%s", operand)
    dot = one.mma("%s", "%b_tile", (operand, *kinds()[1:]))

    def looped(*body: str) -> Module:
        loop = [
            '"scf.for"(%zero, %two, %one) ({',
            "^bb0(%i: i32):",
            *body,
            op("scf.yield", "", ""),
            "}) : (i32, i32, i32) -> ()",
        ]
        two = op("arith.constant", "", "", "%two", "i32", properties="value = 2 : i32")
        return one.program(WITH_TOKEN, narrow, two, *loop, MMA, one.WAIT, one.load())

    with pytest.raises(
        TensorMemoryRace, match="s, in tensor memory, is written while the mma of main may still read it"
    ):
        single(looped(stored, dot), "late")
    synchronous = one.mma("%s", "%b_tile", (operand, *kinds()[1:]), more="", token="%token")
    a, b, _, c = single(looped(stored, synchronous), "late")
    np.testing.assert_allclose(c, a @ b, atol=1e-5)


def test_threads_do_not_access_what_an_mma_in_flight_uses() -> None:
    with pytest.raises(TensorMemoryRace, match="d, in tensor memory, is read while the mma of main may still write it"):
        single(one.program(ALLOC, MMA, one.load()), "late")
    with pytest.raises(TensorMemoryRace, match="is written while the mma of main may still write it"):
        single(one.program(ALLOC, MMA, one.store("%given"), one.load()), "late")
    operand = one.tensor(one.M, one.K, "f16")
    lines = (
        ALLOC,
        op("arith.truncf", "%given", one.tile(one.M, one.N, "f32"), "%half", one.tile(one.M, one.N, "f16")),
        op("ttng.tmem_alloc", "%half", one.tile(one.M, one.N, "f16"), "%s", operand),
        one.mma("%s", "%b_tile", (operand, *kinds()[1:])),
    )
    with pytest.raises(
        TensorMemoryRace, match="s, in tensor memory, is written while the mma of main may still read it"
    ):
        single(one.program(*lines, one.store("%half", "%s", "f16"), one.COMMIT, one.WAIT, one.load()), "late")
    single(one.program(*lines, one.COMMIT, one.WAIT, one.store("%half", "%s", "f16"), one.load()), "late")


@pytest.mark.parametrize("order", ORDERS)
def test_what_threads_store_to_shared_memory_is_fenced_before_an_mma(order: Order) -> None:
    fence = op("ttng.fence_async_shared", "", "", properties="bCluster = false")
    kind = one.buffer(one.M, one.K, "f16")
    stored = (
        op("ttg.local_load", "%a_tile", kind, "%again", one.tile(one.M, one.K, "f16")),
        op("ttg.local_store", "%again, %a_tile", f"{one.tile(one.M, one.K, 'f16')}, {kind}"),
    )
    a, b, _, c = single(one.program(ALLOC, *stored, fence, MMA, one.WAIT, one.load()), order)
    np.testing.assert_allclose(c, a @ b, atol=1e-5)
    with pytest.raises(MissingFence):
        single(one.program(ALLOC, *stored, MMA, one.WAIT, one.load()), order)


def test_an_mma_without_a_commit_lands_at_the_end_and_a_commit_needs_its_barrier() -> None:
    given = op("ttng.tmem_alloc", "%given", one.tile(one.M, one.N, "f32"), "%e", one.tensor(one.M, one.N, "f32"))
    begin = (ALLOC, given, one.load(source="%e"))
    alone = one.mma("%a_tile", "%b_tile", kinds())
    invalidated = op("ttng.inval_barrier", "%done", one.BARRIER)
    for order in ORDERS:
        single(one.program(*begin, last=[alone]), order)
        single(one.program(*begin, last=[MMA, one.WAIT, invalidated]), order)
    with pytest.raises(BarrierMisuse, match="done is not initialised where a commit to it arrives"):
        single(one.program(*begin, last=[MMA, invalidated]), "late")


def test_operands_are_not_freed_before_a_commit() -> None:
    given = op("ttng.tmem_alloc", "%given", one.tile(one.M, one.N, "f32"), "%e", one.tensor(one.M, one.N, "f32"))
    lines = ALLOC, given, one.mma("%a_tile", "%b_tile", kinds()), one.load(source="%e")
    with pytest.raises(SharedMemoryRace, match="a_tile is freed while the mma of main may still read it"):
        single(one.program(*lines), "late")  # the store of the result may get the bytes of A


def test_a_scaled_mma_multiplies_by_the_scales_of_its_blocks() -> None:
    a_scales, b_scales = (one.tensor(rows, 1, "i8") for rows in (one.M, one.N))
    lines: list[str] = []
    for name, rows, kind in (("u", one.M, a_scales), ("v", one.N, b_scales)):
        tile = one.tile(rows, 1, "i8")
        lines.append(op("arith.constant", "", "", f"%{name}_bytes", tile, properties=f"value = dense<-127> : {tile}"))
        lines.append(op("ttng.tmem_alloc", f"%{name}_bytes", tile, f"%{name}", kind))
    types = (*kinds("f8E4M3FN", "f8E4M3FN"), a_scales, b_scales, "i1", "i1", one.BARRIER, "i1")
    sizes = "operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1, 1>"
    properties = f"a_type = 0 : i32, b_type = 0 : i32, is_async, {sizes}"
    values = "%a_tile, %b_tile, %d, %u, %v, %no, %yes, %done, %yes"
    dot = op("ttng.tc_gen5_mma_scaled", values, ", ".join(types), properties=properties)
    module = one.program(ALLOC, *lines, dot, one.WAIT, one.load(), a="f8E4M3FN", b="f8E4M3FN")
    for order in ORDERS:
        a, b, _, c = single(module, order, a="f8E4M3FN", b="f8E4M3FN")
        np.testing.assert_allclose(c, 16 * (a @ b), atol=1e-4)  # -127 is the byte 129: 2 ** 2 of A, and of B


def test_an_mma_of_two_ctas_is_not_simulated() -> None:
    with pytest.raises(UnsupportedOp, match="two CTAs"):
        single(one.program(ALLOC, one.mma("%a_tile", "%b_tile", kinds(), more="is_async, two_ctas"), one.load()))
