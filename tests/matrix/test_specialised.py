"""Every case that must be specialised is, with the expected rings, protocol and wgmma waits."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tawa.bridge.report.report import KernelReport, report
from tawa.dialects.aref import PutOp
from tawa.ir import parse_module
from tests.cases.case import Specimen
from tests.cases.gemm.cases import SPECIALISED, find
from tests.matrix.compiling import compile_and_report, compiled_pair, pinned
from tests.support.sample import EVERY_CASE, sample

FEW_REGISTERS = 64
"""Bytes of spills that are tolerated in epilogues: a few values, depending on the version of ptxas."""


def expected(case: Specimen) -> bool:
    return case.expect.verdict == "specialised"


WORK = sample(
    [
        pytest.param(case, depth, mma_depth, id=f"{case.name}-D{depth}P{mma_depth}")
        for number, case in enumerate(SPECIALISED)
        if expected(case)
        for depth, mma_depth in (case.plans if EVERY_CASE else case.plans[number % len(case.plans) :][:1])
    ],
    8,
)


def arefs(text: str) -> Counter[str]:
    """Counts of the operations; puts that fill first slots before the fork are counted as ``early``."""
    counts: Counter[str] = Counter()
    for op in parse_module(text).walk():
        put = PutOp.of(op)
        counts["early" if put is not None and put.fresh else op.name] += 1
    return counts


def check_rings(case: Specimen, depth: int, plan: dict[str, Any]) -> None:
    assert tuple(len(ring["payload"]) for ring in plan["rings"]) == case.expect.payloads
    assert {ring["depth"] for ring in plan["rings"]} == {depth}


def check_protocol(case: Specimen, mma_depth: int, text: str) -> None:
    ops = arefs(text)
    assert ops["early"] in (0, case.expect.sites // len(case.expect.dots)), (
        "early puts: one per put of the first loop, or none"
    )
    assert ops["aref.create"] == len(case.expect.payloads)
    assert ops["aref.put"] == ops["aref.get"] == case.expect.sites
    assert ops["aref.consumed"] == case.expect.releases(mma_depth)


def spills_allowed(case: Specimen) -> int:
    """Bytes of spills allowed: none, except in epilogues, where stock Triton spills too or a few registers spill."""
    if not case.name.startswith("epilogue"):
        return 0
    return max(FEW_REGISTERS, report(compiled_pair(case.name)[0]).ptxas.spill_bytes)


def check_machine_code(case: Specimen, mma_depth: int, found: KernelReport) -> None:
    assert sorted(found.ptx.wgmma_waits) == case.expect.waits(mma_depth)
    spilled = found.ptxas.spill_bytes
    assert spilled == 0 or spilled <= spills_allowed(case)
    serialised = [note.code for note in found.ptxas.notes if note.code in ("C7510", "C7514", "C7515", "C7517")]
    assert not serialised


@pytest.mark.parametrize(("case", "depth", "mma_depth"), WORK)
def test_case_specialises_with_its_rings_protocol_and_waits(case: Specimen, depth: int, mma_depth: int) -> None:
    compiled, found = compile_and_report(case, pinned(depth, mma_depth))
    record = compiled.metadata.tawa
    assert record["applied"], record["reason"]
    check_rings(case, depth, record["plan"])
    check_protocol(case, mma_depth, compiled.asm["aref"])
    check_machine_code(case, mma_depth, found)


def test_the_ptxas_log_of_triton_equals_that_of_a_separate_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    compiled, found = compile_and_report(find("tile_64x64"), pinned(2, 1))
    assert found.ptxas.registers and not found.ptxas.version, "ptxas was asked"
    asked = report(compiled)
    assert found == replace(asked, ptxas=replace(asked.ptxas, version=""))


def test_the_matrix_names_every_item_that_must_specialise() -> None:
    names = " ".join(case.name for case in SPECIALISED if expected(case))
    items = (
        "tile_fp16_nn tile_fp16_nt tile_fp16_tn tile_fp16_tt tile_bf16_tt tile_fp8e4nv_nt tile_fp8e5_nt "
        "tile_fp32_nt tile_fp32_tn device_desc persistent_range persistent_flat persistent_device_desc "
        "triangular ragged tile_k_below_block tile_k_zero tile_edges batched_grid batched_desc gate_up "
        "invariant two_loops lower_only if_accumulate epilogue_bias epilogue_relu epilogue_silu epilogue_gelu "
        "epilogue_scalar epilogue_rows epilogue_residual_descriptor epilogue_residual_pointer "
        "epilogue_bf16_cast epilogue_pointer_store tile_8warps tile_stages1 tile_stages5 "
    )
    assert [item for item in items.split() if not re.search(rf"\b{item}", names)] == []
