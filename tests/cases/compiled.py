"""Compiles cases with Tawa's launch options, and records their timelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tawa.bridge.triton.read_module import read_final, read_levels
from tawa.bridge.triton.signature import Signature
from tawa.runtime.explain.explaining import compile_with_options
from tawa.sim import Timeline
from tests.cases.arrays import make_arrays, simulate_case
from tests.cases.case import Case

_TIMED_STEPS = 8


def compile_case(case: Case, **options: Any) -> Any:
    """Compiles a case with Tawa's launch options."""
    position = {name: index for index, name in enumerate(case.kernel.arg_names)}
    constants = {(position[name],): value for name, value in case.constants().items()}
    signature = Signature(case.signature(), constants, case.attributes())
    return compile_with_options(case.kernel, signature, {}, **case.options(), **options)


def timelines(case: Case, compiled: Any, stock: Any) -> Sequence[tuple[str, Timeline]]:
    """One CTA of stock Triton's product and of the specialised one, on the simulator's clock, for two by two tiles."""
    sizes = {"M": 2 * case.size("BM"), "N": 2 * case.size("BN"), "K": _TIMED_STEPS * case.size("BK")}
    case = case.with_sizes(**sizes, **({"PROGRAMS": 1} if "PROGRAMS" in case.sizes else {}))
    return [
        (title, simulate_case(case, module, make_arrays(case), timing=True, programs=[(0, 0, 0)]).timeline())
        for title, module in (("stock Triton", read_final(stock)), ("Tawa", read_levels(compiled)[1]))
    ]
