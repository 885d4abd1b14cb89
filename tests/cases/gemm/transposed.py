"""GEMMs with eight-bit operands that are stored with the summed dimension outermost, for Plans with a converter."""

from __future__ import annotations

from tests.cases.case import Specimen, Tensor
from tests.cases.gemm import kernel
from tests.cases.gemm.cases import PROBLEM, SIZES, block, case, descriptors, tile_case


def integers_case(a_t: bool, b_t: bool) -> Specimen:
    """`gemm_integers`, whose sums are exact in any order."""
    tensors = {
        "a": Tensor(("K", "M") if a_t else ("M", "K"), "i8", "integers"),
        "b": Tensor(("N", "K") if b_t else ("K", "N"), "i8", "integers"),
        "c": Tensor(("M", "N"), "i32", "zero"),
    }
    name = f"tile_int8_{'t' if a_t else 'n'}{'t' if b_t else 'n'}"
    constexprs = block(128, 128, 128, GROUP_M=4, A_T=a_t, B_T=b_t)
    arguments = {**descriptors(a_t, b_t), **SIZES}
    return case(name, kernel.gemm_integers, tensors, arguments, constexprs, {**PROBLEM, "K": 656}, "tiles", "")


SMALL = tile_case("fp8e4nv", False, False, (64, 64, 64))
ROWS = tile_case("fp8e4nv", False, False, (128, 128, 128))
COLUMNS = tile_case("fp8e4nv", True, True, (128, 128, 128))
FLOATS: tuple[Specimen, ...] = (ROWS, COLUMNS)
INTEGERS: tuple[Specimen, ...] = (integers_case(False, False), integers_case(True, True))
