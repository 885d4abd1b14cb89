"""Printing a module in MLIR's generic form with locations, and parsing such text back.

Triton has no flag for the generic form. MLIR's printer falls back to it if the top operation does not verify. Layouts
are verified against the attribute ``ttg.num-warps``, so `print_generic` makes it a string while it prints, and then
restores the number. TTIR has no such attribute, and a program of scalars has no layout: for these `print_generic_ttir`
adds an attribute with an invalid name to a copy, since no binding can remove it again.
"""

from __future__ import annotations

import re
from typing import Any

from tawa.bridge.triton.surroundings import temporary_text
from tawa.ir import Module
from tawa.ir import parse_module as read_module

_NUM_WARPS = "ttg.num-warps"
_NO_DIALECT = "tawa"
_TEMPORARY = re.compile(r'loc\("[^"]*/tawa-\w+\.mlir":\d+:\d+\)')


def print_generic(mod: Any) -> str:
    """Prints a TTGIR module in generic form with locations; the module is unchanged afterwards.

    The text has the right number of warps: the string is replaced in it.
    Raises RuntimeError if the installed Triton does not fall back to the generic form.
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
    if not _is_generic(text):  # a program of scalars has no layouts, so it verified
        return print_generic_ttir(parse_module(mod.str(), mod.context))
    return without_temporary_places(text.replace(f'"{_NUM_WARPS}" = "tawa"', f'"{_NUM_WARPS}" = {num_warps} : i32'))


def print_generic_ttir(mod: Any) -> str:
    """Prints a TTIR module in generic form with locations. The module is unusable afterwards; parse the text again.

    The name of a module attribute needs a dialect prefix. One without it does not verify, and no binding removes it.
    Raises RuntimeError if the installed Triton does not fall back to the generic form.
    """
    from triton._C.libtriton import ir

    mod.set_attr(_NO_DIALECT, ir.builder(mod.context).get_string_attr("spoilt"))
    text = mod.str()
    _check_generic(text)
    text, count = re.subn(rf', {_NO_DIALECT} = "spoilt"|{_NO_DIALECT} = "spoilt",? ?', "", text)
    if count != 1:
        raise RuntimeError("the installed Triton printed the attributes of a module in a way not known")
    return without_temporary_places(text)


def without_temporary_places(text: str) -> str:
    """The text of a module without locations in the temporary files that `parse_module` reads.

    MLIR makes them up for text without locations. Without them the same kernel gives the same text every time.
    """
    return _TEMPORARY.sub("loc(unknown)", text) if "/tawa-" in text else text


def _is_generic(text: str) -> bool:
    return '"tt.func"' in text


def _check_generic(text: str) -> None:
    if not _is_generic(text):
        raise RuntimeError("the installed Triton printed no generic form")


def parse_module(text: str, context: Any) -> Any:
    """Parses a module (generic or custom form) into `context`; raises RuntimeError if Triton refuses the text.

    Triton then prints diagnostics to stderr.
    """
    from triton._C.libtriton import ir

    with temporary_text(text, ".mlir") as path:
        mod = ir.parse_mlir_module(path, context)
    mod.context = context  # keeps the context alive as long as the module
    return mod


def read_ttir(text: str, context: Any) -> Module:
    """The TTIR of a kernel, in any form that Triton prints, as a module of ours. Raises as the two steps do."""
    return read_module(print_generic_ttir(parse_module(text, context)))
