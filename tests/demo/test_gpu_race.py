"""What the race on a GPU accepts of a result, on the tensors of a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from tawa.demo.exhibits import EXHIBITS, Exhibit

torch = pytest.importorskip("torch")

from tawa.demo.gpu_race import computed, faults_of, tensors_of  # noqa: E402

if TYPE_CHECKING:
    from torch import Tensor

every_exhibit = pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda it: it.title)


def results(exhibit: Exhibit, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """As a right kernel writes them."""
    return {name: it.to(tensors[name].dtype) for name, it in computed(exhibit, tensors, torch.float32).items()}


@every_exhibit
def test_outputs_that_nobody_writes_are_a_fault(exhibit: Exhibit) -> None:
    tensors = tensors_of(exhibit.small(2), "cpu")
    faults = faults_of(exhibit, tensors, tensors)
    assert len(faults) == len(results(exhibit, tensors)) and all("left out" in it for it in faults)


@every_exhibit
def test_a_right_result_passes_and_one_wrong_element_does_not(exhibit: Exhibit) -> None:
    tensors = tensors_of(exhibit.small(2), "cpu")
    found = results(exhibit, tensors)
    assert not faults_of(exhibit, tensors, found)
    for name, output in found.items():
        wrong = output.clone()
        wrong.view(-1)[7] += output.abs().max()
        (fault,) = faults_of(exhibit, tensors, {**found, name: wrong})
        assert fault.startswith(f"{name}: ") and "x the error allowed" in fault
