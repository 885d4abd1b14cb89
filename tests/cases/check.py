"""Judges what a specimen wrote: against float64, against repeated runs, against the stock kernel. Needs torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from tests.cases.arithmetic import Arithmetic, Exact, SamePrecision
from tests.cases.attention import reference as attention
from tests.cases.case import Specimen, Tensor
from tests.cases.gemm import reference as gemm
from tests.cases.operations import reference as operations
from tests.cases.pointers import reference as pointers

FACTOR = 2.0
ROUNDING = 1e-6  # of the largest value: always allowed, because the peer's sums may happen to be exact
STOCK_IS_PEER = ("fp8e5", "fp32")  # PyTorch has no e5m2 product; wgmma truncates float32 to TF32, cuBLAS may round


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one problem.

    faults: what is wrong, empty if nothing. ratio: the error divided by the allowed error, at most 1 to pass. Allowed
    is twice the error of the peer, which is PyTorch in the same precision. Both the largest error and the root mean
    square error count; the worse ratio is given. same_bits_as_stock: None if there was no stock run.
    """

    faults: tuple[str, ...]
    ratio: float
    same_bits_as_stock: bool | None


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors against float64 over the elements that both have."""

    largest: float
    mean_square_root: float

    @staticmethod
    def of(got: torch.Tensor, exact: torch.Tensor) -> Errors:
        """The errors of `got`."""
        difference = (got.double() - exact).abs()
        difference = difference[~difference.isnan()]
        if not difference.numel():
            return Errors(0.0, 0.0)
        return Errors(float(difference.max()), float(difference.square().mean().sqrt()))

    def worse(self, other: Errors) -> Errors:
        """The larger of each."""
        return Errors(max(self.largest, other.largest), max(self.mean_square_root, other.mean_square_root))


def judge(
    case: Specimen, tensors: dict[str, torch.Tensor], outputs: Sequence[torch.Tensor], stock: torch.Tensor | None = None
) -> Verdict:
    """Judges the outputs ``c`` of repeated runs on one set of inputs; see `judge_all`."""
    return judge_all(case, tensors, [{"c": c} for c in outputs], None if stock is None else {"c": stock})


def judge_all(
    case: Specimen,
    tensors: Mapping[str, torch.Tensor],
    runs: Sequence[Mapping[str, torch.Tensor]],
    stock: Mapping[str, torch.Tensor] | None = None,
) -> Verdict:
    """Judges repeated runs on one set of inputs; each run gives the outputs by name.

    The first run must be right. It must write every element that is its own, and no other (NaN stays NaN). The other
    runs must have the same bits. Of sums in memory (float32 that starts at zero), whose order may be free, each run
    must be right.
    """
    exact, peer = (reference_of(case, tensors, arithmetic) for arithmetic in (Exact(), SamePrecision()))
    verdicts: dict[str, Verdict] = {}
    for name in exact:
        error = Errors.of(peer[name], exact[name])
        if stock is not None and "a" in case.tensors and case.tensors["a"].dtype in STOCK_IS_PEER:
            error = error.worse(Errors.of(stock[name], exact[name]))
        found = [run[name] for run in runs]
        parts = [[it] for it in found] if _is_sum(case.tensors[name]) else [found]
        judged = [_judge_one(exact[name], error, part) for part in parts]
        verdicts[name] = max(judged, key=lambda it: (len(it.faults), it.ratio))
    faults = tuple(
        fault if len(verdicts) == 1 else f"{name}: {fault}"
        for name, verdict in verdicts.items()
        for fault in verdict.faults
    )
    same = None if stock is None else all(equal_bits(runs[0][name], stock[name]) for name in exact)
    return Verdict(faults, max(verdict.ratio for verdict in verdicts.values()), same)


def reference_of(
    case: Specimen, tensors: Mapping[str, torch.Tensor], arithmetic: Arithmetic
) -> dict[str, torch.Tensor]:
    """The outputs of a case of any family by name; see `tests.cases.gemm.reference`."""
    for written in (pointers, operations):
        if case.reference in written.REFERENCES:
            return written.reference(case, tensors, arithmetic)
    family = attention if case.reference in attention.REFERENCES else gemm
    return family.reference(case, tensors, arithmetic)


def _is_sum(tensor: Tensor) -> bool:
    return tensor.fill == "zero" and tensor.dtype == "fp32"


def _judge_one(exact: torch.Tensor, peer: Errors, outputs: Sequence[torch.Tensor]) -> Verdict:
    """One output of repeated runs, without a stock run."""
    first = outputs[0]
    expected = ~exact.isnan()
    finite = exact.isfinite()
    least = ROUNDING * float(exact[finite].abs().max()) if bool(finite.any()) else 0.0
    errors = Errors.of(first, exact)
    ratio = max(
        _share(errors.largest, max(FACTOR * peer.largest, least)),
        _share(errors.mean_square_root, max(FACTOR * peer.mean_square_root, least)),
    )
    faults: list[str] = []
    strays = int((first.isnan() == expected).sum())
    if strays:
        faults.append(f"{strays} of {first.numel()} elements wrongly left out, written, or NaN")
    infinite = int((exact.isinf() & (first.double() != exact)).sum())
    if infinite:
        faults.append(f"{infinite} of {first.numel()} elements are not infinite as they should be")
    moving = sum(not equal_bits(first, other) for other in outputs[1:])
    if moving:
        faults.append(f"{moving} of {len(outputs) - 1} repeated runs differ: a race")
    if not ratio <= 1:
        faults.append(f"{ratio:.2f} x the error allowed: largest {errors.largest:.3e}, PyTorch's {peer.largest:.3e}")
    return Verdict(tuple(faults), ratio, None)


def equal_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are the same bit for bit (NaN equals NaN)."""
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[one.element_size()]
    return torch.equal(one.view(whole), other.view(whole))


def _share(error: float, allowed: float) -> float:
    return error / allowed if allowed else math.inf if error else 0.0
