"""Encodings of TTGIR as constructors of Gluon layouts.

#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 128, 16]}>
gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16])
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from tawa.emit.errors import cannot_say
from tawa.ir.encodings import fields_of, kind_of

FORMS = {
    "#ttg.blocked": ("gl.BlockedLayout", ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")),
    "#ttg.swizzled_shared": ("gl.SwizzledSharedLayout", ("vec", "perPhase", "maxPhase", "order")),
    "#ttg.linear": ("gl.DistributedLinearLayout", ("register", "lane", "warp", "block")),
}
"""The constructors whose arguments are fields of the encoding, in this order."""


def layout_source(aliases: Mapping[str, str], encoding: str) -> str:
    """The expression that makes this layout.

    Raises EmitError for encodings and fields that Gluon has no word for.
    """
    kind, fields = kind_of(aliases, encoding), fields_of(aliases, encoding)
    match kind:
        case "#ttg.slice":
            return f"gl.SliceLayout({fields['dim']}, {layout_source(aliases, fields['parent'])})"
        case "#ttg.dot_op":
            width = f", k_width={fields['kWidth']}" if "kWidth" in fields else ""
            parent = layout_source(aliases, fields["parent"])
            return f"gl.DotOperandLayout(operand_index={fields['opIdx']}, parent={parent}{width})"
        case "#ttg.nvidia_mma":
            known = ("versionMajor", "versionMinor", "warpsPerCTA", "instrShape")
            _only(kind, fields, known)
            version = f"[{fields['versionMajor']}, {fields['versionMinor']}]"
            return f"gl.NVMMADistributedLayout({version}, {fields['warpsPerCTA']}, {fields['instrShape']})"
        case "#ttg.nvmma_shared":
            _only(kind, fields, ("swizzlingByteWidth", "transposed", "elementBitWidth", "rank", "fp4Padded"))
            more = f", rank={fields.get('rank', '2')}" + (", transposed=True" if fields["transposed"] == "true" else "")
            more += ", fp4_padded=True" if fields.get("fp4Padded") == "true" else ""
            return f"gl.NVMMASharedLayout({fields['swizzlingByteWidth']}, {fields['elementBitWidth']}{more})"
        case "#ttng.tensor_memory_encoding":
            _only(kind, fields, ("blockM", "blockN", "colStride"))
            return f"TensorMemoryLayout([{fields['blockM']}, {fields['blockN']}], col_stride={fields['colStride']})"
        case "#ttng.tensor_memory_scales_encoding":
            _only(kind, fields, ())
            return "TensorMemoryScalesLayout()"
        case "#ttg.shared_linear":
            _only(kind, fields, ("offset", "alignment"))
            return f"gl.SharedLinearLayout({fields['offset']}, alignment={fields['alignment']})"
        case _:
            if kind not in FORMS:
                raise cannot_say(f"the layout {kind}")
            name, known = FORMS[kind]
            _only(kind, fields, known)
            last = f", {_sizes(fields)}" if kind == "#ttg.linear" else ""
            return f"{name}({', '.join(fields[it] for it in known)}{last})"


def _sizes(fields: Mapping[str, str]) -> list[int]:
    """The shape of the tile that a linear layout spans; a larger tile repeats it, a smaller one has copies."""
    bases = [basis for it in ("register", "lane", "warp", "block") for basis in ast.literal_eval(fields[it])]
    return [2 * largest or 1 for largest in map(max, zip(*bases, strict=True))]


def _only(kind: str, fields: Mapping[str, str], known: Sequence[str]) -> None:
    if extra := sorted(fields.keys() - set(known)):
        raise cannot_say(f"the field {extra[0]} of the layout {kind}")
