"""The kernels of matrix products: what Tawa makes of them, and that they are right on NumPy data, in the simulator."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tawa.bridge.driver.data import Specialised
from tawa.bridge.triton.read_module import read_levels
from tawa.ops.kernels.products import matmul as kernels
from tawa.plan import PlanOptions
from tawa.sim import Descriptor as HostDescriptor
from tawa.sim import simulate
from tests.cases.attention.builders import SPECIALISED
from tests.cases.case import Absent, Argument, Descriptor, Number, Pointer, Specimen, Tensor
from tests.matrix.compiling import attempted
from tests.support.sample import sample
from tests.support.verdicts import passes

OPTIONS = PlanOptions(enable_warp_specialization=True)
M, N, K = 70, 88, 200


@dataclass(frozen=True)
class Form:
    """One way to compute a product. orders: of A and B in memory, whether the summed dimension is innermost."""

    BM: int = 64
    BN: int = 32
    more: int = 0
    orders: tuple[bool, bool] = (True, True)
    swapped: bool = False
    gated: bool = False
    split: int = 1
    act: str = "none"
    added: bool = False
    whole: int = 0
    ordered: bool = True
    kept: bool = False
    scaled: bool = False


FORMS = {
    "plain": Form(),
    "columns": Form(orders=(False, False)),
    "swapped": Form(BN=16, swapped=True, added=True),
    "two": Form(more=16, added=True),
    "gated": Form(more=32, gated=True, act="silu"),
    "gated_kept": Form(more=32, gated=True, act="silu", kept=True),
    "two_kept": Form(more=16, added=True, act="relu", kept=True),
    "split": Form(split=2),
    "split4_added": Form(split=4, act="relu", added=True),
    "split_by_atomics": Form(split=4, act="relu", added=True, ordered=False),
    "split_columns": Form(BN=64, split=3),
    "last_wave": Form(split=2, whole=4, added=True),
    "last_wave_kept": Form(split=2, whole=4, act="silu", kept=True),
    "split_swapped": Form(BN=16, swapped=True, split=2, added=True),
    "scaled": Form(more=16, scaled=True, added=True),
    "scaled_swapped": Form(BN=16, swapped=True, scaled=True),
    "scaled_split": Form(split=2, whole=4, scaled=True, added=True),
}


def rows_and_columns(form: Form) -> tuple[int, int]:
    """Of the product that the kernel computes: C or its transpose."""
    return (N, M) if form.swapped else (M, N)


def product_case(form: Form) -> Specimen:
    rows, columns = rows_and_columns(form)
    a_k, b_k = form.orders
    width = form.BN if form.split == 1 else min(32, form.BN)
    weights = columns * (2 if form.gated else 1)
    box = (lambda n: (n, form.BM)) if form.swapped else (lambda n: (form.BM, n))
    blocks = -(-rows // form.BM) * -(-columns // (form.BN + (0 if form.gated else form.more)))
    right = lambda n: (n, 64) if b_k else (64, n)  # noqa: E731
    tensors = {
        "a": Tensor((rows, K) if a_k else (K, rows), "fp16"),
        "b": Tensor((weights, K) if b_k else (K, weights), "fp16"),
        "c": Tensor((M, N), "fp16", "nan"),
        "gate": Tensor((M, N), "fp16", "nan"),
        "other": Tensor((M, N), "fp16", "nan"),
        "bias": Tensor((rows if form.swapped else weights,), "fp16"),
        "residual": Tensor((M, N), "fp16"),
        "of_rows": Tensor((rows,), "fp32"),
        "of_columns": Tensor((1,), "fp32"),
        "parts": Tensor(
            (blocks, form.split if form.ordered else 1, form.BM, form.BN), "fp32", "nan" if form.ordered else "zero"
        ),
        "semaphores": Tensor((blocks,), "i32", "zero"),
    }
    arguments: dict[str, Argument] = {
        "a": Descriptor("a", (form.BM, 64) if a_k else (64, form.BM)),
        "b": Descriptor("b", right(form.BN)),
        "c": Descriptor("c", box(width)),
        **{name: Pointer(name) if form.scaled else Absent() for name in ("of_rows", "of_columns")},
        "bias": Pointer("bias") if form.added else Absent(),
        "residual": Descriptor("residual", box(width)) if form.added else Absent(),
        "kept": Descriptor("gate", box(width)) if form.kept else Absent(),
        "M": Number(rows),
        "N": Number(columns),
        "K": Number(K),
    }
    constants: dict[str, Any] = {"BM": form.BM, "BN": form.BN, "BK": 64, "GROUP": 2, "A_K": a_k, "B_K": b_k,
                                 "C_N": not form.swapped, "ACT": form.act, "ROW_STEP": 1, "COLUMN_STEP": 0}  # fmt: skip
    if form.split > 1:
        arguments |= {
            "parts": Pointer("parts"),
            "semaphores": Pointer("semaphores"),
            "whole": Number(form.whole),
            "c_whole": Descriptor("c", box(form.BN)) if form.whole else Absent(),
            "residual_whole": Descriptor("residual", box(form.BN)) if form.whole and form.added else Absent(),
            "kept_whole": Descriptor("gate", box(form.BN)) if form.whole and form.kept else Absent(),
        }
        constants |= {"SPLIT": form.split, "WIDTH": width, "ORDERED": form.ordered}
        kernel = kernels.matmul_split
    else:
        two = form.more > 0 and not form.gated
        arguments |= {
            "b_more": Descriptor("b", right(form.more)) if form.more else Absent(),
            "c_more": Descriptor("c", box(form.more)) if two else Absent(),
            "residual_more": Descriptor("residual", box(form.more)) if two and form.added else Absent(),
            "kept_more": Descriptor("other" if form.gated else "gate", box(form.more)) if form.kept else Absent(),
        }
        constants |= {"BW": form.more, "GATED": form.gated}
        kernel = kernels.matmul
    arguments = {name: arguments[name] for name in kernel.arg_names if name in arguments}
    return Specimen("product", kernel, arguments, tensors, constants, {}, "rows", "", SPECIALISED, num_warps=4)


@functools.cache
def made(name: str) -> tuple[Any, Any]:
    """The result of the compiler, and the module of its lowest level."""
    found, levels = attempted(product_case(FORMS[name]), OPTIONS)
    return found, read_levels(levels)[1]


def activated(z: Any, act: str) -> Any:
    return {"none": z, "relu": np.maximum(z, 0.0), "silu": z / (1.0 + np.exp(-z))}[act]


@pytest.mark.parametrize("name", FORMS)
def test_it_is_specialised_and_proved(name: str) -> None:
    found, _ = made(name)
    assert isinstance(found, Specialised), found.remarks
    assert passes(found.outcome.verdict)


@pytest.mark.parametrize("name", FORMS)
def test_automatic_mode_takes_it(name: str) -> None:
    found, _ = attempted(product_case(FORMS[name]), PlanOptions(only_if_faster=False))
    assert isinstance(found, Specialised), found.remarks


@pytest.mark.parametrize("order", sample(["random", "eager", "late"], 4))
@pytest.mark.parametrize("name", sample(FORMS, 3))
def test_it_is_right_amid_nan(name: str, order: Any) -> None:
    form = FORMS[name]
    case = product_case(form)
    numbers = np.random.default_rng(1)
    arrays: dict[str, Any] = {}
    for tensor, about in case.tensors.items():
        shape = case.shape(tensor)
        if about.fill == "nan":
            arrays[tensor] = np.full(shape, np.nan, np.float32 if about.dtype == "fp32" else np.float16)
        elif about.fill == "zero":
            arrays[tensor] = np.zeros(shape, np.float32 if about.dtype == "fp32" else np.int32)
        else:
            kind = np.float32 if about.dtype == "fp32" else np.float16
            arrays[tensor] = numbers.standard_normal(shape).astype(kind)
    arguments: dict[str, Any] = {}
    for argument, it in case.arguments.items():
        if isinstance(it, Number):
            arguments[argument] = it.value
        elif isinstance(it, Descriptor):
            arguments[argument] = HostDescriptor(arrays[it.tensor])
        elif isinstance(it, Pointer):
            arguments[argument] = arrays[it.tensor]
    blocks = arrays["parts"].shape[0]
    simulate(made(name)[1], arguments, (form.whole + (blocks - form.whole) * form.split, 1, 1), order, 0)
    a_k, b_k = form.orders
    a, b = (arrays[it].astype(np.float64) for it in "ab")
    a, b = a if a_k else a.T, b.T if b_k else b
    z = a @ b
    if form.scaled:
        z = z * arrays["of_rows"][:, None] * arrays["of_columns"]
    if form.added:
        z = z + (arrays["bias"][:, None] if form.swapped else arrays["bias"][None, :])
    sums = np.split(z, 2, axis=1) if form.gated else [z.T if form.swapped else z]
    for name, exact in zip(("gate", "other")[: len(sums)], sums, strict=True):
        assert not form.kept or np.abs(arrays[name] - exact).max() <= 2e-3 * np.abs(exact).max()
    if form.gated:
        z = activated(z[:, :N], form.act) * z[:, N:]
    else:
        z = activated(z, form.act)
    z = z.T if form.swapped else z
    if form.added:
        z = z + arrays["residual"]
    assert np.abs(arrays["c"] - z).max() <= 2e-3 * np.abs(z).max()
    assert not arrays["semaphores"].any()
