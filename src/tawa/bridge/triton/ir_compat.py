"""The IR of Triton releases: the pipeline writes that of 3.6, and later releases read another.

3.6   "ttg.warp_specialize"(captures) … "ttg.warp_specialize.partitions"()            TMA copy: cache, evict
3.7   "ttg.warp_specialize"() …         "ttg.warp_specialize.partitions"(captures)    TMA copy: operandSegmentSizes

From 3.7 on, loads of tensor memory and commits have the sizes of their segments, too; from 3.8 on, a slice of tensor
memory has the encoding of its buffer.

The types of descriptors, each read by these versions alone:

3.6, 3.7          !tt.tensordesc<tensor<128x64xf16, #shared>>
3.8 and later     !tt.tensordesc<128x64xf16, #shared>
"""

from __future__ import annotations

import re
from dataclasses import replace

from tawa.dialects.tcgen05 import TCGen5CommitOp, TMEMLoadOp, TMEMSubsliceOp
from tawa.dialects.ttg import WarpSpecializeOp
from tawa.dialects.ttng import AsyncTMACopyGlobalToLocalOp
from tawa.ir import Module, Operation, memdesc_type
from tawa.ir.attributes import array_attr, int_attr
from tawa.ir.text import match_bracket

_TMA_LOAD = AsyncTMACopyGlobalToLocalOp.NAME
# The descriptor comes before the coordinates; barrier, destination and predicate follow them.
_NOT_COORDINATES = 4
_DESCRIPTOR = re.compile(r"!tt\.tensordesc<")
_NESTED = "tensor<"


def to_3_7(module: Module) -> None:
    """Changes a module from the IR of Triton 3.6 to that of 3.7 and later, in place."""
    for op in list(module.walk()):
        view = WarpSpecializeOp.of(op)
        if view:
            _move_captures(view)
        elif op.name == _TMA_LOAD:
            coordinates = len(op.operands) - _NOT_COORDINATES
            op.properties = {
                "isVolatile": "false",
                "operandSegmentSizes": array_attr([1, coordinates, 0, 1, 1, 1]),
                **{
                    name: op.properties[name] for name in ("cache", "evict") if not op.properties[name].startswith("1 ")
                },
            }

        elif op.name == TMEMLoadOp.NAME:
            op.properties["resultSegmentSizes"] = array_attr([1, len(op.results) - 1, 0])
        elif op.name == TCGen5CommitOp.NAME:
            op.properties["operandSegmentSizes"] = array_attr([1, len(op.operands) - 1, 0])


def to_3_8(module: Module, moved: bool) -> None:
    """Changes a module from the IR of Triton 3.7 to that of 3.8 and later, in place: a slice has its buffer's encoding.

    moved: whether a slice says where it begins by ``offset`` and ``dim``, as from 3.9 on.
    """
    for op in module.walk():
        view = TMEMSubsliceOp.of(op)
        if view:
            whole, part = memdesc_type(view.source.type), memdesc_type(op.result.type)
            op.result.type = str(replace(part, encoding=whole.encoding))
            if moved:
                start, dim = view.start, view.dim
                del op.properties["N"]
                op.properties |= {"offset": int_attr(start), "dim": int_attr(dim)}


def _move_captures(view: WarpSpecializeOp) -> None:
    holder: Operation = view.op.regions[1].block.ops[0]
    captures = list(view.op.operands)
    view.op.set_operands([])
    holder.set_operands(captures)


def respelt(text: str, nested: bool) -> tuple[str, str]:
    """A text with all types of descriptors in one spelling, and the first that had the other one; else empty.

    nested: whether the wanted spelling has a tensor type inside. Lines keep their numbers.
    """
    parts: list[str] = []
    first, at = "", 0
    for found in _DESCRIPTOR.finditer(text):
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
