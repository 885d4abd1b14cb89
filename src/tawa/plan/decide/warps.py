"""The number of warps that compute.

A wgmma is issued by four warps together. A launch with one or two warps gets a consumer of four; its producer is
additional, as always. Such a kernel differs from stock Triton's: each warp has other elements of a tile, and dots use
wgmma instead of mma.

A Plan may ask for other warps in a kernel without partitions, where each sum keeps its order and its rounding: the
layouts of stock Triton's kernel and of this one tell (`tawa.analysis.sums.other_sum`).
"""

from __future__ import annotations

from tawa.analysis.sums import (
    beyond_threads,
    exchanged_memory,
    fits_wgmma,
    fp8_dot,
    ordered_sum,
    other_sum,
    reordered_elements,
    thread_numbers,
)
from tawa.declines import NARROW_TILE, OTHER_BITS, THREAD_NUMBER
from tawa.dialects.tt import DOTS
from tawa.errors import PlanError
from tawa.ir import Module, Operation, source_of
from tawa.machine.machines import WGMMA
from tawa.machine.nvidia import WARP_GROUP
from tawa.plan.options import PlanOptions
from tawa.remarks import Remark
from tawa.symbolic.words import word_of

_MOST_WARPS = 32
_FP8 = "wgmma adds products of fp8 numbers with fewer bits than the instructions of fewer warps"


def consumer_warps(num_warps: int) -> int:
    """Warps of the consumers of a launch: at least one warp group."""
    return max(num_warps, WARP_GROUP)


def why_not_wider(module: Module, num_warps: int, options: PlanOptions, pinned: bool) -> Remark | None:
    """Why the consumer may not have more warps than the launch; None if it may, or if the launch has enough.

    module: the kernel as TTIR. Results that depend on the number of warps within rounding are declined unless the user
    asks for specialisation. `mode="measure"` asks for the faster kernel, not for other results.
    """
    if num_warps >= WARP_GROUP:
        return None
    op = thread_numbers(module)
    if op is not None:
        return THREAD_NUMBER.remark(source_of(module, op), num_warps=num_warps)
    if pinned or (options.wherever_legal and options.mode != "measure"):
        return None
    if not fits_wgmma(module):
        return NARROW_TILE.remark(num_warps=num_warps, rows=WGMMA.rows)
    found = _other_results(module)
    return OTHER_BITS.remark(source_of(module, found[0]), num_warps=num_warps, why=found[1]) if found else None


def check_other_warps(module: Module, num_warps: int, wanted: int) -> None:
    """Raises PlanError if the results depend on the number of warps, as far as the TTIR of a kernel tells.

    num_warps: of the launch. wanted: by the Plan.
    """
    if wanted & (wanted - 1) or wanted > _MOST_WARPS:
        raise PlanError(f"num_warps={wanted}; cure: a power of two up to {_MOST_WARPS}")
    crosses = min(num_warps, wanted) < WARP_GROUP <= max(num_warps, wanted)
    if op := beyond_threads(module):
        why = "inline assembly may depend on more than one thread"
    elif op := reordered_elements(module):
        why = "the order of its elements is that of a layout"
    elif op := exchanged_memory(module):
        why = "threads may need what others access in memory"
    elif crosses and (op := fp8_dot(module)):
        why = _FP8
    elif crosses and fits_wgmma(module):
        op, why = next(it for it in module.walk() if it.name in DOTS), "wgmma and mma add products in other ways"
    else:
        return
    raise _other_warps(module, op, num_warps, wanted, why)


def check_sums(stock: Module | None, form: Module, num_warps: int, wanted: int) -> None:
    """Raises PlanError if a sum may give other bits, as far as the final TTGIR of both kernels tells.

    stock: that of stock Triton's kernel; None if Triton cannot compile it.
    """
    op = other_sum(stock, form)
    if op is not None:
        raise _other_warps(form, op, num_warps, wanted, "a sum may round otherwise, or in another order")


def _other_warps(module: Module, op: Operation, num_warps: int, wanted: int, why: str) -> PlanError:
    place = source_of(module, op)
    at = f" ({place})" if place else ""
    return PlanError(f"num_warps={wanted} in a launch with num_warps={num_warps}: {why}{at}; cure: leave num_warps out")


def widened(module: Module, num_warps: int) -> Remark | None:
    """A note if the consumer has more warps than the launch."""
    if num_warps >= WARP_GROUP:
        return None
    found = _other_results(module)
    reason = f"the consumer has {WARP_GROUP} warps, as wgmma requires, although the launch has num_warps={num_warps}"
    if found is None:
        return Remark("note", reason)
    return Remark("note", f"{reason}: {found[1]}", source_of(module, found[0]))


def _other_results(module: Module) -> tuple[Operation, str] | None:
    """The first operation whose result changes with the number of warps, and how."""
    if op := ordered_sum(module):
        return op, f"{WARP_GROUP} warps add the elements of {word_of(op)} in another order"
    if op := fp8_dot(module):
        return op, _FP8
    return None
