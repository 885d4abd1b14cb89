"""Random mappings of ten kernels: a legal one is proved and gives the same bits, another one is refused with a cure.

A mapping that keeps the order of sums gives the bits of the unspecialised kernel, in a random order of asynchronous
work. Others meet the bound of `tests.cases.simulated`. ``--hypothesis-profile=fresh`` tries other and more mappings.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tawa.bridge.driver.data import Specialised
from tawa.bridge.mapping.told import mapping_words
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
from tawa.mapping.program import Program, program_of
from tawa.mapping.resolve import resolve
from tawa.verify.verdict import Proved
from tests.cases.simulated import ORDERS, errors, simulated
from tests.plan.test_any_plan import NAMES, bits, fronts, kernels, own, planned
from tests.support.sample import simulated_once

ATTENTION = ("two_loops_causal_333x200", "persistent_200x333")
EXAMPLES = int(os.environ.get("TAWA_MAPPINGS", "3"))
"""Mappings of each kernel."""


@functools.cache
def program(name: str) -> Program:
    made = fronts(name)
    return program_of(read_kernel(made.ttir, made.context))


def maybe(strategy: st.SearchStrategy[Any], chance: int = 3) -> st.SearchStrategy[Any]:
    """None in most cases: a mapping of many words is hardly ever legal."""
    return st.one_of(*[st.none()] * chance, strategy)


def some(names: tuple[str, ...], words: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), words, max_size=2) if names else st.just({})


@st.composite
def mappings(draw: st.DrawFn, name: str) -> Mapping:
    found, slots = program(name), st.integers(1, 4)
    flags = st.booleans()
    operands = st.builds(
        OperandWords,
        path=maybe(st.sampled_from(("tma", "tma in kernel", "cp.async", "registers", "consumer", "pointers"))),
        ring=maybe(slots, 1), memory=maybe(st.sampled_from(("registers", "shared")), 6), hoisted=maybe(flags),
        prefetched=maybe(flags, 6),
    )  # fmt: skip
    loops = st.builds(
        LoopWords, in_flight=maybe(st.integers(0, 2)), stages=maybe(st.integers(0, 3), 1), joined=maybe(flags, 8),
        kept=maybe(st.just(()), 8),
    )  # fmt: skip
    parts = {"producer": st.sampled_from((24, 40, 56)), "consumer": st.sampled_from((160, 200, 240))}
    return Mapping(
        KernelWords(
            ctas_per_sm=draw(maybe(st.integers(1, 2), 6)), early_slots=draw(maybe(st.integers(0, 3))),
            slot_views=draw(maybe(st.sampled_from(("shared", "own")), 6)),
            sums=draw(maybe(st.sampled_from(("in order", "after loops")), 6)),
        ),
        GroupWords(count=draw(maybe(st.integers(1, 2))), take_turns=draw(maybe(flags, 8))),
        draw(some(tuple(it.text for it in found.loads), operands)),
        draw(some(tuple(it.text for it in found.stores), st.builds(StoreWords, staged=maybe(flags)))),
        draw(some(tuple(it.text for it in found.loops), loops)),
        {},
        {
            part: PartitionWords(registers=draw(registers))
            for part, registers in parts.items()
            if draw(maybe(st.just(True), 6))
        },
    )  # fmt: skip


@simulated_once
@pytest.mark.parametrize("name", NAMES)
def test_a_legal_mapping_gives_the_same_bits_and_another_is_refused_with_a_cure(name: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(mappings(name), st.sampled_from(ORDERS))
    def check(mapping: Mapping, order: str) -> None:
        assert Mapping.parse(mapping.toml()) == mapping
        try:
            plan = resolve(mapping, program(name), launched=False)
            made, texts = planned(name, plan)
        except (PlanError, ResourceError) as error:
            event("refused")
            text = mapping_words(str(error), program(name))
            assert "cure:" in text or "it has" in text.lower(), text
            return
        if not isinstance(made, Specialised):
            event("declined")
            assert made.remarks[0].reason
            return
        event("carried out")
        whole = made.outcome.plan
        assert whole is not None
        assert isinstance(made.outcome.verdict, Proved), mapping.toml()
        arrays, wanted = simulated(kernels()[name], parse_module(texts["barrier"]), order), bits(name)
        if whole.keeps_order:
            assert all(arrays[key].tobytes() == wanted[key].tobytes() for key in wanted), (order, mapping.toml())
        elif name in ATTENTION:
            assert errors(kernels()[name], arrays).share <= 1, (order, mapping.toml())
        else:
            assert all(np.allclose(arrays[key], wanted[key], 1e-2, 1e-2, equal_nan=True) for key in wanted)
        again = mapping_of(whole, program(name))
        assert Mapping.parse(again.toml()) == again
        repeated, _ = planned(name, resolve(again, program(name), launched=False))
        assert isinstance(repeated, Specialised) and repeated.outcome.plan == whole, mapping.toml()

    check()


@pytest.mark.parametrize("name", NAMES)
def test_the_mapping_of_a_plan_read_back_gives_the_plan(name: str) -> None:
    text = mapping_text(own(name), program(name))
    made, _ = planned(name, resolve(Mapping.parse(text), program(name), launched=False))
    assert isinstance(made, Specialised) and made.outcome.plan == own(name)
