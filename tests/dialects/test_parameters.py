"""A parameter's name: as in the source, else as in the IR."""

from __future__ import annotations

from tawa.dialects.parameters import parameter_name, part_of_descriptor
from tawa.dialects.tt import FuncOp
from tawa.ir import parse_module

KERNEL = """
#loc1 = loc("kernel.py":1:0)
#loc2 = loc("a_ptr"(#loc1))
#loc3 = loc(#loc2)
"builtin.module"() ({
  "tt.func"() <{function_type = (i32, i32, i32, i32) -> (), sym_name = "kernel"}> ({
  ^bb0(%arg0: i32 loc(#loc2), %arg1: i32 loc("K"(#loc1)), %M: i32, %arg3: i32 loc(#loc1)):
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""


def test_the_name_in_the_source_comes_first_then_the_name_in_the_ir_then_the_one_given() -> None:
    module = parse_module(KERNEL)
    args = next(view for op in module.body.ops if (view := FuncOp.of(op))).body.args
    args[3].hint = ""
    assert [parameter_name(module, arg, "unnamed") for arg in args] == ["a_ptr", "K", "M", "unnamed"]
    assert parameter_name(module, args[3]) == ""


PARTS = """
#loc1 = loc("kernel.py":1:0)
"builtin.module"() ({
  "tt.func"() <{sym_name = "kernel"}> ({
  ^bb0(%a: !tt.tensordesc<tensor<64x32xf16>> loc("a"(#loc1)), %a_1: i32 loc("a"(#loc1)), %a_2: i32 loc("a"(#loc1)),
       %a_3: i64 loc("a"(#loc1)), %a_4: i64 loc("a"(#loc1)), %K: i32 loc("K"(#loc1))):
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
""".replace("\n       %a_3", " %a_3")


def test_sizes_and_strides_of_a_descriptor_are_told_apart() -> None:
    module = parse_module(PARTS)
    args = next(view for op in module.body.ops if (view := FuncOp.of(op))).body.args
    assert [part_of_descriptor(arg, args) for arg in args] == [
        None, *((args[0], which) for which in (".shape[0]", ".shape[1]", ".strides[0]", ".strides[1]")), None,
    ]  # fmt: skip
