"""Reading PTX, the log of ptxas, and SASS."""

from __future__ import annotations

import json

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.report.report import read_ptx, read_ptxas_log, read_sass, report, run_ptxas
from tawa.bridge.triton.signature import Signature
from tawa.errors import CompileError
from tests.bridge import kernels

PTX = """
  setmaxnreg.dec.sync.aligned.u32 	24;
  setmaxnreg.inc.sync.aligned.u32 	240;
  @%p1 mbarrier.init.shared::cta.b64 [%r1], 1;
  { .reg .pred P1; mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], %r2; }
  @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16384;
  mbarrier.arrive.shared.b64 _, [%r3], 1;
  @%p2 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r2}], [%r3];
  cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10;
  wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 0;
  // wait for regs: %f1
  wgmma.wait_group.sync.aligned 1;
  bar.sync 	0;
  barrier.sync 	1, 128;
  wgmma.wait_group.sync.aligned 0;
"""

LOG = """
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x in function 'k'
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x in function 'k'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 168 registers, used 2 barriers
"""


def test_ptx_is_counted_in_program_order() -> None:
    seen = read_ptx(PTX)
    assert seen.wgmma_waits == (1, 0)
    assert seen.setmaxnreg == (24, 240)
    assert (seen.wgmmas, seen.bar_syncs, seen.tma_loads, seen.tma_stores, seen.cp_asyncs) == (1, 2, 1, 1, 1)
    assert seen.mbarriers == {"arrive": 2, "init": 1, "try_wait": 1}


def test_registers_spills_and_notes_come_from_the_log() -> None:
    seen = read_ptxas_log(LOG)
    assert (seen.registers, seen.spill_bytes, seen.stack_bytes) == (168, 32, 16)
    assert [(note.code, note.count) for note in seen.notes] == [("C7510", 2)]


def test_sass_is_counted() -> None:
    seen = read_sass(
        "\tHGMMA.64x64x16.F32 R24, gdesc[UR8], !UPT, gsb0 ;\n\tWARPGROUP.DEPBAR.LE gsb0, 0x1 ;\n"
        "\tBAR.SYNC.DEFER_BLOCKING 0x0 ;\n\tUTMALDG.2D [UR8], [UR4] ;\n\tUTMASTG.2D [UR8], [UR4] ;\n\tSTL [R1], R2 ;\n"
    )
    assert (seen.hgmmas, seen.depbars, seen.bar_syncs) == (1, (1,), 1)
    assert (seen.tma_loads, seen.tma_stores, seen.local_accesses) == (1, 1, 1)
    assert seen.instructions == 6


def test_a_compiled_kernel_is_reported_with_the_wheels_own_tools(gemm_signature: Signature) -> None:
    compiled = compile_kernel(kernels.gemm_descriptors, gemm_signature, None)
    seen = report(compiled, sass=True)
    assert seen.sass is not None
    assert seen.ptx.wgmmas == seen.sass.hgmmas > 0
    assert seen.ptx.tma_loads == seen.sass.tma_loads > 0
    assert seen.ptxas.spill_bytes == 0 < seen.ptxas.registers
    assert seen.ptxas.version
    assert json.loads(json.dumps(seen.to_json()))["ptx"]["wgmma_waits"] == list(seen.ptx.wgmma_waits)


def test_ptx_that_ptxas_refuses_is_an_error_with_its_words() -> None:
    with pytest.raises(CompileError, match="nonsense"):
        run_ptxas(".version 8.0\n.target sm_90a\n.address_size 64\nnonsense;\n")
