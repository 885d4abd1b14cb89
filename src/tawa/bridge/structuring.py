"""TTIR that jumps, as early returns do, gets `if`s before anything looks at it (`tawa.transforms.structure_flow`)."""

from __future__ import annotations

import re
from typing import Any

from tawa.bridge.generic_print import read_ttir
from tawa.ir import print_module
from tawa.transforms.structure_flow import StructureFlow

_JUMP = re.compile(r"\bcf\.(?:cond_)?br\b")


def structure_flow(ttir: str, context: Any) -> str:
    """The kernel without jumps, in generic form; the text as it was where there are none, or where they stay.

    ttir: the kernel as Triton's text, in any form.
    """
    if not _JUMP.search(ttir):
        return ttir
    module = read_ttir(ttir, context)
    return print_module(module) if StructureFlow().run(module).changed else ttir
