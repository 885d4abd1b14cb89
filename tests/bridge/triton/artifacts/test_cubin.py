"""Cubins are read as ELF files."""

from __future__ import annotations

import struct

import pytest

from tawa.bridge.triton.artifacts.cubin import is_whole, section_of

TEXT, NAMES = b"machine code", b"\0.text.kernel\0.shstrtab\0"


def elf() -> bytes:
    """A header, two sections, and the section table at the end."""
    header = bytearray(0x40)
    header[:5] = b"\x7fELF\x02"
    body = TEXT + NAMES
    struct.pack_into("<Q", header, 0x28, len(header) + len(body))
    struct.pack_into("<HHH", header, 0x3A, 64, 2, 1)
    sections = [(1, len(header), len(TEXT)), (14, len(header) + len(TEXT), len(NAMES))]
    table = b"".join(struct.pack("<IIQQQQIIQQ", name, 0, 0, 0, at, size, 0, 0, 0, 0) for name, at, size in sections)
    return bytes(header) + body + table


def test_a_section_is_found_by_its_name() -> None:
    assert section_of(elf(), ".text.kernel") == TEXT
    assert section_of(elf(), ".nv.info") == b""


def test_another_file_has_no_sections() -> None:
    with pytest.raises(ValueError, match="ELF"):
        section_of(b"#!/bin/sh", ".text")


@pytest.mark.parametrize(("size", "whole"), [(None, True), (-1, False), (0x30, False), (3, False)])
def test_a_file_that_is_cut_off_is_not_whole(size: int | None, whole: bool) -> None:
    assert is_whole(elf()[:size]) is whole
