"""`Numbers`: a library and a precision, so that one reference serves torch and NumPy, float64 and the kernel's types.

A reference is a function of a case, its tensors and `Numbers`. In the kernel's precision, operands of a dot are rounded
as in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.cases.case import Specimen

Arrays = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Numbers:
    """A library and a precision.

    lib: torch or NumPy. product: of two matrices in their element types. number: an array in the type of the sums.
    operand: an array as an operand of a dot of an element type (Triton's name). zeros, count: new arrays of a shape,
    and 0, 1, 2, ...
    """

    lib: Any
    product: Callable[[Any, Any], Any]
    number: Callable[[Any], Any]
    operand: Callable[[Any, str], Any]
    zeros: Callable[[tuple[int, ...]], Any]
    count: Callable[[int], Any]


Reference = Callable[[Specimen, Arrays, Numbers], Arrays]


def in_torch(function: Reference, case: Specimen, tensors: Arrays, arithmetic: Any) -> dict[str, Any]:
    """The outputs of a case by name, in torch; see `tests.cases.gemm.reference`."""
    import torch

    from tests.cases.launch import DTYPES

    exact, device = arithmetic.dtype == torch.float64, next(iter(tensors.values())).device
    numbers = Numbers(
        torch,
        arithmetic.matmul,
        lambda x: x.to(arithmetic.dtype),
        lambda x, dtype: x if exact else x.to(DTYPES[dtype]),
        lambda shape: torch.zeros(shape, dtype=arithmetic.dtype, device=device),
        lambda count: torch.arange(count, device=device),
    )
    return {
        name: (value if exact else value.to(tensors[name].dtype)).reshape(case.shape(name))
        for name, value in function(case, tensors, numbers).items()
    }


def in_numpy(
    function: Reference, case: Specimen, floats: Arrays, rounding: Callable[[Any, str], Any] | None = None
) -> dict[str, Any]:
    """The outputs of a case by name as float64 arrays; `floats` holds inputs as float64, integers as they are.

    rounding: rounds to an element type by Triton's name; None computes without any rounding.
    """
    import numpy as np

    def rounded(x: Any, dtype: str) -> Any:
        return x if rounding is None else rounding(x, dtype)

    numbers = Numbers(
        np,
        lambda a, b: np.asarray(a, np.float64) @ np.asarray(b, np.float64),
        lambda x: np.asarray(x, np.float64),
        rounded,
        np.zeros,
        np.arange,
    )
    return {
        name: rounded(value, case.tensors[name].dtype).reshape(case.shape(name))
        for name, value in function(case, floats, numbers).items()
    }
