"""Hints: attributes with the alignment of numbers and addresses. Only this module reads them.

    tt.func(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32})         Triton specialised the kernel on it
    %x = … {tt.divisibility = dense<[16, 1]> : tensor<2xi32>}      the user wrote tl.multiple_of(x, [16, 1])
    %x = … {tt.contiguity = …}  {tt.constancy = …}                 tl.max_contiguous(x, …), tl.max_constancy(x, …)

A hint has one number for each dimension of the value, or one number for all dimensions; a scalar has one dimension.
For pointers, divisibility is in bytes. Source: Triton, `include/triton/Analysis/AxisInfo.h`.
"""

from __future__ import annotations

import re
from typing import Literal

from tawa.dialects.control_flow import incoming
from tawa.dialects.tt import FuncOp
from tawa.ir import Operation, Value, shape_of
from tawa.ir.attributes import attribute_of, read_int

Hint = Literal["contiguity", "divisibility", "constancy"]
_NUMBER = re.compile(r"\d+")


def argument_divisibility(function: FuncOp, argument: Value) -> int:
    """The number that divides an argument of `function`, in bytes for a pointer; 1 where Triton found none."""
    return read_int(function.attributes_of(argument).get("tt.divisibility", "1"))


def hint_of(op: Operation, hint: Hint) -> tuple[int, ...] | None:
    """The numbers of a hint on the result of `op`, by dimension; None if there is no hint.

    Hints on loops, on branches and on operations with several results are ignored: they do not identify a result, and
    that result may have been dropped.
    """
    text = attribute_of(op.attributes, f"tt.{hint}")
    if text is None or len(op.results) != 1 or incoming(op.result):
        return None
    numbers = tuple(max(1, int(number)) for number in _NUMBER.findall(text.partition(":")[0]))
    rank = max(1, len(shape_of(op.result)))
    if len(numbers) not in (1, rank):
        return None
    return numbers if len(numbers) == rank else numbers * rank
