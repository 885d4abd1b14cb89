"""Words: an operation as the user wrote it, for messages.

    arith.divsi        //               tt.store        tl.store
    math.exp2          tl.exp2          tt.atomic_rmw   tl.atomic_add

An operation that the language has no word for keeps the name that it has in the IR.
"""

from __future__ import annotations

from tawa.dialects import arith, scf, tt, ttng
from tawa.dialects.builtin import GpuBarrierOp, InlineAsmOp
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.inline.code import ElementwiseInlineAsmOp, ExternElementwiseOp
from tawa.ir import Operation
from tawa.ir.attributes import read_int

_WORDS = by_name(
    {
        **dict.fromkeys((arith.AddFOp, arith.AddIOp, tt.AddPtrOp), "+"),
        **dict.fromkeys((arith.SubFOp, arith.SubIOp, arith.NegFOp), "-"),
        **dict.fromkeys((arith.MulFOp, arith.MulIOp), "*"),
        arith.DivFOp: "/",
        **dict.fromkeys((arith.DivSIOp, arith.DivUIOp, arith.FloorDivSIOp), "//"),
        **dict.fromkeys((arith.CeilDivSIOp, arith.CeilDivUIOp), "tl.cdiv"),
        **dict.fromkeys((arith.RemFOp, arith.RemSIOp, arith.RemUIOp), "%"),
        arith.AndIOp: "&",
        arith.OrIOp: "|",
        arith.XOrIOp: "^",
        arith.ShLIOp: "<<",
        **dict.fromkeys((arith.ShRSIOp, arith.ShRUIOp), ">>"),
        **dict.fromkeys((arith.MaximumFOp, arith.MaxNumFOp, arith.MaxSIOp, arith.MaxUIOp), "tl.maximum"),
        **dict.fromkeys((arith.MinimumFOp, arith.MinNumFOp, arith.MinSIOp, arith.MinUIOp), "tl.minimum"),
        **dict.fromkeys((arith.CmpIOp, arith.CmpFOp), "a comparison"),
        arith.SelectOp: "tl.where",
        scf.ForOp: "a for loop",
        scf.WhileOp: "a while loop",
        scf.IfOp: "an if",
        tt.GetProgramIdOp: "tl.program_id",
        tt.GetNumProgramsOp: "tl.num_programs",
        tt.MakeRangeOp: "tl.arange",
        tt.ReduceOp: "a reduction",
        tt.ScanOp: "a scan",
        tt.MapElementwiseOp: "tl.map_elementwise",
        tt.PrintOp: "tl.device_print",
        tt.AssertOp: "tl.device_assert",
        tt.AtomicCASOp: "tl.atomic_cas",
        tt.MakeTensorDescOp: "tl.make_tensor_descriptor",
        tt.DescriptorLoadOp: "a descriptor's load",
        tt.DescriptorStoreOp: "a descriptor's store",
        tt.DescriptorGatherOp: "a descriptor's gather",
        tt.DescriptorScatterOp: "a descriptor's scatter",
        tt.DescriptorReduceOp: "a descriptor's atomic operation",
        ElementwiseInlineAsmOp: "tl.inline_asm_elementwise",
        InlineAsmOp: "inline assembly",
        ExternElementwiseOp: "a function of a library",
        GpuBarrierOp: "tl.debug_barrier",
        ttng.WarpGroupDotOp: "tl.dot",
        **{
            it: f"tl.{it.NAME.removeprefix('tt.')}"
            for it in (
                tt.LoadOp, tt.StoreOp, tt.DotOp, tt.DotScaledOp, tt.GatherOp, tt.HistogramOp, tt.ReshapeOp, tt.SplitOp,
                tt.JoinOp, tt.CatOp, tt.TransOp, tt.ExpandDimsOp, tt.AdvanceOp,
            )
        },
    }
)  # fmt: skip


def word_of(op: Operation) -> str:
    """What the operation is called in Triton's language; its name in the IR if it is not known there."""
    if op.name == tt.AtomicRMWOp.NAME and (kind := op.properties.get("atomic_rmw_op")) is not None:
        return f"tl.atomic_{tt.RMW_NAMES[read_int(kind)]}"
    if op.name.startswith("math."):
        return f"tl.{op.name.removeprefix('math.').removesuffix('f')}"
    return _WORDS.get(op.name, op.name)
