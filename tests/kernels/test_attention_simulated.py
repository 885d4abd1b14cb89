"""Attention kernels on NumPy data: right against float64, and specialised ones with the bits of what they were.

Tolerance: twice the error of the NumPy reference rounded where the kernels round, as `tawa.kernels.check` allows twice
that of PyTorch; at least `ROUNDING` of the largest value, for float32 sums where the reference has float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.bridge.read_module import read_levels, read_unspecialised
from tawa.ir import Module
from tawa.kernels.attention.builders import resized
from tawa.kernels.attention.cases import find
from tawa.kernels.attention.numpy_reference import numpy_reference
from tawa.kernels.case import Case
from tawa.runtime.simulation import floats_of, make_arrays, round_floats, simulate_case
from tests.matrix.compiling import compile_case, pinned

FACTOR, ROUNDING = 2.0, 1e-6

SMALL = [
    ("two_loops_fp16_d64_causal", 256, 256),
    ("two_loops_causal_333x200", 150, 100),
    ("two_loops_full_200x333", 130, 200),
    ("two_loops_fp8e4nv_d64_full", 128, 256),
    ("branch_fp16_d64_causal", 256, 256),
    ("one_loop_alibi_causal", 128, 256),
    ("two_loops_softcap_full", 128, 130),
    ("persistent_200x333", 200, 250),
    ("tutorial_fp16_d64_causal", 256, 256),
    ("dq_fp16_d64_causal", 130, 200),
    ("dkdv_fp16_d64_full", 130, 200),
]
AS_LISTED = ["varlen_fp16_d64_causal"]
SAME_BITS = [("two_loops_causal_333x200", 150, 300), ("branch_fp16_d64_causal", 128, 384)]


def small(name: str, queries: int, keys: int) -> Case:
    return resized(find(name), queries, keys).with_sizes(B=1)


def compiled(case: Case) -> Any:
    return compile_case(case, pinned(2, 0))


def unspecialised(case: Case, made: Any) -> Module:
    return read_unspecialised(made, num_warps=case.num_warps, num_stages=case.num_stages)


def check(case: Case) -> None:
    arrays = make_arrays(case)
    simulate_case(case, unspecialised(case, compiled(case)), arrays)
    floats = floats_of(case, arrays)
    exact, rounded = numpy_reference(case, floats), numpy_reference(case, floats, round_floats)
    for name, wanted in exact.items():
        got, finite = floats[name], np.isfinite(wanted)
        assert np.array_equal(got[~finite], wanted[~finite])
        assert np.isfinite(got[finite]).all()
        least = ROUNDING * np.abs(wanted[finite]).max(initial=0.0)
        error, peer = (np.abs(it[finite] - wanted[finite]) for it in (got, rounded[name]))
        assert error.max(initial=0.0) <= max(FACTOR * peer.max(initial=0.0), least)
        assert np.sqrt((error**2).mean()) <= max(FACTOR * np.sqrt((peer**2).mean()), least)


@pytest.mark.parametrize(("name", "queries", "keys"), SMALL)
def test_kernel_is_right_on_a_small_problem(name: str, queries: int, keys: int) -> None:
    check(small(name, queries, keys))


@pytest.mark.parametrize("name", AS_LISTED)
def test_kernel_is_right_on_the_problem_it_is_listed_with(name: str) -> None:
    check(find(name))


@pytest.mark.parametrize(("name", "queries", "keys"), SAME_BITS)
def test_specialised_kernel_has_the_bits_of_the_unspecialised_one(name: str, queries: int, keys: int) -> None:
    case = small(name, queries, keys)
    made, wanted = compiled(case), make_arrays(case)
    simulate_case(case, unspecialised(case, made), wanted)
    for order in ("eager", "late", "random"):
        arrays = make_arrays(case)
        simulate_case(case, read_levels(made)[1], arrays, order)
        assert all(arrays[key].tobytes() == wanted[key].tobytes() for key in wanted), order
