"""Mutants of programs with tensor memory are refuted, or still right for a reason that is written here.

The three programs have about 850 mutants; a change checks a sample. `STILL_RIGHT` names each one that must be proved,
by its kind, operation and number, as ``python -m bench.mutations`` does. Numbers are those of Triton 3.6.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.ir import Module, print_module
from tawa.verify.barriers import check_barriers
from tawa.verify.run.memory import MMAS_IN_ORDER
from tawa.verify.verdict import Proved, Refuted
from tests.support.sample import sample, simulated_once
from tests.verify.mutations_edits import FENCE, STORE_WAIT, WAIT, Mutant, Site, break_at, sites
from tests.verify.mutations_oracle import Level, Oracle, correction
from tests.verify.mutations_sweep import all_sites, judge, mutant_of
from tests.verify.mutations_tensor_memory import KINDS
from tests.verify.tensor_memory.attention import attention_module
from tests.verify.tensor_memory.gemm import gemm_module
from tests.verify.tensor_memory.scaled import scaled_module

PROGRAMS: dict[str, Callable[..., Module]] = {
    "gemm": gemm_module, "attention": attention_module, "scaled": scaled_module,
}  # fmt: skip

STILL_RIGHT: dict[str, dict[str, tuple[str, ...]]] = {
    "scaled": {
        "the only slot of the accumulator is empty at first, and nobody waits for its release": (
            "drop wait_barrier #1",
            "later wait_barrier #1",
            "parity always 1 wait_barrier #1",
            "negate predicate wait_barrier #1",
            "drop arrive_barrier #0",
            "double arrive_barrier #0",
            "earlier arrive_barrier #0",
            "count of arrivals + 1 init_barrier #1",
        ),
        "the expect and the copies of one phase have no order": (
            "later barrier_expect #0",
            "to the end barrier_expect #0",
            *(f"later async_tma_copy_global_to_local #{it}" for it in (0, 1, 2)),
            *(f"earlier async_tma_copy_global_to_local #{it}" for it in (0, 1, 2, 3)),
            *(f"to the end async_tma_copy_global_to_local #{it}" for it in (0, 1)),
        ),
        "the scales of A and of B are copied in any order": (
            "later in its thread tmem_copy #0",
            "earlier in its thread tmem_copy #1",
        ),
    },
    "gemm": {
        "the expect and the copies of one phase have no order": (
            "later barrier_expect #0",
            "to the end barrier_expect #0",
            "later async_tma_copy_global_to_local #0",
            "earlier async_tma_copy_global_to_local #0",
            "earlier async_tma_copy_global_to_local #1",
        ),
        "both halves are stored behind one fence, in any order": (
            "later async_tma_copy_local_to_global #0",
            "earlier async_tma_copy_local_to_global #1",
        ),
        "the accumulator is released later than it need be": (
            "later arrive_barrier #0",
            "to the end arrive_barrier #0",
        ),
        "the stores of the last tile are waited for anywhere before the next write": (
            "earlier async_tma_store_wait #0",
            "to the start async_tma_store_wait #0",
            "to the end async_tma_store_wait #0",
        ),
        "the two halves are loaded in any order": (
            "tensor access later tmem_load #0",
            "tensor access earlier tmem_load #1",
        ),
        "other values: one half is loaded twice": (
            "columns to the right tmem_subslice #0",
            "columns to the left tmem_subslice #1",
        ),
    },
    "attention": {
        "alpha comes behind Q·K of the same block, whose commit is behind P·V of the block before": (
            "drop wait_barrier #2",
            "later wait_barrier #2",
            "earlier wait_barrier #2",
            "to the start wait_barrier #2",
            "before the loop wait_barrier #2",
            "behind the loop wait_barrier #2",
            "negate predicate wait_barrier #2",
            "tensor access earlier tmem_load #0",
        ),
        "nobody waits for the last release of alpha": (
            "drop arrive_barrier #3",
            "double arrive_barrier #3",
            "later arrive_barrier #3",
            "to the end arrive_barrier #3",
            "negate predicate arrive_barrier #3",
            "release before the access arrive_barrier #3",
        ),
        "S comes behind P·V, which comes behind the rescaling that has read alpha": ("later wait_barrier #6",),
        "two waits that no operation between them needs apart": (
            "later wait_barrier #8",
            "earlier wait_barrier #9",
            "later wait_barrier #10",
            "later wait_barrier #11",
            "earlier wait_barrier #11",
            "earlier wait_barrier #12",
            "later wait_barrier #14",
            "later wait_barrier #15",
            "earlier wait_barrier #15",
            "earlier wait_barrier #16",
            "to the start wait_barrier #12",
        ),
        "a wait comes earlier, and what it waits for does not need what follows": (
            "earlier wait_barrier #4",
            "earlier wait_barrier #6",
            "earlier wait_barrier #13",
            "earlier wait_barrier #18",
            "to the start wait_barrier #6",
            "to the start wait_barrier #13",
            "to the start wait_barrier #18",
        ),
        "an arrival comes later, and what follows does not need it": (
            "later arrive_barrier #1",
            "later arrive_barrier #4",
            "to the end arrive_barrier #1",
            "to the end arrive_barrier #4",
            "commit later tc_gen5_commit #0",
            "commit later tc_gen5_commit #1",
            "commit to the end tc_gen5_commit #0",
            "commit to the end tc_gen5_commit #1",
        ),
        "the expect and the copy of one phase have no order": (
            "later barrier_expect #0",
            "later barrier_expect #1",
            "later barrier_expect #2",
            "to the end barrier_expect #1",
            "later async_tma_copy_global_to_local #1",
            "to the end async_tma_copy_global_to_local #1",
            "earlier async_tma_copy_global_to_local #0",
            "earlier async_tma_copy_global_to_local #1",
            "earlier async_tma_copy_global_to_local #2",
        ),
        "two commits behind the same dot": (
            "commit earlier tc_gen5_commit #1",
            "exchange the barriers of two commits tc_gen5_commit #0",
        ),
        "the halves of O, and P and the release of alpha, have no order": (
            "tensor access later tmem_store #0",
            "tensor access earlier tmem_load #1",
            "tensor access earlier tmem_load #3",
            "tensor access earlier tmem_store #2",
        ),
        "other values: a half is rescaled twice or not at all, S is taken for P, the dot adds to P": (
            "drop tensor access tmem_store #0",
            "drop tensor access tmem_store #1",
            "drop tensor access tmem_store #2",
            "always adds tc_gen5_mma #2",
            "adds at the wrong step tc_gen5_mma #2",
            "columns to the right tmem_subslice #0",
            "columns to the right tmem_subslice #2",
            "columns to the right tmem_subslice #4",
            "columns to the right tmem_subslice #5",
            "columns to the right tmem_subslice #6",
            "columns to the left tmem_subslice #1",
            "columns to the left tmem_subslice #3",
        ),
    },
}
"""By program and reason: the mutants that no run shows to be wrong, but for values, which are not modelled."""


@functools.cache
def text_of(program: str) -> str:
    return print_module(PROGRAMS[program]())


def is_right(program: str, mutant: Mutant) -> bool:
    """Whether a mutant must be proved. A second wait or fence, and a step over a pure operation, change nothing."""
    if mutant.kind == "nudge" or (mutant.kind == "double" and mutant.site.target in (WAIT, FENCE, STORE_WAIT)):
        return True
    name = f"{mutant.kind} {mutant.target} #{mutant.site.number}"
    return any(name in names for names in STILL_RIGHT[program].values())


def wrong_verdict(program: str, site: Site) -> str:
    """The objection to the verdict on one mutant; empty if there is none."""
    mutant = break_at(text_of(program), site)
    if mutant is None:
        return ""
    verdict = check_barriers(mutant.module)
    wanted = Proved if is_right(program, mutant) else Refuted
    return "" if isinstance(verdict, wanted) else f"{mutant}: {verdict}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_without_a_mutation_is_proved(program: str) -> None:
    for slots in (2, 3):
        verdict = check_barriers(PROGRAMS[program](slots))
        assert isinstance(verdict, Proved), verdict
        assert (MMAS_IN_ORDER in verdict.assumptions) == (program != "gemm")


@simulated_once
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_mutant_is_refuted_unless_it_is_right(program: str) -> None:
    places = sites(text_of(program), KINDS)
    found = [wrong_verdict(program, site) for site in sample(places, 13)]
    assert [text for text in found if text] == []


@simulated_once
@pytest.mark.parametrize(("level", "step"), [("aref", 60), ("barrier", 90)])
def test_a_mutant_of_attention_with_a_correction_is_refuted_or_equivalent(level: Level, step: int) -> None:
    """``python -m bench.mutations --arch sm_100`` judges all of them."""
    oracle = Oracle(correction(level))
    made = [mutant for site in sample(all_sites(oracle.subject), step) if (mutant := mutant_of(oracle.subject, site))]
    found = [judge(mutant, oracle) for mutant in made]
    assert [it for it in found if it.fate not in ("refuted", "equivalent")] == []
    assert {"refuted", "equivalent"} <= {it.fate for it in found}


@simulated_once
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_reason_names_mutants_that_exist(program: str) -> None:
    made = {f"{it.kind.name} {it.target.partition('.')[2]} #{it.number}" for it in sites(text_of(program), KINDS)}
    assert not {name for names in STILL_RIGHT[program].values() for name in names} - made
