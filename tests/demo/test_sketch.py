from __future__ import annotations

from tawa.demo.sketch import sketch


def test_a_sketch_keeps_the_protocol_and_leaves_out_the_arithmetic():
    aref = """
"builtin.module"() ({
  "tt.func"() <{function_type = (i32) -> (), sym_name = "kernel"}> ({
  ^bb0(%n_0: i32):
    %ring0_0 = "aref.create"() <{name = "ring0"}> : () -> !aref.ring<2 x (!ttg.memdesc<64x32xf16, #shared>)>
    "warp.group"() <{num_warps = 1 : i32, partition = "producer", role = "producer"}> ({
      %count_0 = "aref.first"(%ring0_0) : (!aref.ring<2 x (!ttg.memdesc<64x32xf16, #shared>)>) -> !aref.index<2>
      %0 = "arith.addi"(%n_0, %n_0) : (i32, i32) -> i32
      "aref.put"(%ring0_0, %count_0) ({
        "aref.filled"() : () -> ()
      }) : (!aref.ring<2 x (!ttg.memdesc<64x32xf16, #shared>)>, !aref.index<2>) -> ()
      "aref.landed"(%ring0_0, %count_0) : (!aref.ring<2 x (!ttg.memdesc<64x32xf16, #shared>)>, !aref.index<2>) -> ()
      "warp.end"() : () -> ()
    }) : () -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""
    assert sketch(aref).splitlines() == [
        "%ring0 = aref.create : 2 slots of (64x32xf16)",
        "warp.group producer, 1 warp {",
        "  aref.put %ring0[%count] {",
        "  }",
        "  aref.landed %ring0[%count]",
        "}",
    ]
