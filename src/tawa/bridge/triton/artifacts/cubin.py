"""Cubins as ELF files: their sections, and whether they are complete."""

from __future__ import annotations

import struct

_MAGIC = b"\x7fELF\x02"
_SECTION = struct.Struct("<IIQQQQIIQQ")


def section_of(cubin: bytes, name: str) -> bytes:
    """The bytes of a section; empty if the cubin has none of that name."""
    if not cubin.startswith(_MAGIC):
        raise ValueError("no 64-bit ELF file")
    table, size, count, names = _table(cubin)
    sections = [_SECTION.unpack_from(cubin, table + number * size) for number in range(count)]
    texts = sections[names][4]
    for section in sections:
        begin = texts + section[0]
        if cubin[begin : cubin.index(b"\0", begin)].decode() == name:
            return cubin[section[4] : section[4] + section[5]]
    return b""


def is_whole(cubin: bytes) -> bool:
    """Whether the cubin is complete, which its section table shows: it is at the end of the file."""
    if not cubin.startswith(_MAGIC):
        return False
    try:
        table, size, count, _ = _table(cubin)
    except struct.error:
        return False
    return table + size * count <= len(cubin)


def _table(cubin: bytes) -> tuple[int, int, int, int]:
    """The offset of the section table, the size and the number of its entries, and the index of the name table."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    return table, *struct.unpack_from("<HHH", cubin, 0x3A)
