"""Specimens describe launches that make sense: names, types, sizes, descriptors, values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.cases.arrays import make_arrays
from tests.cases.attention import cases as attention
from tests.cases.case import Descriptor, Specimen
from tests.cases.gemm import cases as gemm
from tests.cases.operations import cases as operations
from tests.cases.operations import reference as operations_reference
from tests.cases.pointers import cases as pointers

FAMILIES = {
    "gemm": gemm.CASES,
    "attention": attention.CASES,
    "operations": operations.CASES,
    "pointers": pointers.CASES,
}
EVERY = [case for cases in FAMILIES.values() for case in cases]
BYTES = {"fp16": 2, "bf16": 2, "fp32": 4, "i32": 4, "fp8e4nv": 1, "fp8e5": 1}
SMALLEST_BOX_BYTES = 16


def parameter_faults(case: Specimen) -> Iterator[str]:
    types, constants = case.signature(), case.constants()
    if list(types) != list(case.kernel.arg_names):
        yield "types of other parameters"
    if set(case.arguments) | set(case.constexprs) != set(case.kernel.arg_names):
        yield "arguments of other parameters"
    if {name for name, type in types.items() if type == "constexpr"} != set(constants):
        yield "constants without a value, or values of other parameters"
    if not all(extent > 0 for extent in case.launch_grid()):
        yield f"the grid {case.launch_grid()}"


def descriptor_faults(case: Specimen) -> Iterator[str]:
    for name, argument in case.arguments.items():
        if not isinstance(argument, Descriptor):
            continue
        shape, width = case.shape(argument.tensor), BYTES[case.tensors[argument.tensor].dtype]
        strides = [shape[-1]] if argument.strides is None else [case.size(stride) for stride in argument.strides[:-1]]
        block = [case.size(extent) for extent in argument.block]
        if not len(argument.shape or shape) == len(block) <= 5:
            yield f"{name}: {len(block)} dimensions"
        if any(stride * width % 16 for stride in strides):
            yield f"{name}: strides that are not multiples of 16 bytes"
        if block[-1] * width < SMALLEST_BOX_BYTES or any(extent > 256 or extent & (extent - 1) for extent in block):
            yield f"{name}: no box of TMA: {block}"


def value_faults(case: Specimen) -> Iterator[str]:
    arrays = make_arrays(case)
    for name, tensor in case.tensors.items():
        if arrays[name].shape != case.shape(name):
            yield f"{name}: {arrays[name].shape} in place of {case.shape(name)}"
        elif tensor.fill == "values" and not np.allclose(arrays[name].reshape(-1), tensor.values):
            yield f"{name}: other values"


@pytest.mark.parametrize("family", FAMILIES)
def test_names_are_unique(family: str) -> None:
    names = [case.name for case in FAMILIES[family]]
    assert len(names) == len(set(names))


def test_every_parameter_has_a_type_and_every_constant_a_value() -> None:
    assert [f"{case.name}: {fault}" for case in EVERY for fault in parameter_faults(case)] == []


def test_every_descriptor_meets_the_rules_of_tma() -> None:
    assert [f"{case.name}: {fault}" for case in EVERY for fault in descriptor_faults(case)] == []


def test_given_values_fill_their_tensors() -> None:
    assert [f"{case.name}: {fault}" for case in attention.CASES for fault in value_faults(case)] == []


def test_every_operation_has_a_reference() -> None:
    assert {case.reference for case in operations.CASES} <= set(operations_reference.REFERENCES)
