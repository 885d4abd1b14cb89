"""The result of an asynchronous dot may only be used through the result of a wait."""

from __future__ import annotations

import pytest

from tawa.ir import Module
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Refuted
from tests.matrix.gluon import gluon_module
from tests.support.verdicts import passes
from tests.verify.barriers.test_foreign import DOT, DOT_WAIT, LANDED, RESULT, kernel

pytest.importorskip("triton.experimental.gluon")


def gluon_kernel(through: bool) -> Module:
    from tests.verify.barriers import gluon_waits

    boxes = {name: [64, 64] for name in ("a_desc", "b_desc", "c_desc")}
    constants = {"THROUGH": through, "num_warps": 4}
    return gluon_module(gluon_waits.chained, boxes, constants, dict.fromkeys(boxes, "fp16"), {})


def test_a_gluon_kernel_that_uses_the_result_of_the_wait_is_proved() -> None:
    verdict = check_barriers(gluon_kernel(through=True))
    assert passes(verdict), verdict


def test_a_gluon_kernel_that_ignores_the_result_of_the_wait_is_refuted() -> None:
    verdict = check_barriers(gluon_kernel(through=False))
    assert isinstance(verdict, Refuted), verdict
    assert verdict.witness.kind == "accumulator in flight"
    assert "past its wait" in verdict.witness.message


def used(value: str) -> str:
    return f'%used = "arith.addf"({value}, {value}) : ({RESULT}, {RESULT}) -> {RESULT}'


def second_dot(accumulator: str) -> str:
    return DOT.replace("%sum", "%more").replace("%acc", accumulator)


LATER = DOT_WAIT.replace("%sum", "%more").replace("%done", "%late")
IF = (
    f'%one = "scf.if"(%yes) ({{\n"scf.yield"(%sum) : ({RESULT}) -> ()\n}}, {{\n"scf.yield"(%acc) : ({RESULT}) -> ()\n'
    f"}}) : (i1) -> {RESULT}"
)
PENDING = DOT_WAIT.replace("pendings = 0", "pendings = 1").replace("%done", "%some")
RIGHT = {
    "through the wait": (DOT, DOT_WAIT, used("%done")),
    "as the accumulator of another dot": (DOT, DOT_WAIT, second_dot("%sum"), LATER, used("%late")),
    "through a second wait": (DOT, DOT_WAIT, DOT_WAIT.replace("%done", "%again"), used("%again")),
    "through a branch and a wait": (DOT, IF, DOT_WAIT.replace("%sum", "%one"), used("%done")),
}
WRONG = {
    "past the wait": (DOT, DOT_WAIT, used("%sum")),
    "past the wait, through a branch": (DOT, DOT_WAIT, IF, used("%one")),
    "through a wait that lets it stay in flight": (DOT, PENDING, DOT_WAIT, used("%some")),
    "past the wait, as a tile that is stored": (
        DOT,
        DOT_WAIT,
        f'%cut = "ttg.convert_layout"(%sum) : ({RESULT}) -> tensor<64x64xf32, #blocked>',
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_use_of_the_result_of_a_wait_is_proved(name: str) -> None:
    verdict = check_barriers(kernel(*LANDED, *RIGHT[name]))
    assert passes(verdict), verdict


@pytest.mark.parametrize("name", WRONG)
def test_a_use_that_bypasses_the_wait_is_refuted(name: str) -> None:
    verdict = check_barriers(kernel(*LANDED, *WRONG[name]))
    assert isinstance(verdict, Refuted), verdict
    assert verdict.witness.kind == "accumulator in flight"
