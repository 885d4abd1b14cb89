"""The tuning key: the same for the same kernel, wherever it stands in its file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.driver.tuning.tuning_key import tuning_key
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.signature import parse_signature
from tawa.plan import Plan, PlanOptions
from tests.bridge.launch.test_added_arguments import in_place

NOTHING = Request()
TTIR = """#loc = loc("{file}":{line}:0)
#loc5 = loc("K"(#loc))
module {{
  tt.func public @gemm(%{parameter}: i32 {{tt.divisibility = 16 : i32}} loc("K"(#loc))) {{
    %{local} = arith.constant {number} : i32 loc(#loc1)
    tt.return loc(#loc2)
  }} loc(#loc)
}} loc(#loc)
#loc1 = loc("{file}":{line}:4)
"""


def key(
    request: Request = NOTHING, file: str = "a.py", line: int = 3, number: int = 64, local: str = "c",
    parameter: str = "K", **options: Any,
) -> str:  # fmt: skip
    backend = SimpleNamespace(**{"num_warps": 8, "num_stages": 3, "extern_libs": "/here", **options})
    text = TTIR.format(file=file, line=line, number=number, local=local, parameter=parameter)
    return tuning_key(text, backend, request)


@pytest.mark.parametrize(
    "change",
    [
        {"line": 4},
        {"local": "arg16"},
        {"file": "/elsewhere/b.py"},
        {"extern_libs": "/there"},
        {"request": Request(PlanOptions(mode="measure"))},
        {"request": Request(PlanOptions(only_if_faster=False))},
    ],
)
def test_what_does_not_change_the_kernel_does_not_change_its_key(change: dict[str, Any]) -> None:
    assert key(**change) == key()


@pytest.mark.parametrize(
    "change",
    [
        {"number": 32},
        {"parameter": "M"},
        {"num_warps": 4},
        {"num_stages": 4},
        {"request": Request(PlanOptions(aref_depth=3))},
        {"request": Request(plan=Plan(form="persistent"))},
    ],
)
def test_another_kernel_or_another_question_has_another_key(change: dict[str, Any]) -> None:
    assert key(**change) != key()


def test_a_kernel_that_may_not_run_twice_says_that_its_launches_measure_nothing() -> None:
    text = "a_ptr=*fp16:16, b_ptr=*fp16:16, K=i32:16, sam=i32:16, sbk=i32:16"
    signature = parse_signature(text, {"TO_A": False, "B": 64}, in_place.arg_names)
    with launched_by_us():
        record = compile_kernel(in_place, signature, Request(PlanOptions(mode="measure"))).metadata.tawa
    (note,) = [it for it in record["remarks"] if it["kind"] == "note"]
    assert note["reason"].startswith("mode='measure' measures nothing: a second run would change the results")
    assert note["cure"] == "tawa tune measures it on copies of its tensors"
    assert not record["tuning"]["may_run_twice"]
