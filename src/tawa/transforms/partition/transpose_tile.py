"""The code that transposes a tile of 8-bit elements from one buffer into another: rows become columns.

    for each piece, of R rows and C columns:
      %x = local_load (trans (reinterpret %source as 16 bits))[piece] : C/2 x R x i16      ldmatrix.trans
      %a, %b = two rows of pairs, as 32 bits
      %y = join (byte_perm %a, %b, 0x6420), (byte_perm %a, %b, 0x7531) : C x R/4 x i32     prmt
      local_store %y, (reinterpret %target as 32 bits)[piece]                              stmatrix

`ldmatrix` transposes elements of 16 bits, here pairs of columns. A thread gets four rows of a pair in two registers, in
which permutations of bytes then separate the columns:

    loaded   row 0: 00 01   row 1: 10 11  |  row 2: 20 21   row 3: 30 31
    stored   column 0: 00 10 20 30        |  column 1: 01 11 21 31

A piece of 1 KiB takes four registers of each thread of two warps, and four for what becomes of them. All other
operations rename registers: LLVM sees that 32 bits which consist of two halves of a register are that register.

Triton 3.6 puts a barrier between the stores of two pieces, 3.9 does not. So larger pieces are faster, if there are
registers for them.

Source: PTX ISA, "ldmatrix" (.trans), "stmatrix", "prmt"; libdevice, ``__nv_byte_perm``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tawa.analysis.rings.transposed import runs_of
from tawa.dialects.arith import ConstantOp, ExtUIOp, OrIOp, ShLIOp
from tawa.dialects.inline.code import ExternElementwiseOp
from tawa.dialects.tt import JoinOp, ReshapeOp, SplitOp, TransOp
from tawa.dialects.ttg import LocalLoadOp, LocalStoreOp, MemDescReinterpretOp, MemDescSubsliceOp, MemDescTransOp
from tawa.ir import Builder, Module, TensorType, Value, memdesc_type, parse_type
from tawa.ir.attributes import array_attr, bool_attr, string_attr
from tawa.ir.encodings import fields_of
from tawa.ir.text import print_dictionary
from tawa.machine.distribution import Base, Distribution

_COLUMN_0, _COLUMN_1 = 0x6420, 0x7531
"""The bytes of two registers that go into one, as four digits from the highest byte down."""
_PAIR, _FOUR, _MATRIX = 2, 4, 8
ROWS = 32
"""The rows of a piece, unless the order of rows needs more: the least for two warps."""


def transpose_tile(
    builder: Builder, module: Module, source: Value, target: Value, order: Sequence[int], piece_bytes: int
) -> None:
    """Stores the tile in `source`, whose rows are contiguous, into `target`, whose columns are.

    order: for each bit of a place along the rows the bit of the row that is stored there. piece_bytes: of a piece, if
    the order allows pieces of `ROWS` rows.
    """
    shape = memdesc_type(source.type).shape
    rows = _rows_ofbox_of(shape[0], order)
    columns = min(shape[1], max(2 * _MATRIX, piece_bytes // rows))
    halves = _reinterpreted(builder, module, source, 16)
    if memdesc_type(target.type).shape != shape[::-1] or _is_transposed(module, target):
        target = transposed_view(builder, module, target)
    words = _reinterpreted(builder, module, target, 32)
    layout = _layout(rows, columns // _PAIR, order)
    for row in range(0, shape[0], rows):
        for column in range(0, shape[1], columns):
            piece = box_of(builder, halves, (row, column // _PAIR), (rows, columns // _PAIR))
            transposed = _transposedbox_of(builder, transposed_view(builder, module, piece), layout, order)
            place = box_of(builder, words, (column, row // _FOUR), (columns, rows // _FOUR))
            builder.create(LocalStoreOp.NAME, (transposed, place))


def _rows_ofbox_of(rows: int, order: Sequence[int]) -> int:
    """The rows of a piece: a power of two that the order maps to itself."""
    bits = min(rows, ROWS).bit_length() - 1
    while max(order[:bits]) >= bits:
        bits += 1
    return 1 << bits


# -- registers ---------------------------------------------------------------------------------------------------------


def _layout(rows: int, pairs: int, order: Sequence[int]) -> Distribution:
    """The layout in which a piece is loaded, pairs of columns by rows, so that no register is exchanged.

    Along the places of the rows: four in a thread, four threads; eight threads along the pairs, as `ldmatrix` loads and
    `stmatrix` stores matrices of 8 x 16 bytes. The rest is in further registers, and in the two warps.
    """
    bits = [(0, 1 << bit) for bit in order[: rows.bit_length() - 1]]
    more = [(1 << bit, 0) for bit in range(3, pairs.bit_length() - 1)] + bits[4:]
    return Distribution(
        (*bits[:2], *more[:-1]),
        (*bits[2:4], *((1 << bit, 0) for bit in range(3))),
        (more[-1],),
    )


def _transposedbox_of(builder: Builder, piece: Value, layout: Distribution, order: Sequence[int]) -> Value:
    """The tile of a piece, pairs of columns by rows, as columns by words of four rows."""
    pairs, rows = memdesc_type(piece.type).shape
    tile = builder.create(LocalLoadOp.NAME, (piece,), (_tile((pairs, rows), "i16", layout),)).result
    tile, layout = reordered(builder, tile, layout, order[: rows.bit_length() - 1])
    low, high, layout = _split(builder, tile, layout)
    low, high = _extended(builder, low), _extended(builder, high)
    shift = _constant(builder, 16, high.type)
    word = OrIOp.create(builder, low, ShLIOp.create(builder, high, shift))
    first, second, layout = _split(builder, word, layout)
    columns = [_permuted(builder, first, second, digits) for digits in (_COLUMN_0, _COLUMN_1)]
    shape = (pairs, rows // _FOUR, _PAIR)
    joined = Distribution(
        ((0, 0, 1), *((*base, 0) for base in layout.registers)),
        tuple((*base, 0) for base in layout.lanes),
        tuple((*base, 0) for base in layout.warps),
    )
    both = builder.create(JoinOp.NAME, columns, (_tile(shape, "i32", joined),)).result
    swapped = joined.transposed((0, 2, 1))
    both = _trans(builder, both, (0, 2, 1), swapped)
    merged = (pairs * _PAIR, rows // _FOUR)
    return _reshape(builder, both, merged, swapped.reshaped((pairs, _PAIR, rows // _FOUR), merged))


def reordered(builder: Builder, tile: Value, layout: Distribution, order: Sequence[int]) -> tuple[Value, Distribution]:
    """A tile whose columns are in another order of their bits, and its layout. No element changes its register."""
    if list(order) == list(range(len(order))):
        return tile, layout
    rows, columns = _tensor(tile).shape
    extents, places = runs_of(order)
    parts = (rows, *extents)
    axes = (0, *(1 + place for place in places))
    taken_apart = layout.reshaped((rows, columns), parts)
    moved = taken_apart.transposed(axes)
    result = moved.reshaped(tuple(parts[axis] for axis in axes), (rows, columns))
    tile = _reshape(builder, tile, parts, taken_apart)
    return _reshape(builder, _trans(builder, tile, axes, moved), (rows, columns), result), result


def _split(builder: Builder, tile: Value, layout: Distribution) -> tuple[Value, Value, Distribution]:
    """The even and the odd columns of a tile, which are in one thread, and their layout."""
    rows, columns = _tensor(tile).shape
    pairs = (rows, columns // _PAIR, _PAIR)
    apart = layout.reshaped((rows, columns), pairs)
    tile = _reshape(builder, tile, pairs, apart)
    half = str(replace(_tensor(tile), shape=pairs[:-1], encoding=f"#ttg.slice<{{dim = 2, parent = {apart}}}>"))
    split = builder.create(SplitOp.NAME, (tile,), (half, half))
    even, odd = split.results
    return even, odd, apart.halved()


def _extended(builder: Builder, tile: Value) -> Value:
    return builder.create(ExtUIOp.NAME, (tile,), (str(replace(_tensor(tile), element="i32")),)).result


def _permuted(builder: Builder, first: Value, second: Value, digits: int) -> Value:
    """Four of the eight bytes of two words."""
    properties = {
        "libname": string_attr(""),
        "libpath": string_attr(""),
        "pure": bool_attr(True),
        "symbol": string_attr("__nv_byte_perm"),
    }
    operands = (first, second, _constant(builder, digits, first.type))
    return builder.create(ExternElementwiseOp.NAME, operands, (first.type,), properties=properties).result


def _constant(builder: Builder, number: int, type: str) -> Value:
    return builder.create(ConstantOp.NAME, (), (type,), properties={"value": f"dense<{number}> : {type}"}).result


def _reshape(builder: Builder, tile: Value, shape: Base, layout: Distribution) -> Value:
    return builder.create(ReshapeOp.NAME, (tile,), (_tile(shape, _tensor(tile).element, layout),)).result


def _trans(builder: Builder, tile: Value, order: Base, layout: Distribution) -> Value:
    type = _tensor(tile)
    shape = tuple(type.shape[dim] for dim in order)
    properties = {"order": array_attr(order)}
    return builder.create(TransOp.NAME, (tile,), (_tile(shape, type.element, layout),), properties=properties).result


def _tile(shape: Base, element: str, layout: Distribution) -> str:
    return str(TensorType(shape, element, str(layout)))


def _tensor(tile: Value) -> TensorType:
    type = parse_type(tile.type)
    assert isinstance(type, TensorType)
    return type


# -- buffers -----------------------------------------------------------------------------------------------------------


def _reinterpreted(builder: Builder, module: Module, buffer: Value, bits: int) -> Value:
    """A buffer of bytes, with contiguous rows, as one of wider integers."""
    type = memdesc_type(buffer.type)
    fields = {**fields_of(module.aliases, type.encoding), "elementBitWidth": str(bits)}
    shape = (type.shape[0], type.shape[1] * 8 // bits)
    view = replace(type, shape=shape, element=f"i{bits}", encoding=_encoding(fields))
    return builder.create(MemDescReinterpretOp.NAME, (buffer,), (str(view),)).result


def transposed_view(builder: Builder, module: Module, buffer: Value) -> Value:
    """A buffer of two dimensions with rows for columns."""
    type = memdesc_type(buffer.type)
    fields = fields_of(module.aliases, type.encoding)
    fields["transposed"] = "false" if fields["transposed"] == "true" else "true"
    whole = "x".join(reversed(type.allocation.split("x"))) if type.allocation else ""
    view = replace(type, shape=type.shape[::-1], encoding=_encoding(fields), allocation=whole)
    properties = {"order": array_attr((1, 0))}
    return builder.create(MemDescTransOp.NAME, (buffer,), (str(view),), properties=properties).result


def box_of(builder: Builder, buffer: Value, at: Base, shape: Base) -> Value:
    """A box of a buffer that begins at `at`."""
    type = memdesc_type(buffer.type)
    view = replace(type, shape=shape, allocation="x".join(map(str, type.shape)))
    properties = {"offsets": array_attr(at)}
    return builder.create(MemDescSubsliceOp.NAME, (buffer,), (str(view),), properties=properties).result


def _is_transposed(module: Module, buffer: Value) -> bool:
    return fields_of(module.aliases, memdesc_type(buffer.type).encoding)["transposed"] == "true"


def _encoding(fields: dict[str, str]) -> str:
    return f"#ttg.nvmma_shared<{{{print_dictionary(fields)}}}>"
