"""Programs of `tests.cases.programs.ttgir` whose dots accumulate in tensor memory."""

from __future__ import annotations

from tawa.ir import Module, parse_module
from tests.cases.programs.ttgir import BUFFER, op

MEMORY = "!ttg.memdesc<64x64xf32, #tmem, #ttng.tensor_memory, mutable>"
TMEM = "#ttng.tensor_memory_encoding<blockM = 64, blockN = 64, colStride = 1>"
MMA = "operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 0, 0>"
_SYNCHRONOUS = "maxNumImpreciseAcc = 0 : i32}>"


def marked(text: str) -> Module:
    """A program, each dot of which says what tensor memory its accumulator will have, as `read_dots` leaves it."""
    found = text.replace(_SYNCHRONOUS, f'{_SYNCHRONOUS} {{tawa.accumulator = "{MEMORY}"}}')
    return blackwell(found)


def blackwell(text: str) -> Module:
    """A program for sm_100."""
    return parse_module(f"#tmem = {TMEM}\n{text.replace('cuda:90', 'cuda:100')}")


def memory(name: str) -> str:
    """A buffer in tensor memory."""
    return op("ttng.tmem_alloc", "", "", f"%{name}", MEMORY)


def mma(a: str, b: str, d: str, use: str = "flag") -> str:
    """A dot of one thread that adds to its accumulator."""
    types = f"{BUFFER}, {BUFFER}, {MEMORY}, i1, i1"
    return op("ttng.tc_gen5_mma", f"%{a}, %{b}, %{d}, %{use}, %flag", types, properties=MMA)


def tmem_load(result: str, buffer: str, type: str) -> str:
    """Reads an accumulator."""
    return op("ttng.tmem_load", f"%{buffer}", MEMORY, f"%{result}", type)


def tmem_store(tile: str, buffer: str, type: str) -> str:
    """Writes an accumulator."""
    return op("ttng.tmem_store", f"%{buffer}, %{tile}, %flag", f"{MEMORY}, {type}, i1")
