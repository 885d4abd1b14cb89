"""`unwritten`: code that reads a register or a word of the stack which only some paths wrote is found, and not kept."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from triton.backends.nvidia.compiler import get_ptxas

from tawa.bridge.driver.assembly import unwritten as code_check
from tawa.bridge.driver.assembly import wgmma_descriptors
from tawa.bridge.driver.assembly.unwritten import disassembled, unwritten
from tawa.bridge.driver.assembly.wgmma_descriptors import place_descriptors
from tawa.plan import PlanOptions
from tests.cases.attention.builders import backward_case
from tests.cases.attention.cases import find
from tests.matrix.compiling import compile_case, pinned
from tests.support.sample import EVERY_CASE


def machine_code(*lines: str) -> str:
    texts = [line if line.startswith(".L") else f"        /*{16 * at:04x}*/  {line} ;" for at, line in enumerate(lines)]
    return "\n".join([".section .text.f", *texts])


TWO_LOOPS = (
    "@!P0 BRA `(.L_x_1)",
    "UIADD3 UR14, UR4, 0x80, URZ",
    ".L_x_0:",
    "HGMMA.64x128x16.F32 R24, R8, gdesc[UR12], R24",
    "@P0 BRA `(.L_x_0)",
    ".L_x_1:",
    "HGMMA.64x128x16.F32 R24, R8, gdesc[UR12], R24",
    "EXIT",
)


WRITTEN = (
    *(f"UMOV UR{number}, 0x1" for number in range(12, 16)),
    "HGMMA.64x128x16.F32 R24, gdesc[UR12], R24",
    "EXIT",
)


def test_a_register_of_the_first_path_alone_is_found_where_the_second_reads_it() -> None:
    before = "UMOV UR15, 0x4", "UMOV UR4, 0x400"
    found = unwritten(machine_code(*before, *TWO_LOOPS))
    assert len(found) == 1 and found[0].startswith("HGMMA")
    assert not unwritten(machine_code(*before, "UMOV UR14, URZ", *TWO_LOOPS))


@pytest.mark.parametrize(
    ("written", "read", "is_found"),
    [
        ("UMOV.64 UR12, UR60", "HGMMA.64x64x16.F32 R24, R8, gdesc[UR12], R24", True),
        ("UMOV UR12, 0x1", "HGMMA.64x64x16.F32 R24, gdesc[UR10], R24", True),
        ("R2UR UR12, R2", "UISETP.GE.AND UP0, UPT, UR12, UR13, UPT", True),
        ("R2UR UR12, R2", "UISETP.GE.AND UP0, UPT, UR12, 0x3, UPT", False),
        ("UISETP.GE.AND UP0, UPT, URZ, 0x3, UPT", "UTMALDG.4D [UR12], [URZ]", True),
        ("ULDC.64 UR12, c[0x0][0x210]", "STG.E desc[UR12][R2.64], R4", False),
        ("ULDC UR12, c[0x0][0x210]", "STG.E desc[UR12][R2.64], R4", True),
        ("UMOV UR12, 0x1", "SYNCS.EXCH.64 URZ, [UR12+0x20], URZ", False),
        ("UMOV UR12, 0x1", "SYNCS.EXCH.64 URZ, [UR12], UR12", True),
        ("UMOV UR12, 0x1", "UIMAD.WIDE UR8, UR12, 0x4, UR12", True),
        ("UMOV UR12, 0x1", "UIMAD.WIDE UR8, UR12, 0x4, URZ", False),
        ("UMOV UR12, 0x1", "UR2UP UPR, UR12, 0x7f", False),
        ("UMOV UR12, 0x1", "UR2UP UPR, UR13, 0x7f", True),
        ("ELECT P0, UR12, PT", "IMAD R2, R2, UR12, RZ", False),
    ],
)
def test_reads_and_writes_of_instructions(written: str, read: str, is_found: bool) -> None:
    found = unwritten(machine_code(written, read, "EXIT"))
    assert (read in [text.strip() for text in found]) == is_found


CARRIED = (
    ".L_x_0:",
    "LDL.LU.64 R12, [R1+0x20]",
    "R2UR UR6, R12",
    "R2UR UR7, R13",
    "UIADD3 UR10, UP0, URZ, UR6, URZ",
    "UIADD3.X UR11, UR7, -0x7fffffe0, URZ, UP0, !UPT",
    "HGMMA.64x128x16.F32 R88, R152, gdesc[UR8], R88",
    "STL.64 [R1+0x20], R18",
    "@P0 BRA `(.L_x_0)",
    "EXIT",
)


@pytest.mark.parametrize(
    ("before", "is_found"),
    [
        ((), True),
        (("STL.64 [R1+0x20], R2",), False),
        (("STL.128 [R1+0x18], R4",), False),
        (("STL [R1+0x20], R2",), True),
        (("STL [R1+0x20], R2", "STL [R1+0x24], R3"), False),
        (("STL.64 [R1+0x18], R2",), True),
        (("STL.64 [R1+0x20], R2", "LDL.LU R4, [R1+0x24]"), True),
        (("STL.64 [R1+0x20], R2", "LDL R4, [R1+0x24]"), False),
        (("@!P1 BRA `(.L_x_0)", "STL.64 [R1+0x20], R2"), True),
        (("LDL.64 R4, [R1]", "STL.64 [R1+0x20], R4"), True),
        (("LDL.64 R4, [R1]", "CS2R R4, SRZ", "STL.64 [R1+0x20], R4"), False),
        (("LDL.64 R4, [R1]", "LDG.E R5, desc[URZ][R2.64]", "STL.64 [R1+0x20], R4"), True),
    ],
)
def test_a_descriptor_that_a_loop_carries_on_the_stack_is_stored_on_each_path(
    before: tuple[str, ...], is_found: bool
) -> None:
    """As ptxas 12.8 spilled the descriptor of a value tile: the first iteration loads what nobody stored."""
    found = unwritten(machine_code(*before, *CARRIED))
    assert any(text.startswith("UIADD3") for text in found) == is_found


def test_half_of_a_pair_that_is_loaded_may_be_stored() -> None:
    """ptxas stores the lower half, loads the pair, and computes the upper half."""
    code = "STL [R1+0x20], R4", "LDL.LU.64 R12, [R1+0x20]"
    assert not unwritten(machine_code(*code, "IADD3.X R13, R2, R4, RZ, P6, !PT", "IMAD.WIDE R8, R2, 0x2, R12", "EXIT"))
    assert unwritten(machine_code(*code, "IADD3 R8, R13, 0x1, RZ", "EXIT"))
    assert not unwritten(machine_code(*code, "IADD3 R8, R12, 0x1, RZ", "EXIT"))
    assert unwritten(
        machine_code(
            "STL [R1+0x24], R4", code[1], "STL.64 [R1+0x40], R12", "LDL R3, [R1+0x40]", "IADD3 R8, R3, 0x1, RZ"
        )
    )


CARRIED_COPY = (
    "UISETP.GE.AND UP0, UPT, URZ, 0x3, UPT",
    ".L_x_0:",
    "UIADD3 UR14, UP0, URZ, UR10, URZ",
    "UMOV UR15, 0x40000040",
    "HGMMA.64x128x16.F32 R88, R152, gdesc[UR12], R88",
    "UMOV UR10, UR58",
    "@P0 BRA `(.L_x_0)",
    "EXIT",
)


@pytest.mark.parametrize(
    ("before", "after", "is_found"),
    [
        (("R2UR UR58, R150", "USHF.R.S32.HI UR10, URZ, 0x1f, UR58"), (), True),
        (("R2UR UR58, R150", "UMOV UR10, UR58"), (), False),
        (("R2UR UR10, R150", "UMOV UR58, UR10"), (), False),
        (("R2UR UR10, R150", "R2UR UR58, R150"), (), False),
        (("R2UR UR10, R150", "R2UR UR58, R151"), (), True),
        (("UMOV UR10, 0x5", "R2UR UR58, R150", "@!P1 BRA `(.L_x_0)", "UMOV UR10, UR58"), (), True),
        (("UMOV UR10, 0x5", "R2UR UR58, R150", "@UP0 UMOV UR10, UR58"), (), True),
        (("UMOV UR10, 0x5", "R2UR UR58, R150"), ("UIADD3 UR58, UR58, 0x1, URZ",), False),
        (("UMOV UR10, 0x5", "R2UR UR58, R150"), ("@UP0 UIADD3 UR10, UR10, 0x1, URZ",), False),
        (("UMOV UR10, 0x5", "R2UR UR58, R150"), ("UMOV UR10, 0x7",), False),
    ],
)
def test_a_copy_that_a_loop_carries_is_made_for_its_first_iteration(
    before: tuple[str, ...], after: tuple[str, ...], is_found: bool
) -> None:
    """As ptxas 12.8 rotated the base of a descriptor: UR10 holds something else when the loop begins."""
    body = [*CARRIED_COPY[:-2], *after, *CARRIED_COPY[-2:]]
    assert ("UMOV UR10, UR58" in [it.strip() for it in unwritten(machine_code(*before, *body))]) == is_found


def test_a_copy_in_registers_of_threads_counts_as_well() -> None:
    others = {"UIADD3 UR14, UP0, URZ, UR10, URZ": "R2UR UR14, R10", "UMOV UR10, UR58": "IMAD.MOV.U32 R10, RZ, RZ, UR58"}
    body, start = [others.get(it, it) for it in CARRIED_COPY], "R2UR UR58, R150"
    assert unwritten(machine_code(start, "IADD3 R10, R2, 0x1, RZ", *body))
    assert not unwritten(machine_code(start, "MOV R10, UR58", *body))


def test_a_carried_copy_that_nobody_reads_is_no_fault() -> None:
    body = [line for line in CARRIED_COPY if "UIADD3" not in line]
    assert not unwritten(machine_code("UMOV UR10, 0x5", "UMOV UR58, 0x6", "UMOV UR14, URZ", *body))


def test_what_nobody_stored_may_be_copied_ahead_of_a_predicated_write() -> None:
    copied = "LDL R18, [R1+0x150]", "R2UR UR40, R18", "@UP3 UMOV UR40, 0x3"
    assert not unwritten(machine_code(*copied, "MOV R4, UR40", "EXIT"))
    assert unwritten(machine_code(*copied[:2], "MOV R4, UR40", "EXIT"))
    assert unwritten(machine_code(copied[0], "IADD3 R4, R18, 0x1, RZ", "EXIT"))
    assert not unwritten(machine_code(copied[0], "LOP3.LUT R18, R18, 0xffffffdf, RZ, 0xc0, !PT", "EXIT"))
    assert unwritten(machine_code(copied[0], "LOP3.LUT R18, R18, R4, RZ, 0xc0, !PT", "EXIT"))
    assert not unwritten(machine_code(copied[0], "LDSM.16.M88.4 R16, [R2]", "IADD3 R4, R18, 0x1, RZ", "EXIT"))


@pytest.mark.parametrize(
    ("copy", "run"),
    [
        ("UTMALDG.4D [UR16], [UR10]", 6),
        ("UTMALDG.2D [UR16], [UR10]", 4),
        ("UTMASTG.4D [UR16], [UR10]", 5),
        ("UTMAREDG.2D.ADD [UR16], [UR10]", 3),
    ],
)
def test_a_copy_in_bulk_reads_its_address_its_coordinates_and_a_tensor_map(copy: str, run: int) -> None:
    reads = [*range(16, 16 + run), 10, 11]
    writes = [f"UMOV UR{number}, 0x1" for number in reads]
    assert not unwritten(machine_code(*writes, copy, "EXIT"))
    for lacking in range(len(reads)):
        found = unwritten(machine_code(*writes[:lacking], *writes[lacking + 1 :], copy, "EXIT"))
        assert [text.strip() for text in found] == [copy]


@pytest.mark.parametrize("branch", ["BRA.DIV UR4, `(.L_x_1)", "BRA.CONV ~URZ, `(.L_x_1)", "CALL.REL.NOINC `(.L_x_1)"])
def test_code_goes_on_behind_a_branch_that_asks_for_divergence_and_behind_a_call(branch: str) -> None:
    start = "UMOV UR4, 0x1", branch
    read = "IMAD R2, R2, UR6, RZ"
    for body in ((read, "EXIT", ".L_x_1:", "RET"), ("EXIT", ".L_x_1:", read, "RET")):
        assert [text.strip() for text in unwritten(machine_code(*start, *body))] == [read]


def test_a_jump_to_an_unknown_place_is_reported() -> None:
    assert unwritten(machine_code("BRX R2 -0x40", "EXIT"))


def test_text_in_which_no_wgmma_is_read_is_not_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, is_wanted in (("", False), (machine_code("EXIT"), False), (machine_code(*WRITTEN), True)):
        monkeypatch.setattr(code_check, "disassembled", lambda cubin, text=text: text)
        assert code_check.is_sound(b"") == is_wanted


def test_a_table_of_branches_leads_to_each_of_its_targets() -> None:
    table = '        /*0000*/  BRX R2 -0x40      (*"BRANCH_TARGETS .L_x_1,.L_x_2"*);'
    code = machine_code(
        ".L_x_1:", "UMOV UR4, URZ", "BRA `(.L_x_3)", ".L_x_2:", "NOP", ".L_x_3:", "IMAD R2, R2, UR4, RZ"
    )
    head, body = code.split("\n", 1)
    assert unwritten("\n".join((head, table, body))) == ["IMAD R2, R2, UR4, RZ "]


def assembled(ptx: str, folder: Path) -> bytes:
    source, target = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(ptx)
    subprocess.run([get_ptxas(90).path, "--gpu-name=sm_90a", str(source), "-o", str(target)], check=True)
    return target.read_bytes()


def with_loops_copied(reads: Any) -> Any:
    """Blocks outside of the loops share what they compute."""
    return [(it.line, it.sum, it.base, it.place) for it in reads if it.place is not None]


def test_such_a_read_in_code_of_ptxas_is_found_and_the_code_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two loops with a peeled iteration each: ptxas computes what these share on the path into the first one."""
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    monkeypatch.setattr(wgmma_descriptors, "copied", with_loops_copied)
    kept = compile_case(find("persistent_fp16_d128_causal"), pinned(1, 0)).asm
    placed = place_descriptors(kept["ptx"])
    assert placed != kept["ptx"], "it spills, and was tried"
    for cubin, is_sound in ((kept["cubin"], True), (assembled(placed, tmp_path), False)):
        sass = disassembled(cubin)
        assert sass is not None
        assert (not unwritten(sass)) == is_sound


@pytest.mark.skipif(not EVERY_CASE, reason="a change looks at those of two loops, below")
@pytest.mark.parametrize("name", ["added_bf16_d128_full", "added_bf16_d128_causal", "added_fp16_d64_full"])
def test_placed_descriptors_of_gradients_are_kept(name: str) -> None:
    sass = disassembled(compile_case(find(name), PlanOptions(only_if_faster=False)).asm["cubin"])
    assert sass is not None and not unwritten(sass)


PARTLY_FILLED = {"SQ": 300, "SK": 333, "H": 4, "HK": 2, "B": 2}
"""Lengths of which the last tile of keys is masked, so that there are two loops."""
LATE_UPPER_HALF = (
    *(f"UMOV UR{number}, 0x1" for number in (12, 13, 14)),
    "UIADD3.X UR15, URZ, UR49, URZ, UP0, !UPT",
    "@!P0 BRA `(.L_x_0)",
    "UMOV UR15, 0x40000040",
    ".L_x_0:",
    "HGMMA.64x64x16.F32 R24, gdesc[UR12], R24",
    "EXIT",
)


def test_an_upper_half_that_one_path_leaves_from_an_earlier_use_is_found() -> None:
    assert [it.strip() for it in unwritten(machine_code("ULDC.64 UR48, c[0x0][0x10]", *LATE_UPPER_HALF))] == [
        "HGMMA.64x64x16.F32 R24, gdesc[UR12], R24"
    ]


@pytest.mark.parametrize(
    ("made", "is_found"),
    [
        ("UMOV UR15, 0x40000040", False),
        ("UIADD3.X UR15, UR49, 0x40000040, URZ, UP0, !UPT", False),
        ("UIADD3.64 UR14, UR12, 0x2, URZ", False),
        ("UIADD3.64 UR14, UR48, 0x2, URZ", True),
        ("UMOV UR15, UR49", True),
        ("UMOV UR15, UR13", False),
        ("@P0 UMOV UR15, 0x40000040", True),
        ("R2UR UR15, R3", False),
        ("ULEA UR15, UR12, UR13, 0x3", True),
    ],
)
def test_what_makes_the_upper_half_of_a_descriptor(made: str, is_found: bool) -> None:
    start = "ULDC.64 UR48, c[0x0][0x10]", "UMOV UR12, 0x1", "UMOV UR13, 0x1", "UMOV UR14, 0x1", "UMOV UR15, UR49"
    assert bool(unwritten(machine_code(*start, made, *WRITTEN[-2:]))) == is_found


def test_the_copies_of_two_loops_are_opaque(tmp_path: Path) -> None:
    """ptxas removes the shuffle of a number that is the same in all lanes, and shares the sums of both loops."""
    case = backward_case("alibi", "added", causal=False, alibi=True, tile=(128, 128, 8), **PARTLY_FILLED)
    kept = compile_case(case, PlanOptions(only_if_faster=False, precision="relaxed")).asm
    assert kept["ptx"].count("%laneid") >= 2, "the descriptors of two loops were placed"
    transparent = kept["ptx"].replace("%tawa_low, 1, 31, -1;", "%tawa_low, 0, 31, -1;")
    transparent = re.sub(r"add\.u32 \t%tawa_low, %tawa_low, .*;", "", transparent)
    for cubin, is_sound in ((kept["cubin"], True), (assembled(transparent, tmp_path), False)):
        sass = disassembled(cubin)
        assert sass is not None and (not unwritten(sass)) == is_sound
