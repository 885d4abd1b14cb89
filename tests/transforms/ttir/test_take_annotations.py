"""`take_annotations`: the annotation is removed from every loop of every function; other attributes stay."""

from __future__ import annotations

from tawa.ir import parse_module, print_module
from tawa.transforms.ttir.take_annotations import TakeAnnotations

LOOPS = """
"builtin.module"() ({
  "tt.func"() <{function_type = (i32) -> (), sym_name = "inner", sym_visibility = "private"}> ({
  ^bb0(%n: i32):
    "scf.for"(%n, %n, %n) ({
    ^bb0(%i: i32):
      "scf.yield"() : () -> ()
    }) {tt.num_stages = 3 : i32, tt.warp_specialize} : (i32, i32, i32) -> () loc("helper.py":3:4)
    "tt.return"() : () -> ()
  }) : () -> ()
  "tt.func"() <{function_type = (i32) -> (), sym_name = "kernel", sym_visibility = "public"}> ({
  ^bb0(%n: i32):
    "scf.for"(%n, %n, %n) ({
    ^bb0(%i: i32):
      "scf.for"(%n, %n, %n) ({
      ^bb0(%j: i32):
        "scf.yield"() : () -> ()
      }) {tt.warp_specialize = false} : (i32, i32, i32) -> () loc("kernel.py":9:8)
      "scf.yield"() : () -> ()
    }) {tt.flatten, tt.warp_specialize} : (i32, i32, i32) -> () loc("kernel.py":8:4)
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""


def test_every_loop_loses_the_annotation_and_those_that_set_it_are_reported() -> None:
    module = parse_module(LOOPS)
    result = TakeAnnotations().run(module)
    assert result.changed
    assert [str(it.location) for it in result.remarks] == ["helper.py:3", "kernel.py:8"]
    text = print_module(module)
    assert "tt.warp_specialize" not in text
    assert "tt.num_stages = 3 : i32" in text and "tt.flatten" in text


def test_a_program_without_it_is_not_changed() -> None:
    module = parse_module(LOOPS.replace(", tt.warp_specialize", "").replace("tt.warp_specialize = false", ""))
    before = print_module(module)
    assert not TakeAnnotations().run(module).changed
    assert print_module(module) == before
