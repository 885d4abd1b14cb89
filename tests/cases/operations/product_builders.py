"""Builders of the cases with fp8 products and a scale for each block, and of a loss with its linear layer."""

from __future__ import annotations

import math

from tests.cases.case import Argument, Descriptor, Expectation, Number, One, Specimen, Tensor
from tests.cases.operations import losses, scaled
from tests.cases.pointers.builders import SPECIALISED, block, experts_case, gemm_arguments, pointers_to

GROUP = 128


def scaled_case(name: str, *, tile: tuple[int, int, int] = (64, 128, 128), warps: int = 4, stages: int = 3,
                rows: bool = False, expect: Expectation = SPECIALISED, **sizes: int) -> Specimen:  # fmt: skip
    """`gemm_scaled`; rows: B's scale is looked up for every column."""
    known = {"M": 136, "N": 256, "K": 656, **sizes}
    known |= {"NG": -(-known["N"] // GROUP), "KG": -(-known["K"] // GROUP)}
    tensors = {
        "a": Tensor(("M", "K"), "fp8e4nv"), "b": Tensor(("N", "K"), "fp8e4nv"), "c": Tensor(("M", "N"), "bf16", "nan"),
        "as": Tensor(("M", "KG"), "fp32"), "bs": Tensor(("NG", "KG"), "fp32"),
    }  # fmt: skip
    arguments: dict[str, Argument] = {
        **gemm_arguments(b_t=True), **pointers_to("as bs"), "stride_asm": Number("KG"), "stride_ask": One(),
        "stride_bsn": Number("KG"), "stride_bsk": One(),
    }  # fmt: skip
    return Specimen(
        name,
        scaled.gemm_scaled,
        arguments,
        tensors,
        block(*tile, GROUP_M=4, GROUP=GROUP, ROWS=rows),
        known,
        "tiles",
        "gemm_scaled",
        expect,
        num_warps=warps,
        num_stages=stages,
    )


def experts_scaled_case(name: str, *, tokens: int = 60, tile: tuple[int, int, int] = (64, 128, 128), even: bool = True,
                        elsewhere: bool = False, warps: int = 4, stages: int = 4,
                        expect: Expectation = SPECIALISED) -> Specimen:  # fmt: skip
    """`experts_scaled`; even: BK divides K."""
    plain = experts_case(name, tokens=tokens, elsewhere=elsewhere, tile=tile)
    sizes = {**plain.sizes, "N": 256, "K": 512 if even else 400, "NG": 2, "KG": 4}
    tensors = {**plain.tensors, "a": Tensor(("T", "K"), "fp8e4nv"), "b": Tensor(("E", "N", "K"), "fp8e4nv"),
               "c": Tensor(("TOKENS", "N"), "bf16", "nan"), "as": Tensor(("T", "KG"), "fp32"),
               "bs": Tensor(("E", "NG", "KG"), "fp32")}  # fmt: skip
    arguments = {**plain.arguments, **pointers_to("as bs"), "stride_asm": Number("KG"), "stride_ask": One(),
                 "stride_bse": Number("NG*KG"), "stride_bsn": Number("KG"), "stride_bsk": One()}  # fmt: skip
    return Specimen(
        name,
        scaled.experts_scaled,
        arguments,
        tensors,
        block(*tile, GROUP_M=4, TOP_K=2, GROUP=GROUP, EVEN_K=even),
        sizes,
        "tiles",
        "experts_scaled",
        expect,
        num_warps=warps,
        num_stages=stages,
    )


def linear_loss_case(
    name: str, *, tile: tuple[int, int, int] = (64, 128, 64), warps: int = 4, dtype: str = "bf16", **sizes: int
) -> Specimen:
    """`linear_loss_gradients`; words of the tokens are random, and so are logarithms, for logits of about 1."""
    known = {"M": 136, "N": 200, "K": 192, **sizes}
    scale = 2.0 ** -round(math.log2(known["K"]) / 2)
    tensors = {
        "x": Tensor(("M", "K"), dtype), "w": Tensor(("N", "K"), dtype),
        "lse": Tensor(("M",), "fp32", mean=math.log2(known["N"])),
        "target": Tensor(("M",), "i32", "integers", span=(0, known["N"])),
        "dx": Tensor(("M", "K"), "fp32", "zero"), "dw": Tensor(("N", "K"), "fp32", "zero"),
    }  # fmt: skip
    arguments: dict[str, Argument] = {
        "x_desc": Descriptor("x", ("BM", "BK")), "w_desc": Descriptor("w", ("BN", "BK")),
        "dx_desc": Descriptor("dx", ("BM", "BK")), "dw_desc": Descriptor("dw", ("BN", "BK")),
        **pointers_to("lse target"), "M": Number("M"), "K": Number("K"), "scale": Number(scale),
    }  # fmt: skip
    return Specimen(
        name,
        losses.linear_loss_gradients,
        arguments,
        tensors,
        block(*tile),
        known,
        "tiles_2d",
        "linear_loss_gradients",
        SPECIALISED,
        num_warps=warps,
    )
