"""TTIR that jumps becomes a nest of branches, in a form that Triton reads."""

from __future__ import annotations

import pytest
from tawa.bridge.structuring import structure_flow

from tawa.bridge.generic_print import parse_module
from tawa.kernels.case import Case
from tawa.kernels.pointers.cases import find
from tests.matrix.compiling import signature
from tests.support.fronts import Front, front


def made(case: Case) -> Front:
    return front(case.kernel, signature(case), **case.options())


@pytest.mark.parametrize("name", ["early_return", "two_returns", "return_in_branch", "experts_elsewhere"])
def test_a_kernel_that_returns_early_has_branches_instead_of_jumps(name: str) -> None:
    kernel = made(find(name))
    assert "cf.cond_br" in kernel.ttir
    text = str(parse_module(structure_flow(kernel.ttir, kernel.context), kernel.context))
    assert "cf.br" not in text and "cf.cond_br" not in text and text.count("tt.return") == 1
    assert "scf.if" in text


def test_a_kernel_that_does_not_jump_stays_the_text_that_it_was() -> None:
    kernel = made(find("clamped"))
    assert structure_flow(kernel.ttir, kernel.context) is kernel.ttir
