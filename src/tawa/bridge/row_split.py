"""Triton's front half for one consumer group's share of a tile.

```
TTIR -Triton, generic form-> IR -SplitRows-> IR -text-> TTIR of one group -Triton's front half, fewer warps-> TTGIR
```

The group's number stays a marker in the result (`tawa.dialects.tt.GroupIndexOp`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tawa.analysis.chained_dots import has_chained_dots
from tawa.bridge.generic_print import parse_module, print_generic, read_ttir
from tawa.bridge.request import Request
from tawa.ir import print_module
from tawa.remarks import Remark
from tawa.transforms.split_rows import SplitRows

if TYPE_CHECKING:
    from tawa.bridge.attempt_data import Toolchain

GROUP_WARPS = 4  # one wgmma is of four warps
_DOT = re.compile(r'\btt\.dot(?= |")')  # in either form of the text


def split_front(
    tools: Toolchain, ttir: str, context: Any, metadata: dict[str, Any], groups: int
) -> tuple[str | None, tuple[Remark, ...]]:
    """Lays out a kernel for one of `groups` consumer groups, up to just before Triton's pipeliner.

    ttir: the kernel as Triton's text, in any form. metadata: that of the compile so far; it is not changed.
    Returns generic TTGIR for the warps of one group and notes, or None and the remark that declines.
    Raises what Triton's front half raises, which is a fault of the split: the whole kernel went through it.
    """
    warps = warps_of_group(tools.options.num_warps, groups)
    if warps is None:
        reason = f"num_warps={tools.options.num_warps} does not make {groups} groups of {GROUP_WARPS} warps"
        cure = f"use num_warps={groups * GROUP_WARPS}"
        return None, (Remark("declined", f"rows are not split: {reason}", None, cure),)
    text, remarks = split_ttir(ttir, context, groups)
    if text is None:
        return None, remarks
    mod = parse_module(text, context)
    tools.split.front(mod, dict(metadata), replace(tools.options, num_warps=warps), tools.capability)
    return print_generic(mod), remarks


def warps_of_group(num_warps: int, groups: int) -> int | None:
    """Warps of one of `groups` consumer groups: its share, or four where the launch asks for four.

    In Meta's branch of Triton, whose option `num_consumer_groups` is, ``num_warps=4`` means each group's. None where no
    whole wgmma's worth of warps comes out.
    """
    if num_warps == GROUP_WARPS:
        return GROUP_WARPS
    warps, left = divmod(num_warps, groups)
    return None if left or warps % GROUP_WARPS else warps


def split_ttir(ttir: str, context: Any, groups: int) -> tuple[str | None, tuple[Remark, ...]]:
    """The TTIR of one group in generic form and notes, or None and the remark that declines."""
    module = read_ttir(ttir, context)
    result = SplitRows(groups).run(module)
    return (print_module(module) if result.changed else None), result.remarks


def wanted_groups(num_warps: int, ttir: str, context: Any, request: Request) -> tuple[int, bool]:
    """How many consumer groups to try first, and whether the user asked for that: with their number or by ping-pong.

    num_warps: of the launch. ttir: the kernel as Triton's text, in any form.
    """
    asked = request.plan.consumer_groups if request.plan is not None else request.options.num_consumer_groups
    if asked is not None:
        return asked, True
    groups = num_warps // GROUP_WARPS
    if request.options.ping_pong:
        return max(2, groups), True  # one group has nobody to take turns with
    if groups < 2 or len(_DOT.findall(ttir)) < 2:
        return 1, False
    module = read_ttir(ttir, context)
    return (groups if has_chained_dots(module) else 1), False
