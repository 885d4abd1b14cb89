"""What each whole operation must compute, for torch and for NumPy; see `tests.cases.numbers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.cases.case import Specimen
from tests.cases.numbers import Arrays, Reference, in_numpy, in_torch
from tests.cases.operations import attention_reference, product_reference, state_reference

REFERENCES: dict[str, Reference] = {
    **state_reference.REFERENCES,
    **attention_reference.REFERENCES,
    **product_reference.REFERENCES,
}


def reference(case: Specimen, tensors: Mapping[str, Any], arithmetic: Any) -> dict[str, Any]:
    """The outputs of a case by name, in torch; see `tests.cases.gemm.reference`."""
    return in_torch(REFERENCES[case.reference], case, tensors, arithmetic)


def numpy_reference(
    case: Specimen, floats: Arrays, rounding: Callable[[Any, str], Any] | None = None
) -> dict[str, Any]:
    """The outputs of a case by name as float64 arrays; see `tests.cases.numbers.in_numpy`."""
    return in_numpy(REFERENCES[case.reference], case, floats, rounding)
