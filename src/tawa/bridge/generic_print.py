"""Printing a module in MLIR's generic form with locations, and parsing such text back.

Triton has no flag for the generic form. MLIR's printer falls back to it when the top operation does not verify, so
`print_generic` makes the attribute ``ttg.num-warps`` a string while it prints, and puts the number back.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

_NUM_WARPS = "ttg.num-warps"


def print_generic(mod: Any) -> str:
    """Prints a TTGIR module in generic form with locations; the module is unchanged afterwards.

    The number of warps in the text is right (the printer saw a string, the text gets the number).
    Raises RuntimeError when the installed Triton does not fall back to the generic form.
    """
    from triton._C.libtriton import ir

    num_warps = mod.get_int_attr(_NUM_WARPS)
    if num_warps is None:
        raise RuntimeError(f"the module has no {_NUM_WARPS}: it is not TTGIR")
    builder = ir.builder(mod.context)
    mod.set_attr(_NUM_WARPS, builder.get_string_attr("tawa"))
    try:
        text = mod.str()
    finally:
        mod.set_attr(_NUM_WARPS, builder.get_int32_attr(num_warps))
    if '"tt.func"' not in text:
        raise RuntimeError("the installed Triton printed no generic form")
    return text.replace(f'"{_NUM_WARPS}" = "tawa"', f'"{_NUM_WARPS}" = {num_warps} : i32')


def parse_module(text: str, context: Any) -> Any:
    """Parses a module (generic or custom form) into `context`; raises RuntimeError on text that Triton refuses.

    Triton prints the diagnostics of a refused text on stderr.
    """
    from triton._C.libtriton import ir

    handle, path = tempfile.mkstemp(suffix=".mlir", prefix="tawa-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        mod = ir.parse_mlir_module(path, context)
    finally:
        os.unlink(path)
    mod.context = context  # Python owns the context; without this it may die before the module does
    return mod
