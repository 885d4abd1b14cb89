"""Runs a compiled case in the simulator, without a GPU: compares its bits and records timelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tawa.ir import Module
    from tawa.runtime.case import Case
    from tawa.sim.time.timeline import Timeline

ORDERS = ("eager", "late", "random")
_STEPS = 5  # k-steps of the small problem: more than any ring is deep
_TIMED_STEPS = 8


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A small problem: M, N, K, or queries, keys and head dimension of attention.

    equal: by order, whether the outputs have the bits of the unspecialised kernel.
    """

    problem: tuple[int, int, int]
    equal: dict[str, bool]
    seconds: float


def rehearse(case: Case, compiled: Any) -> Rehearsal:
    """Runs the barrier level of a specialised case in every order, and the unspecialised program once."""
    import time

    from tawa.bridge.triton.read_module import read_levels, read_unspecialised
    from tawa.runtime.simulation import make_arrays, simulate_case

    case = _small(case, _STEPS)
    start = time.perf_counter()
    before = read_unspecialised(compiled, num_warps=case.num_warps, num_stages=case.num_stages)
    _, barrier = read_levels(compiled)
    wanted = make_arrays(case)
    simulate_case(case, before, wanted)
    equal: dict[str, bool] = {}
    for order in ORDERS:
        arrays = make_arrays(case)
        simulate_case(case, barrier, arrays, order)
        equal[order] = all(arrays[name].tobytes() == wanted[name].tobytes() for name in wanted)
    return Rehearsal(_problem(case), equal, time.perf_counter() - start)


def timelines(case: Case, compiled: Any, stock: Any) -> Sequence[tuple[str, Timeline]]:
    """One CTA of stock Triton's kernel and of the specialised one, on the simulator's clock."""
    from tawa.bridge.triton.read_module import read_final, read_levels

    case = _small(case, _TIMED_STEPS)
    modules = {"stock Triton": read_final(stock), "Tawa": read_levels(compiled)[1]}
    return [(title, _timeline(case, module)) for title, module in modules.items()]


def _timeline(case: Case, module: Module) -> Timeline:
    from tawa.runtime.simulation import make_arrays, simulate_case

    return simulate_case(case, module, make_arrays(case), timing=True, programs=[(0, 0, 0)]).timeline()


def _small(case: Case, steps: int) -> Case:
    """Two by two tiles of some k-steps; a persistent case has one program for all of them.

    Of attention, in one batch, a tile of queries that sees up to `steps` blocks of keys.
    """
    from tawa.demo.cases import is_attention, with_lengths

    if is_attention(case):
        return with_lengths(case, case.size("BM"), steps * case.size("BN")).with_sizes(B=1)
    sizes = {"M": 2 * case.size("BM"), "N": 2 * case.size("BN"), "K": steps * case.size("BK")}
    return case.with_sizes(**sizes, **({"PROGRAMS": 1} if "PROGRAMS" in case.sizes else {}))


def _problem(case: Case) -> tuple[int, int, int]:
    from tawa.demo.cases import is_attention

    names = ("SQ", "SK", "DIM") if is_attention(case) else ("M", "N", "K")
    first, second, third = (case.size(name) for name in names)
    return first, second, third
