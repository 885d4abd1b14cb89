"""The kernels, and how to get the program of each: TTGIR with partitions and mbarriers, compiled without a GPU.

Kernels of Tawa are those of the test matrices; the level below the rings is taken. Kernels in Gluon are those of
`bench.reviewed.by_hand` and of `bench.peers`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tawa.bridge.driver.driver import specialise
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.ir import Module, parse_module, print_module
from tawa.plan import LoopPlan, OperandPlan, Plan, PlanOptions, StorePlan
from tests.cases.case import Specimen
from tests.matrix.compiling import signature
from tests.matrix.gluon import gluon_module
from tests.support.fronts import front

Table = Sequence[int] | Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel. make: its program as text. numbers: arguments of the usual run, by name. tables: memory of numbers."""

    name: str
    kind: str
    make: Callable[[], str]
    numbers: Mapping[str, Any]
    tables: Mapping[str, Table] = field(default_factory=dict[str, Table])

    def module(self) -> Module:
        """The program, for an edit."""
        return parse_module(text_of(self.name))


@functools.cache
def text_of(name: str) -> str:
    """The program of a kernel."""
    return KERNELS[name].make()


def _tawa(find: Callable[[], Specimen], plan: Plan = Plan()) -> Callable[[], str]:
    def make() -> str:
        with launched_by_us():
            case = find()
            options = PlanOptions(enable_warp_specialization=True, precision="relaxed")
            made = front(case.kernel, signature(case), num_warps=case.num_warps, num_stages=case.num_stages)
            request = Request(options, plan, verification="off")
            job = made.job(case.name)
            found = specialise(job, request)
        if "barrier" not in job.texts:
            raise ValueError(f"not specialised: {found}")
        return job.texts["barrier"]

    return make


def _gluon(
    kernel: str, boxes: Mapping[str, list[int]], scalars: Mapping[str, str], **constants: Any
) -> Callable[[], str]:
    def make() -> str:
        from bench.reviewed import by_hand

        more = {"num_warps": 4, **constants}
        module = gluon_module(getattr(by_hand, kernel), boxes, more, dict.fromkeys(boxes, "fp16"), scalars)
        return print_module(module)

    return make


def _peer_gemm() -> str:
    from bench.peers import gluon_gemm

    boxes = {"a_desc": [128, 64], "b_desc": [64, 256], "c_desc": [128, 128]}
    constants = {"BM": 128, "BN": 256, "BK": 64, "D": 3, "GROUP_M": 8, "P": 1, "EN": 128}
    constants |= {"KI": 16, "B_T": False, "REGISTERS": 24, "num_warps": 8}
    return print_module(gluon_module(gluon_gemm.gemm, boxes, constants, dict.fromkeys(boxes, "fp16"), {}))


def _gemm(name: str) -> Callable[[], Specimen]:
    def find() -> Specimen:
        from tests.cases.gemm import cases

        return cases.find(name)

    return find


def _attention(name: str) -> Callable[[], Specimen]:
    def find() -> Specimen:
        from tests.cases.attention import cases

        return cases.find(name)

    return find


def _pointers(name: str) -> Callable[[], Specimen]:
    def find() -> Specimen:
        from tests.cases.pointers import cases

        return cases.find(name)

    return find


def _three() -> Specimen:
    from tests.cases.attention.builders import forward_case

    return forward_case("three", dtype="bf16", causal=True, tile=(64, 128, 4), dim=64, SQ=320, SK=384)


def _floats() -> Specimen:
    from tests.cases.gemm.transposed import FLOATS

    return FLOATS[0]


def _small() -> Specimen:
    case = _gemm("tile_fp16_nn")()
    return replace(case, constexprs={**case.constexprs, "BM": 64, "BN": 128, "BK": 64}, num_warps=4)


_CONVERTER = Plan(operands=(OperandPlan(transposed="converter"),))
_THREE = Plan(groups=3, split="programs", loops=(LoopPlan(kept=()),))
_GEMM: Mapping[str, Any] = {"M": 300, "N": 300, "K": 64 * 7, "programs0": 2}
_ATTENTION: Mapping[str, Any] = {"H": 2, "SQ": 900, "SK": 900, "programs0": 8}
_BOXES = {"a": [64, 64], "b": [64, 64], "c": [64, 64]}
_NO: Mapping[str, str] = {}
_COUNTER = {"counter": "*i32", "o": "*i32"}

_ALL = (
    Kernel("persistent", "persistent GEMM", _tawa(_gemm("persistent")), _GEMM),
    Kernel("grouped", "grouped GEMM; descriptors made in the kernel", _tawa(_pointers("grouped_tma")),
           {"GROUPS": 3, "programs0": 1},
           {"sizes_ptr": (640, 640, 320, 256, 128, 192, 200, 128, 448), "strides_ptr": (64,)}),
    Kernel("joined", "causal attention: two loops in a row", _tawa(_attention("two_loops_fp16_d128_causal")),
           {**_ATTENTION, "diagonal": 0, "pid0": 3}),
    Kernel("converter", "fp8 GEMM with a converter", _tawa(_floats, _CONVERTER), {**_GEMM, "K": 128 * 9}),
    Kernel("staged", "persistent GEMM, stored in slices",
           _tawa(_gemm("persistent_8warps"), Plan(stores=(StorePlan(slices=2, buffers=2),))), _GEMM),
    Kernel("counter", "tiles from a counter", _tawa(_gemm("tile_fp16_nn"), Plan(form="persistent", tiles="dynamic")),
           {**_GEMM, "tawa_grid": 9}),
    Kernel("split_k", "split-K GEMM", _tawa(_small, Plan(split_k=2)), {**_GEMM, "K": 64 * 21, "pid1": 0}),
    Kernel("experts", "rows by cp.async", _tawa(_pointers("experts")), {**_GEMM, "TOKENS": 64}),
    Kernel("ping_pong", "attention, consumers alternating",
           _tawa(_attention("two_loops_fp16_d128_full"), Plan(ping_pong=True)), _ATTENTION),
    Kernel("three", "three groups, each with a program of its own", _tawa(_three, _THREE),
           {**_ATTENTION, "tawa_grid_programs": 9, "pid0": 1}),
    Kernel("attention", "attention with one loop", _tawa(_attention("one_loop_fp16_d64_causal")),
           {**_ATTENTION, "pid0": 3}),
    Kernel("two_loops", "GEMM of two products", _tawa(_gemm("two_loops")), {**_GEMM, "K2": 64 * 9}),
    Kernel("stride2", "rows stored by the producer's threads", _tawa(_pointers("tutorial_stride2")), _GEMM),
    Kernel("pairs", "Gluon: slot and parity carried, two consumers",
           _gluon("pairs", {**_BOXES, "a": [128, 64]}, _NO, BK=64, D=3), {"K": 64 * 11}),
    Kernel("counted", "Gluon: persistent, i % D and (i // D) & 1", _gluon("counted", _BOXES, _NO, BK=64, D=3),
           {"K": 64 * 4, "TILES": 7, "programs0": 2}),
    Kernel("bits", "Gluon: one phase bit for each slot", _gluon("bits", _BOXES, _NO, BK=64, D=4), {"K": 64 * 13}),
    Kernel("rounds", "Gluon: a copy of the body for each slot", _gluon("rounds", _BOXES, _NO, BK=64, D=3),
           {"ROUNDS": 5}),
    Kernel("scaled", "Gluon: tiles stored by threads, read by wgmmas",
           _gluon("scaled", {"b": [64, 64], "c": [64, 64]}, {"x": "*fp16", "scale": "fp32"}, D=2),
           {"TRIPS": 9, "scale": 1.0}),
    Kernel("pointers", "Gluon: cp.async", _gluon("pointers", {}, {"x": "*fp32", "o": "*fp32"}, D=2),
           {"TRIPS": 9, "N": 1000}),
    Kernel("tickets", "Gluon: numbers of tiles from a counter", _gluon("tickets", {}, _COUNTER, D=2, SUM=False),
           {"TILES": 9}),
    Kernel("tickets_sum", "Gluon: the same, where the sum of one number is the number",
           _gluon("tickets", {}, _COUNTER, D=2, SUM=True), {"TILES": 9}),
    Kernel("peer_gemm", "Gluon: persistent GEMM of the benches", _peer_gemm, _GEMM),
)  # fmt: skip
KERNELS: dict[str, Kernel] = {it.name: it for it in _ALL}
