"""Inline assembly is harmless if every instruction is known to work on registers only."""

from __future__ import annotations

import pytest

from tawa.dialects.inline.assembly import computes_on_registers

HARMLESS = (
    "mov.b32 $0, $1;",
    "cvt.rn.bf16x2.f32 $0, $2, $1;",
    r"{\0A .reg .b32 t<3>;\0A\09 // then: bar.sync 0;\0A shl.b32 t1, $1, 4;\0A lop3.b32 $0, t1, ${1:x}, 15, 0xea;\0A}",
    "ex2.approx.ftz.f32 $0, $1",
    "prmt.b32 $0, $1, $2, 0x5410;",
    "{ .reg .pred p; setp.lt.f32 p, $1, 0f00000000; @p mul.f32 $0, $1, 2.0; @!p mov.f32 $0, $1; }",
    "{ .reg .f16x2 a; mov.b32 a, {$1, $2}; cvt.rn.f16.f32 $0, $1; }",
    "mov.u32 $0, %laneid;",
)
HARMFUL = (
    "bar.sync 8, 256;",
    "mov.b32 $0, $1; bar.sync 8, 256;",
    r"// a comment ends here\0Abar.sync 8, 256;",
    r"// or here\0Dbar.sync 8, 256;",
    "/* mov */ bar.sync 8; /* */",
    "@p bar.sync 8;",
    "{bar.sync 8;}",
    "again: bra again;",
    "ld.shared.b32 $0, [$1];",
    "mbarrier.arrive.shared.b64 _, [$1];",
    "fence.proxy.async;",
    "wgmma.wait_group.sync.aligned 0;",
    "setmaxnreg.dec.sync.aligned.u32 24;",
    "$(bar.sync 8;$|mov.b32 $0, $1;$)",
    ".shared .b32 x;",
    "mov.b32 $0, $1 bar.sync 8;",
    "call f, ();",
)


@pytest.mark.parametrize("text", HARMLESS)
def test_assembly_on_registers_only_is_harmless(text: str) -> None:
    assert computes_on_registers(f'"{text}"')


@pytest.mark.parametrize("text", HARMFUL)
def test_any_other_assembly_may_do_anything(text: str) -> None:
    assert not computes_on_registers(f'"{text}"')
