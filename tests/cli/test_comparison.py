"""Whose fault it is if a program that stock Triton made of a kernel is wrong."""

from __future__ import annotations

import pytest

from tawa.cli.comparison import Comparison, Output, Subject, Trapped, print_comparison
from tawa.ir import Module
from tawa.sim.errors import MissingFence, UnsupportedOp
from tests.cases.programs.ttgir import parse, tile_gemm

TRITON = "Triton 3.6.0"
BLAME = f"none in the kernel: the fault is {TRITON}'s, which made this program"


def test_a_missing_fence_in_stock_tritons_program_is_tritons_fault() -> None:
    error = MissingFence("a[0] was written through the generic proxy and is read by the async proxy")
    ours, theirs = (Trapped("the program", "eager", error, maker) for maker in ("", TRITON))
    assert ours.cure == error.cure and "fence_async_shared" in ours.cure
    assert theirs.cure.startswith(BLAME) and theirs.facts()["cure"] == theirs.cure


def test_what_the_simulator_does_not_support_is_nobodys_fault() -> None:
    error = UnsupportedOp("tt.made_up")
    assert Trapped("the program", "eager", error, TRITON).cure == error.cure


@pytest.mark.parametrize(
    ("late", "maker", "blamed"), [(False, TRITON, True), (True, TRITON, False), (False, "", False)]
)
def test_bits_that_depend_on_when_copies_land_are_tritons_fault(
    late: bool, maker: str, blamed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    module: Module = parse(tile_gemm())
    equal = {"eager": late, "late": late} if late else {"eager": True, "late": False}
    output = Output("c", (64, 64), "f16", True, equal, 0.5, (0, 0), 0, 0)
    print_comparison(Comparison(Subject("it", module, module, maker=maker), ("eager", "late"), 1, (output,), 0.1, {}))
    assert (BLAME in " ".join(capsys.readouterr().err.split())) is blamed
