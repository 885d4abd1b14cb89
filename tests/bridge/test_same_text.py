"""Compiled twice, a kernel gives the same texts: no level holds the place of a temporary file."""

from __future__ import annotations

import pytest

from tawa.plan import PlanOptions
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find as gemm
from tests.cases.pointers.cases import find as pointers
from tests.matrix.compiling import compile_case

LEVELS = ("ttir", "ttgir", "aref", "barrier", "llir", "ptx")


@pytest.mark.parametrize("case", [gemm("persistent"), pointers("grouped_lengths")], ids=lambda it: it.name)
def test_a_kernel_compiled_twice_gives_the_same_texts(case: Specimen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    first, second = (compile_case(case, PlanOptions(only_if_faster=False)) for _ in range(2))
    assert [level for level in LEVELS if first.asm[level] != second.asm[level]] == []
