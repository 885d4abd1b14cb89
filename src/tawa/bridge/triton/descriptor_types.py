"""The types of descriptors in Triton's custom form, respelt for the installed Triton.

    3.6, 3.7          !tt.tensordesc<tensor<128x64xf16, #shared>>
    3.8 and later     !tt.tensordesc<128x64xf16, #shared>

Each reads its own spelling alone. Lines keep their numbers.
"""

from __future__ import annotations

import re

from tawa.ir.text import match_bracket

_OPENING = re.compile(r"!tt\.tensordesc<")
_NESTED = "tensor<"


def respelt(text: str, nested: bool) -> tuple[str, str]:
    """The text with all types of descriptors in one spelling, and the first that had the other one; else empty.

    nested: whether the installed Triton writes a tensor type inside.
    """
    parts: list[str] = []
    first, at = "", 0
    for found in _OPENING.finditer(text):
        try:
            end = match_bracket(text, found.end() - 1)
        except ValueError:  # Triton says what is wrong with such a text
            break
        inside = text[found.end() : end - 1]
        if inside.startswith(_NESTED) == nested:
            continue
        first = first or text[found.start() : end]
        inside = f"{_NESTED}{inside}>" if nested else inside.removeprefix(_NESTED).removesuffix(">")
        parts += [text[at : found.end()], inside]
        at = end - 1
    return "".join([*parts, text[at:]]), first


__all__ = ["respelt"]
