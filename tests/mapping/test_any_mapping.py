"""Random mappings of ten kernels, and two in 8 bits: a legal one gives the same bits, another is refused with a cure.

A mapping that keeps the order of sums gives the bits of the unspecialised kernel, in a random order of asynchronous
work. Others meet the bound of `tests.cases.simulated`. ``--hypothesis-profile=fresh`` tries other and more mappings.
"""

from __future__ import annotations

import functools
import os
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tawa.bridge.driver.data import Specialised
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.mapping.told import Told
from tawa.bridge.triton.structured import read_kernel
from tawa.errors import PlanError, ResourceError
from tawa.ir import parse_module
from tawa.mapping import (
    GroupWords,
    KernelWords,
    LoopWords,
    Mapping,
    OperandWords,
    PartitionWords,
    StoreWords,
)
from tawa.mapping.of_plan import mapping_of, mapping_text
from tawa.mapping.program import Access, Program, program_of
from tawa.mapping.resolve import resolve
from tawa.mapping.unmet import check_effect
from tests.cases.simulated import ORDERS, errors, simulated
from tests.plan.test_any_plan import EIGHT_BITS, NAMES, bits, fronts, kernels, own, planned
from tests.support.sample import sample, simulated_once
from tests.support.verdicts import passes

ATTENTION = ("two_loops_causal_333x200", "persistent_200x333", *EIGHT_BITS)
EXAMPLES = int(os.environ.get("TAWA_MAPPINGS", "3"))
"""Mappings of each kernel."""


@functools.cache
def program(name: str) -> Program:
    made = fronts(name)
    return program_of(read_kernel(made.ttir, made.context))


def maybe(strategy: st.SearchStrategy[Any], chance: int = 3) -> st.SearchStrategy[Any]:
    """None in most cases: a mapping of many words is hardly ever legal."""
    return st.one_of(*[st.none()] * chance, strategy)


@st.composite
def some(draw: st.DrawFn, words: dict[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(sorted(words)), max_size=2, unique=True)) if words else []
    return {name: draw(words[name]) for name in names}


PATHS = {True: ("tma", "consumer"), False: ("tma in kernel", "cp.async", "registers", "consumer", "pointers")}
ONE_TILE = ("tile_64x64", "gate_up", "epilogue_all", "tutorial_fp16_nn", *EIGHT_BITS)
"""Kernels of one tile for each program, that may have a persistent form, or share tiles."""


@st.composite
def forms(draw: st.DrawFn, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Words about the kernel and its groups: as it is written, persistent, several programs in a CTA or for a tile."""
    kinds = ("as written", "programs") + (("persistent", "shares") if name in ONE_TILE else ())
    match draw(st.sampled_from(("as written", *kinds))):
        case "persistent":
            orders = st.sampled_from(("launch", "longest first", "grouped", "hilbert", "l2 halves"))
            return {"persistent": True, "order": draw(maybe(orders))}, {"count": draw(maybe(st.integers(1, 2)))}
        case "programs":
            persistent = draw(maybe(st.just(True))) if name in ONE_TILE else None
            return {"persistent": persistent}, {"count": draw(st.integers(2, 3)), "split": "programs"}
        case "shares":
            return {"programs_per_tile": draw(st.integers(2, 4))}, {}
        case _:
            split = st.sampled_from(("rows", "columns"))
            count = draw(maybe(st.integers(1, 2)))
            return {}, {"count": count, "split": draw(maybe(split)) if count == 2 else None}


@st.composite
def eight_bits(draw: st.DrawFn, name: str) -> dict[str, OperandWords]:
    """Words that only kernels in 8 bits have, about both loops: one alone is hardly ever legal."""
    match name if draw(st.booleans()) else "":
        case "keys_innermost":
            return {"k_desc": OperandWords(rows="for next dot")}
        case "values_as_rows":
            return {"v_desc": OperandWords(transposed="converter", reordered=draw(st.booleans()))}
        case _:
            return {}


@st.composite
def mappings(draw: st.DrawFn, name: str) -> Mapping:
    found, slots = program(name), st.integers(1, 4)
    flags, often = st.booleans(), 1 if name in EIGHT_BITS else 12
    rows, transposed = st.sampled_from(("in order", "for next dot")), st.sampled_from(("registers", "converter"))
    lefts = {key for loop in found.loops for key in loop.left}

    def operand(load: Access) -> st.SearchStrategy[OperandWords]:
        memory = maybe(st.sampled_from(("registers", "shared")), 3) if load.key in lefts else st.none()
        return st.builds(
            OperandWords, path=maybe(st.sampled_from(PATHS[load.tma])), ring=maybe(slots, 1), memory=memory,
            hoisted=maybe(flags), prefetched=maybe(flags, 8), rows=maybe(rows, often),
            transposed=maybe(transposed, often), reordered=maybe(flags, often),
        )  # fmt: skip

    loops = st.builds(
        LoopWords, in_flight=maybe(st.integers(0, 2)), stages=maybe(st.integers(0, 3), 1), joined=maybe(flags, 8),
        kept=maybe(st.just(()), 8),
    )  # fmt: skip
    operands = {**draw(some({it.text: operand(it) for it in found.loads})), **draw(eight_bits(name))}
    parts = {"producer": st.sampled_from((24, 40, 56)), "consumer": st.sampled_from((160, 200, 240))}
    kernel, groups = draw(forms(name))
    if draw(st.booleans()):
        return Mapping(KernelWords(**kernel), GroupWords(**groups), draw(eight_bits(name)))
    return Mapping(
        KernelWords(
            **kernel,
            ctas_per_sm=draw(maybe(st.integers(1, 2), 6)), early_slots=draw(maybe(st.integers(0, 3))),
            direct_stores=draw(maybe(st.booleans(), 6)),
            slot_views=draw(maybe(st.sampled_from(("shared", "own")), 6)),
            sums=draw(maybe(st.sampled_from(("in order", "after loops")), 2)),
        ),
        GroupWords(**groups, ping_pong=draw(maybe(flags, 8))),
        operands,
        draw(some({it.text: st.builds(StoreWords, staged=maybe(flags)) for it in found.stores})),
        draw(some({it.text: loops for it in found.loops})),
        {},
        {
            part: PartitionWords(registers=draw(registers))
            for part, registers in parts.items()
            if draw(maybe(st.just(True), 6))
        },
    )  # fmt: skip


def carried_out(name: str, mapping: Mapping) -> tuple[Any, dict[str, str]]:
    """What becomes of a kernel under a mapping; launched by Triton where the mapping needs that."""
    ours = mapping.needs_launch
    with launched_by_us(ours, kernels()[name].kernel):
        return planned(name, resolve(mapping, program(name), ours))


@simulated_once
@pytest.mark.parametrize("name", [*sample(NAMES, 6), *sample(EIGHT_BITS, 3)])
def test_a_legal_mapping_gives_the_same_bits_and_another_is_refused_with_a_cure(name: str) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(mappings(name), st.sampled_from(ORDERS))
    def check(mapping: Mapping, order: str) -> None:
        assert Mapping.parse(mapping.toml()) == mapping
        try:
            with Told(mapping, program(name)):
                made, texts = carried_out(name, mapping)
        except (PlanError, ResourceError) as error:
            event("refused")
            assert re.search(r"\.py:\d+.*; cure: ", str(error)), error
            return
        if not isinstance(made, Specialised):
            event("declined")
            assert made.remarks[0].reason
            return
        whole = made.outcome.plan
        assert whole is not None
        try:
            check_effect(mapping, program(name), whole)
        except PlanError as error:
            event("without effect")
            assert "; cure: " in str(error)
            return
        event(f"carried out, {'in order' if whole.keeps_order else 'in another order'}")
        event(f"split {whole.split}" if whole.split else f"programs for a tile: {whole.split_k}")
        assert passes(made.outcome.verdict), mapping.toml()
        tiles_on = 2 if whole.form == "persistent" else None
        module, case = parse_module(texts["barrier"]), kernels()[name]
        launch = made.launch if mapping.needs_launch else None
        arrays, wanted = simulated(case, module, order, tiles_on, launch), bits(name)
        if whole.keeps_order:
            assert all(arrays[key].tobytes() == wanted[key].tobytes() for key in wanted), (order, mapping.toml())
        elif name in ATTENTION:
            assert errors(kernels()[name], arrays).share <= 1, (order, mapping.toml())
        else:
            assert all(np.allclose(arrays[key], wanted[key], 1e-2, 1e-2, equal_nan=True) for key in wanted)
        again = mapping_of(whole, program(name))
        assert Mapping.parse(again.toml()) == again
        repeated, _ = carried_out(name, again)
        assert isinstance(repeated, Specialised) and repeated.outcome.plan == whole, mapping.toml()

    check()


@pytest.mark.parametrize("name", sample(NAMES, 4))
def test_the_mapping_of_a_plan_read_back_gives_the_plan(name: str) -> None:
    text = mapping_text(own(name), program(name))
    made, _ = planned(name, resolve(Mapping.parse(text), program(name), launched=False))
    assert isinstance(made, Specialised) and made.outcome.plan == own(name)
