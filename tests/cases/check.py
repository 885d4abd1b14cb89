"""Judges what a specimen wrote: against float64, against repeated runs, against the stock kernel. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from tawa.demo import judge as judging
from tawa.demo.judge import Errors, Verdict, equal_bits
from tests.cases.attention import reference as attention
from tests.cases.case import Specimen
from tests.cases.gemm import reference as gemm
from tests.cases.gemm.reference import Arithmetic
from tests.cases.operations import reference as operations
from tests.cases.pointers import reference as pointers

__all__ = ["Errors", "Verdict", "equal_bits", "judge", "judge_all", "reference_of"]


def judge(
    case: Specimen, tensors: dict[str, torch.Tensor], outputs: Sequence[torch.Tensor], stock: torch.Tensor | None = None
) -> Verdict:
    """Judges the outputs ``c`` of repeated runs on one set of inputs; see `tawa.demo.judge.judge_all`."""
    return judge_all(case, tensors, [{"c": c} for c in outputs], None if stock is None else {"c": stock})


def judge_all(
    case: Specimen,
    tensors: Mapping[str, torch.Tensor],
    runs: Sequence[Mapping[str, torch.Tensor]],
    stock: Mapping[str, torch.Tensor] | None = None,
) -> Verdict:
    """`judge` for a case with several outputs, each run giving them by name."""
    return judging.judge_all(case, tensors, runs, reference_of, stock)


def reference_of(
    case: Specimen, tensors: Mapping[str, torch.Tensor], arithmetic: Arithmetic
) -> dict[str, torch.Tensor]:
    """The outputs of a case of any family by name; see `tests.cases.gemm.reference`."""
    for written in (pointers, operations):
        if case.reference in written.REFERENCES:
            return written.reference(case, tensors, arithmetic)
    family = attention if case.reference in attention.REFERENCES else gemm
    return family.reference(case, tensors, arithmetic)
