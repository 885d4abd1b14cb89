"""The source of a kernel: its functions, also those that it calls, in files and in cells of a notebook."""

from __future__ import annotations

import linecache
from functools import cache
from pathlib import Path

import pytest

import tawa
from tawa.plan import PartitionPlan, Plan
from tawa.runtime.explain.explanation import Explanation
from tawa.runtime.explain.source import ALL_WARPS, function_around, names_of_plan, source_of_kernel
from tests.cases.pointers.gemm import gemm_masked

pytestmark = pytest.mark.usefixtures("without_ptx")

POINTERS = (
    "a_ptr=*fp16:16, b_ptr=*fp16:16, c_ptr=*fp16:16, M=i32:16, N=i32:16, K=i32:16, stride_am=i32:16, stride_ak=1, "
    "stride_bk=i32:16, stride_bn=1, stride_cm=i32:16, stride_cn=1"
)
CELL = (
    "import triton\n\n@triton.jit\ndef first(p):\n    def inner():\n        pass\n    return p\n\ndef second(): pass\n"
)


@cache
def explained(groups: int) -> Explanation:
    blocks = {"BM": 128, "BN": 128, "BK": 64, "GROUP_M": 8}
    options = {"num_consumer_groups": groups, "only_if_faster": False}
    return tawa.explain(gemm_masked, POINTERS, blocks, num_warps=8, **options)


def test_functions_that_a_kernel_calls_follow_it() -> None:
    seen = explained(1).source
    assert [it.name for it in seen] == ["gemm_masked", "grouped_tile", "store_tile"]
    kernel, tile, store = ({line.text.strip(): line.work for line in it.lines} for it in seen)
    assert {who for work in tile.values() for who in work} == {ALL_WARPS, "producer", "consumer"}
    assert {who for work in store.values() for who in work} == {"consumer"}
    call = next(work for text, work in kernel.items() if text.startswith("store_tile("))
    assert call == {"consumer": ("epilogue, store",)}


def test_each_consumer_group_is_named() -> None:
    seen = explained(2)
    work = next(line.work for line in seen.source[0].lines if "tl.dot" in line.text)
    assert {it.name for it in seen.partitions} == {"producer", "consumer0", "consumer1"}
    assert {"consumer0", "consumer1"} <= set(work) and "matrix multiply" in work["consumer1"]


def test_partitions_beside_the_consumers_are_in_the_order_of_the_program() -> None:
    roles = (("producer", 1), ("mma", 1), ("converter", 2), ("consumer0", 4), ("consumer1", 4))
    parts = tuple(PartitionPlan(name, name.rstrip("01"), warps, 24) for name, warps in roles)  # type: ignore[arg-type]
    found = names_of_plan(Plan(partitions=parts))
    assert list(found.values()) == ["consumer0", "consumer1", "converter", "mma", "producer"]
    assert list(found) == ["default", "partition0", "partition1", "partition2", "partition3"]


def test_a_cell_of_a_notebook_has_its_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "/tmp/ipykernel_1/2.py"
    monkeypatch.setitem(linecache.cache, name, (len(CELL), None, CELL.splitlines(keepends=True), name))
    names = {line: found.name for line in range(1, 10) if (found := function_around(name, line))}
    assert names == {3: "first", 4: "first", 5: "inner", 6: "inner", 7: "first", 9: "second"}
    (shown,) = source_of_kernel(None, {}, f"{name}:4")
    assert [it.number for it in shown.lines] == [3, 4, 5, 6, 7] and shown.lines[1].text == "def first(p):"


@pytest.mark.parametrize("text", ["def f(:\n", "\0"])
def test_a_file_that_cannot_be_read_as_python_has_no_functions(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_text(text)
    assert function_around(str(path), 1) is None
    assert function_around(str(tmp_path / "missing.py"), 1) is None
