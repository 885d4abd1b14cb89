"""Operations without effects, whose expressions may be inlined into a later statement."""

from __future__ import annotations

from tawa.dialects import arith, tt, ttg
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.inline.code import ExternElementwiseOp
from tawa.emit.values.expressions import CASTS, ELEMENTWISE

PURE = ELEMENTWISE | CASTS | ttg.VIEWS | op_names(
    arith.ConstantOp, tt.SplatOp, tt.BroadcastOp, tt.GetProgramIdOp, tt.GetNumProgramsOp, tt.MakeRangeOp,
    tt.ExpandDimsOp, tt.ReshapeOp, tt.TransOp, tt.JoinOp, tt.SplitOp, tt.ReduceOp, tt.ScanOp, ttg.ConvertLayoutOp,
    ExternElementwiseOp, tt.GatherOp, tt.HistogramOp, tt.ClampFOp, ttg.Fp4ToFpOp, tt.UnsplatOp, tt.IntToPtrOp,
    tt.PtrToIntOp, arith.MaxUIOp, arith.MinUIOp, arith.UIToFPOp, arith.FPToUIOp, arith.RemFOp,
)  # fmt: skip
