"""Kinds of operations: the epilogue is what reaches only stores."""

from __future__ import annotations

from tawa.ir import Module
from tawa.sim.machine.trace import Recorder
from tawa.sim.time.kinds import Kinds, role_of
from tests.cases.programs.ttgir import op, ops_named
from tests.sim.small import BUFFER, LOAD, ROW, STORE, kernel, row


def program(*uses: str) -> Module:
    return kernel(*row(), LOAD, op("arith.negf", "%v", ROW, "%result", ROW), *uses, STORE)


def test_an_operation_whose_result_is_only_stored_is_epilogue() -> None:
    module, kinds = program(), Kinds()
    (negation,), (load,), (store,) = (ops_named(module, name) for name in ("arith.negf", "tt.load", "tt.store"))
    assert [kinds.of(it) for it in (load, negation, store)] == ["load", "epilogue", "epilogue"]


def test_an_operation_whose_result_has_another_use_is_not_epilogue() -> None:
    module = program(op("tt.print", "%result", ROW), op("arith.negf", "%result", ROW, "%unused", ROW))
    assert Kinds().of(ops_named(module, "arith.negf")[0]) == "cuda core"


def test_loads_make_a_producer_unless_the_agent_is_alone() -> None:
    recorder = Recorder("partition0", 1)
    assert role_of([recorder], alone=False) is None
    recorder.step(ops_named(program(), "tt.load")[0], None)
    assert role_of([recorder], alone=False) == "producer"
    assert role_of([recorder], alone=True) == "all warps"


def test_an_agent_that_only_copies_in_shared_memory_is_a_converter() -> None:
    recorder = Recorder("partition0", 1)
    module = kernel(
        op("ttg.local_alloc", "", "", "%stage", BUFFER),
        op("ttg.local_load", "%stage", BUFFER, "%v", ROW),
        op("ttg.local_store", "%v, %stage", f"{ROW}, {BUFFER}"),
    )
    recorder.step(ops_named(module, "ttg.local_store")[0], None)
    assert role_of([recorder], alone=False) == "converter"
