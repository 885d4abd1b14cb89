"""`wgmma_descriptors`: sums of descriptors stand beside their wgmma, and each loop has a base of its own."""

from __future__ import annotations

import re

from tawa.bridge.driver.back_end import place_descriptors
from tawa.bridge.report.report import run_ptxas
from tawa.plan import PlanOptions
from tests.cases.attention.cases import find
from tests.matrix.compiling import compile_case

CONSTANT = 4611686293305294850


def program(*body: str) -> str:
    head = (".visible .entry f(", ")", "{", "\t.reg .pred \t%p<9>;", "\t.reg .b64 \t%rd<99>;", "// %bb.0:")
    return "\n".join((*head, *body, "\tret;", "}"))


def loop(number: int, *body: str) -> tuple[str, ...]:
    return f"$L__BB0_{number}:", *body, f"\t@%p1 bra \t$L__BB0_{number};"


def wgmma(*descriptors: str) -> str:
    return f"\twgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{%r1}}, {', '.join(descriptors)}, 1, 1, 1, 0, 0;"


BASE = "\tcvt.u64.u32 \t%rd1, %r9;"
SUM = f"\tadd.s64 \t%rd2, %rd1, {CONSTANT};"


def test_two_loops_get_a_copy_of_the_base_each_right_before_them() -> None:
    """ptxas would compute what they share on the path into the first loop, which may have no trip."""
    text = program(BASE, SUM, *loop(1, wgmma("%rd2", "%rd2")), "// %bb.2:", *loop(3, wgmma("%rd2", "%rd7")))
    lines = place_descriptors(text).split("\n")
    copies = [number for number, line in enumerate(lines) if "shfl.sync.idx" in line]
    loops = [number for number, line in enumerate(lines) if re.match(r"\$L__BB0_[13]:", line)]
    assert len(copies) == 2 and copies[0] < loops[0] < copies[1] < loops[1]
    for (at,) in [[n] for n, line in enumerate(lines) if "wgmma" in line]:
        copy = re.match(rf"\tadd\.s64 \t(%\w+), (%\w+), {CONSTANT};", lines[at - 1])
        assert copy is not None and copy[1] in lines[at] and f"{copy[2]}, {{" in "\n".join(lines[:at])
    assert "%rd7" in place_descriptors(text), "other operands stay"


def test_a_block_beside_the_loop_gets_a_copy_of_the_base_too_in_front_of_its_first_wgmma() -> None:
    """ptxas would share what it computes there with the loop, or with another such block."""
    peeled, after = (wgmma("%rd2", "%rd7"), wgmma("%rd8", "%rd2")), wgmma("%rd2", "%rd9")
    text = program(BASE, SUM, *peeled, *loop(1, wgmma("%rd2", "%rd7")), "// %bb.2:", after)
    lines = place_descriptors(text).split("\n")
    copies = [line.split(", {")[0].split()[-1] for line in lines if line.startswith("\tmov.b64 \t%tawa_base")]
    sums = [line.split(", ") for line in lines if "%tawa_sum" in line and line.startswith("\tadd")]
    assert [it[1] for it in sums] == [copies[0], copies[0], copies[1], copies[2]] and len(set(copies)) == 3
    first, inside = (next(at for at, line in enumerate(lines) if it in line) for it in ("%rd7", "$L__BB0_1:"))
    assert lines.index(f"\tmov.b64 \t{copies[0]}, {{%tawa_low, %tawa_high}};") < first < inside
    assert not any(re.search(r"%rd2\b", line) for line in lines if "wgmma" in line)


def test_what_is_not_the_same_in_the_loop_stays() -> None:
    inside = program(BASE, *loop(1, SUM, wgmma("%rd2", "%rd7")))
    changing = program(BASE, SUM, *loop(1, wgmma("%rd2", "%rd7"), "\tadd.s64 \t%rd1, %rd1, 64;"))
    nowhere = program(BASE, SUM, wgmma("%rd2", "%rd7"))
    entered_twice = program(
        BASE, SUM, "\t@%p2 bra \t$L__BB0_1;", "// %bb.4:", "\tmov.b64 \t%rd8, 0;", *loop(1, wgmma("%rd2", "%rd7"))
    )
    for text in (inside, changing, nowhere, entered_twice, "no wgmma"):
        assert place_descriptors(text) == text


def test_waiting_loops_of_inline_assembly_are_no_loops_of_the_program() -> None:
    wait = ("{", "\twaitLoop:", "\tmbarrier.try_wait.parity.shared.b64 complete, [%r1], %r2;",
            "\t@!complete bra.uni waitLoop;", "}")  # fmt: skip
    text = place_descriptors(program(BASE, SUM, *loop(1, *wait, wgmma("%rd2", "%rd7"))))
    assert text.count("shfl.sync.idx") == 1 and text.index("shfl.sync.idx") < text.index("$L__BB0_1:")


def test_the_backward_pass_of_attention_spills_little_so() -> None:
    """K and V stay in shared memory during its loop: 64 registers for their descriptors, and 388 bytes of spills."""
    compiled = compile_case(find("added_bf16_d128_full"), PlanOptions(only_if_faster=False))
    text = compiled.asm["ptx"]
    assert "shfl.sync.idx.b32 \t%tawa_low" in text
    assert run_ptxas(text).spill_bytes <= 100
