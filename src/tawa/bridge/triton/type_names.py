"""The names of argument types in Triton's notation, and suggestions for other names.

`check_type` accepts what Triton's own `str_to_ty` reads: a scalar (``i32``, ``fp16``), a pointer (``*fp16``,
``*kfp16`` to constants), a host descriptor (``tensordesc<fp16[128,64]>``), of which each size is a power of two.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable

from tawa.errors import PlanError

_BITS = (8, 16, 32, 64)
NAMES = (
    *("fp16", "bf16", "fp32", "fp64", "fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16", "fp8e4b15"),
    *("i1", *(f"i{bits}" for bits in _BITS), "u1", *(f"u{bits}" for bits in _BITS)),
)
SYNONYMS = {
    "fp16": ("float16", "f16", "half"),
    "bf16": ("bfloat16", "nvbfloat16"),
    "fp32": ("float32", "f32", "float", "single"),
    "fp64": ("float64", "f64", "double"),
    "fp8e4nv": ("e4m3", "fp8e4m3", "fp8e4m3fn", "float8e4nv", "float8e4m3", "float8e4m3fn", "f8e4m3fn"),
    "fp8e5": ("e5m2", "fp8e5m2", "float8e5", "float8e5m2", "f8e5m2"),
    "fp8e4b8": ("float8e4m3fnuz", "f8e4m3fnuz"),
    "fp8e5b16": ("float8e5m2fnuz", "f8e5m2fnuz"),
    "i1": ("bool", "int1"),
    **{f"i{bits}": (f"int{bits}", f"s{bits}") for bits in _BITS},
    **{f"u{bits}": (f"uint{bits}", f"ui{bits}") for bits in _BITS},
}
"""Other names of Triton's types, from PyTorch, NumPy, MLIR and CUDA, each as `plain_name` returns it."""
_MEANT = {other: name for name, others in SYNONYMS.items() for other in others}
_MEANT |= {"fp8": "fp8e4nv", "fp8e4": "fp8e4nv"}  # ambiguous; these are the likeliest
_MEANT |= {"int": "i32", "long": "i64", "short": "i16", "char": "i8", "uint": "u32", "byte": "u8", "sizet": "i64"}
_POINTERS = ("ptr", "pointer", "tensor", "void", "void*")
_DESCRIPTOR = re.compile(r"tensordesc<(?P<element>[^\[\]<>]*)(?:\[(?P<shape>[^\[\]<>]*)\])?(?:,\s*\w+Layout\(.*\))?>")
"""A layout may follow the box, as in Gluon's descriptors."""
_EXAMPLES = "i32, fp16, *fp16:16, tensordesc<fp16[128,64]>"


def check_type(name: str, kind: str, mark: str = "") -> None:
    """Raises PlanError, with a suggestion, if Triton does not know the type of the argument `name`.

    mark: the suffix of the type, such as ``:16``; for the message.
    """
    said = f"{name}={kind}{mark}"
    if kind.startswith("tensordesc"):
        _check_descriptor(said, name, kind)
        return
    star = "*" if kind.startswith("*") else ""
    element = kind.removeprefix("*")
    if element in NAMES or (star and element.startswith("k") and element[1:] in NAMES):
        return
    if element.lower() in _POINTERS or (star and not element):
        raise PlanError(f"{said}: a pointer type names what it points to; cure: {name}=*fp16{mark}")
    raise PlanError(f"{said}: {_unknown(element, lambda meant: f'{name}={star}{meant}{mark}')}")


def plain_name(text: str) -> str:
    """A type's name in lower case, without its package and underscores: ``torch.float8_e5m2`` is ``float8e5m2``."""
    return text.lower().removeprefix("torch.").removeprefix("tl.").removeprefix("np.").replace("_", "")


def _check_descriptor(said: str, name: str, kind: str) -> None:
    found = _DESCRIPTOR.fullmatch(kind)
    if found is None or found["shape"] is None or not found["element"]:
        element = found["element"] if found and found["element"] else "fp16"
        right = element if element in NAMES else "fp16"
        raise PlanError(
            f"{said}: a descriptor has an element type and the sizes of its box; "
            f"cure: {name}=tensordesc<{right}[128,64]>"
        )
    element, shape = found["element"], found["shape"]
    if element not in NAMES:
        raise PlanError(f"{said}: {_unknown(element, lambda meant: f'{name}=tensordesc<{meant}[{shape}]>')}")
    for size in shape.split(","):
        if not size.isdecimal() or int(size) < 1 or int(size) & (int(size) - 1):
            raise PlanError(
                f"{said}: {size or 'nothing'} is no size of a box: Triton takes powers of two; "
                f"cure: {name}=tensordesc<{element}[128,64]>"
            )


def _unknown(element: str, spelled: Callable[[str], str]) -> str:
    plain = plain_name(element)
    meant = plain if plain in NAMES else _MEANT.get(plain) or _MEANT.get(plain.removesuffix("t"))
    if meant is not None:
        return f"Triton calls this type {meant}; cure: {spelled(meant)}"
    close = difflib.get_close_matches(plain, (*NAMES, *_MEANT), n=1, cutoff=0.7)
    if close:
        meant = _MEANT.get(close[0], close[0])
        return f"Triton knows no such type: did you mean {meant}? There are {', '.join(NAMES)}; cure: {spelled(meant)}"
    text = f"; a text that is a constant stands in quotes: '{element}'" if element.isidentifier() else ""
    return f"neither a Triton type ({_EXAMPLES}) nor a constant{text}; cure: one of {', '.join(NAMES)}"
