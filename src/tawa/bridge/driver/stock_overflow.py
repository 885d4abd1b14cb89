"""Refuses a stock kernel that needs too much shared memory to be launched, before Triton's back end compiles it.

Triton reports that only at the launch, after a compile that may take a minute. The amount is decided between TTGIR and
LLVM, by passes that take milliseconds. They run here on a copy, for kernels with large tiles, where
`tawa.bridge.launch.first.compiles.overflow_refused` says so. A caller that only wants the text of such a kernel still
gets it, and Inductor, which reports what fails to compile as an error, meets Triton's own refusal when it loads the
kernel.
"""

from __future__ import annotations

from typing import Any

from tawa.bridge.launch.first.compiles import is_overflow_refused, launch_is_ours
from tawa.bridge.report import record
from tawa.bridge.triton.generic_print import parse_module
from tawa.dialects.ttg import LocalAllocOp
from tawa.ir import MemDescType, TensorType, parse_type
from tawa.plan.cost.shared_use import LIMIT_BYTES


def refuse_overflow(module: Any, capability: int, cache_hash: str) -> None:
    """Raises SharedMemoryError for stock TTGIR that is to be launched and needs more shared memory than a CTA has.

    cache_hash: of the kernel's entry in Triton's cache, which keeps the error of a launch.
    """
    if not is_overflow_refused() or not _may_overflow(module):
        return
    text = str(module)
    needed = _allocated(text, module.context, capability)
    if needed is None or needed <= LIMIT_BYTES:
        return
    from tawa.bridge.triton.artifacts.shared_memory_error import SharedMemoryError, keep_error

    kernel = module.get_entry_func_name()
    place = record.kernel_location(text)
    at = f"\n  at {place}" if place else ""
    needs = f"needs {needed} bytes of shared memory, and one CTA has {LIMIT_BYTES} (227 KiB)"
    error = SharedMemoryError(
        needed,
        LIMIT_BYTES,
        f"{kernel}: stock Triton's kernel {needs}: it can be compiled, not launched{at}\n"
        "  cure: smaller blocks, or fewer num_stages",
    )
    if launch_is_ours() and cache_hash:
        keep_error(cache_hash, error)
    raise error


def _may_overflow(module: Any) -> bool:
    """Whether one tile, or the sum of all buffers, exceeds the shared memory of a CTA."""
    tiles: dict[str, None] = {}
    buffers: list[str] = []

    def see(op: Any) -> None:
        types = [str(op.get_result(index).get_type()) for index in range(op.get_num_results())]
        tiles.update(dict.fromkeys(types))
        if op.get_name() == LocalAllocOp.NAME:
            buffers.extend(types)

    module.walk(see)
    return max(map(_bytes, tiles), default=0) > LIMIT_BYTES or sum(map(_bytes, buffers)) > LIMIT_BYTES


def _bytes(type: str) -> int:
    tile = parse_type(type)
    return tile.bytes if isinstance(tile, TensorType | MemDescType) else 0


def _allocated(text: str, context: Any, capability: int) -> int | None:
    """Shared memory as Triton's own passes allocate it; None if the installed Triton has different passes."""
    from triton._C.libtriton import ir, nvidia, passes

    module = parse_module(text, context)
    pm = ir.pass_manager(module.context)
    try:
        passes.ttgpuir.add_combine_tensor_select_and_if(pm)
        _either(passes.ttgpuir.add_allocate_warp_groups, pm)
        passes.convert.add_scf_to_cf(pm)
        passes.gluon.add_inliner(pm)
        nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(pm, capability, _PTX_VERSION)
        pm.run(module, "tawa_allocate")
    except (AttributeError, TypeError, RuntimeError):
        return None
    return module.get_int_attr("ttg.shared")


_PTX_VERSION = 80  # any version that has Hopper: the allocation does not depend on it


def _either(add: Any, pm: Any) -> None:
    """Triton takes one more argument from 3.8 on, whether the concurrency sanitizer runs."""
    try:
        add(pm)
    except TypeError:
        add(pm, False)
