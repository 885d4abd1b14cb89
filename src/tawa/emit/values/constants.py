"""Constants of TTGIR as literals of Python."""

from __future__ import annotations

import numpy as np

from tawa.emit.errors import cannot_say
from tawa.emit.values.expressions import element_of
from tawa.ir import Operation


def literal_of(op: Operation) -> str:
    """The number of a constant, or the one number of a dense one."""
    text = op.properties["value"].strip()
    if text.startswith("dense<"):
        inner = text[len("dense<") :]
        text = f"{inner[: inner.index('>')]} : {op.result.type}"
        if text.startswith(("[", '"')):
            raise cannot_say("a constant of several numbers")
    if text in ("true", "false") or text.split(" ")[0] in ("true", "false"):
        return text.split(" ")[0].capitalize()
    number = text.split(" : ")[0].strip()
    element = element_of(op.result.type)
    if number.startswith("0x") and element.startswith(("f", "bf")):
        return _bits(int(number, 16), element)
    return repr(float(number)) if element.startswith(("f", "bf")) else number


def _bits(number: int, element: str) -> str:
    widths = {"f16": (np.uint16, np.float16), "f32": (np.uint32, np.float32), "f64": (np.uint64, np.float64)}
    if element == "bf16":
        number, element = number << 16, "f32"
    whole, real = widths[element]
    value = float(np.array(number, whole).view(real))
    return repr(value) if np.isfinite(value) else f'float("{value}")'
