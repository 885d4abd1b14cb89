"""What Plans spill, remembered between processes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from triton import knobs
from triton.backends.nvidia.compiler import CUDAOptions

from tawa.bridge.driver import driver
from tawa.bridge.driver.known_spills import KnownSpills
from tawa.bridge.driver.request import Request
from tawa.bridge.driver.spills import Spills
from tawa.ir import parse_module
from tawa.plan import PlanOptions
from tawa.plan.search.space import Space
from tests.bridge.driver.test_stock_run import compiled, slower
from tests.cases.programs.ttgir import tile_gemm

SPILLS = Spills(312, True)


def known(name: str = "kernel", **options: Any) -> KnownSpills:
    return KnownSpills(name, CUDAOptions(**options), 90)


def test_what_was_kept_is_known_to_the_next_process() -> None:
    program = known().key(parse_module(tile_gemm()), 4)
    assert known().of(program) is None
    known().keep(program, SPILLS)
    assert known().of(program) == SPILLS


def test_a_program_is_known_under_another_name_and_at_another_line() -> None:
    text = tile_gemm()
    moved = text.replace('sym_name = "kernel"', 'sym_name = "copy"').replace('"kernel.py":', '"copy.py":4')
    assert moved != text
    assert known().key(parse_module(text), 4) == known("copy").key(parse_module(moved), 4)


def test_other_options_warps_or_compilers_are_other_programs() -> None:
    module = parse_module(tile_gemm())
    keys = {known().key(module, 4), known().key(module, 8), known().key(module, 4, "stock"),
            known(maxnreg=128).key(module, 4)}  # fmt: skip
    assert len(keys) == 4


def test_what_does_not_spill_is_not_kept_and_leaves_no_file(own_cache: Path) -> None:
    known().keep("program.json", Spills())
    assert not own_cache.exists() or not list(own_cache.iterdir())


def test_a_damaged_file_is_not_read_and_always_compile_reads_none() -> None:
    known().keep("program.json", SPILLS)
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        assert known().of("program.json") is None
    path = Path(known()._folder().get_file("program.json"))  # pyright: ignore[reportPrivateUsage]
    path.write_text("{")
    assert known().of("program.json") is None


@pytest.mark.parametrize("legal", [False, True], ids=["declined", "specialised"])
def test_a_kernel_compiled_again_tries_nothing_that_was_left_before(
    legal: bool, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever legal, the kernel that was chosen is compiled, and only that one. All are expected to spill."""
    made: list[int] = []
    monkeypatch.setattr(driver, "will_spill", lambda plan, live: True)
    own = driver.through_back_end
    monkeypatch.setattr(driver, "through_back_end", lambda *given: made.append(1) or own(*given))
    monkeypatch.setattr(Space, "expected", slower)
    request = Request(PlanOptions(only_if_faster=False)) if legal else Request()
    first = compiled(request)
    for entry in [it for it in own_cache.iterdir() if list(it.glob("*.cubin"))]:
        shutil.rmtree(entry)
    before = len(made)
    second = compiled(request)
    record, again = first.metadata.tawa, second.metadata.tawa
    assert record["applied"] == again["applied"] == legal and again["reason"] == record["reason"]
    assert len(made) - before == legal and before == len(record["back_end_runs"])
    assert [it["spill_bytes"] for it in again["back_end_runs"]] == [it["spill_bytes"] for it in record["back_end_runs"]]
    assert all(it["known"] for it in again["back_end_runs"]) and second.asm["cubin"] == first.asm["cubin"]
