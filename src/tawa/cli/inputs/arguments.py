"""Parses the arguments of a simulated launch from the command line, and makes arrays from them.

| text | meaning |
|---|---|
| ``a=randn:256x512:f16`` | a tensor: its contents, shape and element type |
| ``a=randn:256x512:f16:box=128x64`` | a host descriptor over such a tensor, with boxes of 128x64 |
| ``a=randint(0,10):64:i32`` | integers from 0 to 9 |
| ``a=weights.npy``, ``a=weights.npy:bf16`` | from a file, which holds bf16 and fp8 as floats or as bits |
| ``K=512``, ``alpha=0.5``, ``bias=None`` | a number; None for an absent tensor |
"""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tawa.bridge.triton.type_names import SYNONYMS, plain_name
from tawa.cli.failures import UsageError
from tawa.errors import did_you_mean
from tawa.ir.types import MLIR_FLOATS, TRITON_NAMES
from tawa.machine.nvidia import TMA_CHUNK_BYTES

EXAMPLE = "--arg a=randn:256x512:f16, --arg K=512"

_MLIR = {
    "bf16": "bf16",
    **MLIR_FLOATS,
    **{f"{kind}{bits}": f"{sign}{bits}" for kind, sign in (("i", "i"), ("u", "ui")) for bits in (8, 16, 32, 64)},
}
_ELEMENTS = {spelling: element for name, element in _MLIR.items() for spelling in (name, *SYNONYMS[name])}
"""MLIR's names of element types, by the names that people use, each as `plain_name` returns it."""
_BITS = {"f8E4M3FN": 8, "f8E5M2": 8}
_WHOLE = {"f16": 2048, "bf16": 256, "f32": 1 << 24, "f64": 1 << 53, "f8E4M3FN": 16, "f8E5M2": 8}
"""Up to this value every integer is exact in the type."""

_FILLED = {
    "f16": 0x7E5A, "bf16": 0x7FDA, "f32": 0x7FC0_5A5A, "f64": 0x7FF8_5A5A << 32, "f8E4M3FN": 0xFF, "f8E5M2": 0x7D,
}  # fmt: skip
"""The NaN that a tensor is filled with: not one that arithmetic makes of numbers, so that what is written differs."""
_MOST_INDEX = 1 << 62
_RANDINT = re.compile(r"randint\(\s*(-?\d+)\s*,\s*(-?\d+)\s*\)")
_SHAPE = re.compile(r"\d+(?:x\d+)*")
_KINDS = ("randn", "rand", "zeros", "ones", "arange", "nan")
_ALL_KINDS = (*_KINDS, "randint(lo,hi)", "FILE.npy")
_MOST_BOX_BYTES = 227 * 1024


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor: the kind of its contents (or a file), and its element type by MLIR's name, ``ui8`` if it has no sign.

    shape: None for that of the file; an empty element likewise. box: of a host descriptor over the tensor.
    """

    text: str
    name: str
    kind: str
    shape: tuple[int, ...] | None
    element: str
    box: tuple[int, ...] | None = None

    @property
    def triton_type(self) -> str:
        """Its type in Triton's notation. Tensors of a launch are aligned to 16 bytes."""
        element = TRITON_NAMES.get(self.element, self.element)
        return f"*{element}:16" if self.box is None else f"tensordesc<{element}[{','.join(map(str, self.box))}]>"


@dataclass(frozen=True, slots=True)
class NumberArgument:
    """A number, a boolean, or None for an absent tensor."""

    text: str
    name: str
    value: int | float | bool | None

    @property
    def triton_type(self) -> str:
        """Its type in Triton's notation, specialised as in a launch: the constant 1, and divisibility by 16."""
        match self.value:
            case None:
                return "None"
            case bool():
                return "i1"
            case float():
                return "fp32"
            case 1:
                return "i32:1"
            case value:
                kind = "i32" if -(1 << 31) <= value < 1 << 31 else "i64" if value < 1 << 63 else "u64"
                return f"{kind}:16" if value % 16 == 0 else kind


Argument = TensorArgument | NumberArgument


def parse_arguments(texts: Sequence[str]) -> dict[str, Argument]:
    """Reads all --arg by name; raises UsageError."""
    found: dict[str, Argument] = {}
    for text in texts:
        argument = parse_argument(text)
        if argument.name in found:
            raise UsageError(f"--arg {argument.name} is given twice: {found[argument.name].text} and {text}")
        found[argument.name] = argument
    return found


def parse_argument(text: str) -> Argument:
    """Reads one ``NAME=VALUE``; raises UsageError."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name.isidentifier() or not value:
        meant = re.fullmatch(r"([^\W\d]\w*)\s*:\s*(.+)", text.strip())
        cure = f"--arg {meant[1]}={meant[2]}" if meant and not equals else f"for example {EXAMPLE}"
        raise UsageError(f"--arg {text!r}: NAME=VALUE is needed", cure)
    kind, *rest = value.split(":")
    kind = kind.strip()
    number = _number(value)
    if number is not NotImplemented:
        return NumberArgument(text, name, number)
    if kind.endswith(".npy"):
        return _from_file(text, name, kind, rest)
    if kind not in _KINDS and not _RANDINT.fullmatch(kind):
        hint = did_you_mean(kind, _ALL_KINDS, show=str)
        raise UsageError(
            f"--arg {text}: {kind!r} is neither a number nor a way to fill a tensor",
            f"{hint} there are {', '.join(_ALL_KINDS)}, and numbers as in {name}=512".lstrip(),
        )
    box, rest = _box(text, rest)
    if len(rest) != 2:
        raise UsageError(f"--arg {text}: shape and element type are needed", f"{name}={kind}:256x512:f16")
    shape, element = _shape(text, rest[0]), _element(text, rest[1])
    _check_kind(text, kind, element)
    _check_box(text, shape, element, box)
    return TensorArgument(text, name, kind, shape, element, box)


def make_array(argument: TensorArgument, seed: int) -> Any:
    """The tensor in the simulator's format (`tawa.sim.simulate`); the same for equal seed, name and text."""
    import numpy as np

    from tawa.sim import from_floats

    if argument.kind.endswith(".npy"):
        return _load(argument)
    shape, element = argument.shape or (), argument.element
    # Seeded by name, so that a further argument does not change the others.
    lot = np.random.default_rng([seed, zlib.crc32(argument.name.encode())])
    makers: Mapping[str, Callable[[], Any]] = {
        "randn": lambda: lot.standard_normal(shape),
        "rand": lambda: lot.random(shape),
        "zeros": lambda: np.zeros(shape),
        "ones": lambda: np.ones(shape),
        "nan": lambda: np.full(shape, np.nan),
        "arange": lambda: (np.arange(np.prod(shape)) % min(_whole(element), _MOST_INDEX)).reshape(shape),
    }
    found = _RANDINT.fullmatch(argument.kind)
    kind = _integer(element) if is_integer(element) else "int64"
    values = lot.integers(int(found[1]), int(found[2]), shape, kind) if found else makers[argument.kind]()
    if argument.kind == "nan":
        made = from_floats(values, element)
        made.view(f"u{made.itemsize}")[...] = _FILLED[element]
        return made
    return values.astype(kind) if is_integer(element) else from_floats(values, element)


def bits_of(element: str) -> int:
    """Bits of an element."""
    return _BITS.get(element) or int(re.sub(r"\D", "", element))


def is_integer(element: str) -> bool:
    """Whether an element is a whole number."""
    return element.startswith(("i", "ui"))


def _integer(element: str) -> str:
    """NumPy's name of a type of whole numbers: uint8 for ui8."""
    return element.replace("i", "int")


# --- pieces -----------------------------------------------------------------------------------------------------------


def _number(text: str) -> Any:
    """The number, boolean or None that a text denotes; NotImplemented for any other text."""
    named: dict[str, bool | None] = {"true": True, "false": False, "none": None}
    if text.lower() in named:
        return named[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        try:
            return float(text)  # inf; nan is a kind of contents
        except ValueError:
            return NotImplemented
    return value if isinstance(value, int | float) else NotImplemented


def _box(text: str, rest: list[str]) -> tuple[tuple[int, ...] | None, list[str]]:
    boxes = [part for part in rest if part.strip().startswith("box")]
    others = [part for part in rest if part not in boxes]
    if not boxes:
        return None, others
    _, equals, sizes = boxes[0].partition("=")
    if len(boxes) > 1 or not equals or not _SHAPE.fullmatch(sizes.strip()):
        raise UsageError(f"--arg {text}: {boxes[-1]!r} is no box", "box=128x64")
    return tuple(map(int, sizes.strip().split("x"))), others


def _shape(text: str, part: str) -> tuple[int, ...]:
    if not _SHAPE.fullmatch(part.strip()) or 0 in (sizes := tuple(map(int, part.strip().split("x")))):
        raise UsageError(f"--arg {text}: {part!r} is no shape", "sizes from 1 on with x between them: 256x512")
    return sizes


def _element(text: str, part: str) -> str:
    element = _ELEMENTS.get(plain_name(part.strip()))
    if element is None:
        types = ("f16", "bf16", "f32", "f64", "fp8e4nv", "fp8e5", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
        hint = did_you_mean(plain_name(part.strip()), types, show=str)
        there = f"{hint} there are {', '.join(types)}".lstrip()
        raise UsageError(f"--arg {text}: {part!r} is no element type", there)
    return element


def _whole(element: str) -> int:
    return _WHOLE.get(element) or 1 << (bits_of(element) - (not element.startswith("u")))


def _check_kind(text: str, kind: str, element: str) -> None:
    found = _RANDINT.fullmatch(kind)
    if is_integer(element) and kind in ("randn", "rand", "nan"):
        named = TRITON_NAMES.get(element, element)
        raise UsageError(f"--arg {text}: {kind} makes floats, {named} is a whole number", "randint(0,10), or zeros")
    if found is None:
        return
    low, high = int(found[1]), int(found[2])
    least, most = (low, high) if not is_integer(element) else (-_whole(element), _whole(element))
    least = 0 if element.startswith("u") else least
    if not low < high or low < least or high > most:
        named = TRITON_NAMES.get(element, element)
        raise UsageError(f"--arg {text}: no {named} lies from {low} to {high - 1}", "randint(0,10): 0 to 9")


def _check_box(text: str, shape: tuple[int, ...] | None, element: str, box: tuple[int, ...] | None) -> None:
    if box is None:
        return
    if shape is not None and len(box) != len(shape):
        raise UsageError(
            f"--arg {text}: the tensor has {len(shape)} dimensions, the box {len(box)}",
            f"a size of the box for each: box={'x'.join(['64'] * len(shape))}",
        )
    if any(size < 1 or size & (size - 1) for size in box):
        raise UsageError(f"--arg {text}: Triton takes powers of two as sizes of a box", "box=128x64")
    size_bytes = bits_of(element) // 8
    for size in box:
        size_bytes *= size
    if size_bytes > _MOST_BOX_BYTES:
        raise UsageError(
            f"--arg {text}: the box is too large: {size_bytes} bytes, and shared memory has {_MOST_BOX_BYTES}",
            "the tile that one load of the kernel takes: box=128x64",
        )
    check_rows(text, shape, element, box)


def check_rows(text: str, shape: tuple[int, ...] | None, element: str, box: tuple[int, ...]) -> None:
    """Raises UsageError if TMA cannot access a tensor: rows of tensor and box must be multiples of 16 bytes."""
    for what, sizes in (("tensor", shape or box), ("box", box)):
        row_bytes = sizes[-1] * bits_of(element) // 8
        if row_bytes % TMA_CHUNK_BYTES:
            needed = TMA_CHUNK_BYTES * 8 // bits_of(element)
            raise UsageError(
                f"--arg {text}: a row of the {what} has {row_bytes} bytes, TMA needs a multiple of 16",
                f"a last size that is a multiple of {needed}",
            )


# --- files ------------------------------------------------------------------------------------------------------------


def _from_file(text: str, name: str, file: str, rest: list[str]) -> TensorArgument:
    """Opens the file already here: its shape and type determine the signature."""
    import numpy as np

    path = Path(file).expanduser()
    if not path.is_file():
        raise UsageError(f"--arg {text}: no file {file!r} (looked in {Path.cwd()})")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise UsageError(f"--arg {text}: {file} is no array: {error}", "save it with numpy.save") from error
    box, rest = _box(text, rest)
    shapes = [_shape(text, part) for part in rest if _SHAPE.fullmatch(part.strip())]
    elements = [_element(text, part) for part in rest if not _SHAPE.fullmatch(part.strip())]
    if shapes and shapes[0] != array.shape:
        raise UsageError(f"--arg {text}: {file} has the shape {_sizes(array.shape)}, not {_sizes(shapes[0])}")
    element = elements[0] if elements else _ELEMENTS.get(plain_name(array.dtype.name))
    if element is None:
        raise UsageError(f"--arg {text}: {file} holds {array.dtype.name}", "name a type it is rounded to: FILE.npy:f16")
    if is_integer(element) and array.dtype.kind == "f":
        raise UsageError(f"--arg {text}: {file} holds {array.dtype.name}, not {element}", f"{name}={file}:f32")
    _check_box(text, array.shape, element, box)
    return TensorArgument(text, name, str(path), array.shape, element, box)


def _load(argument: TensorArgument) -> Any:
    import numpy as np

    from tawa.sim import from_floats
    from tawa.sim.numbers import memory_dtype

    array = np.ascontiguousarray(np.load(argument.kind, allow_pickle=False))
    if is_integer(argument.element):
        return array.astype(_integer(argument.element))
    bits = np.dtype(memory_dtype(argument.element))
    if array.dtype.kind == "u" and array.dtype == bits:
        return array.copy()  # NumPy has no types for bf16 and fp8
    return from_floats(array, argument.element)


def _sizes(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
